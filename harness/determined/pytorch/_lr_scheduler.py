import enum
from typing import Any, Dict, List


class LRScheduler:
    """A PyTorch learning rate scheduler, and the setting when the Trainer steps it."""

    class StepMode(enum.Enum):
        STEP_EVERY_EPOCH = 1
        STEP_EVERY_BATCH = 2
        STEP_EVERY_OPTIMIZER_STEP = 3
        MANUAL_STEP = 4

    def __init__(
        self, scheduler: Any, step_mode: "LRScheduler.StepMode", frequency: int = 1
    ) -> None:
        if not isinstance(step_mode, LRScheduler.StepMode):
            raise TypeError(
                f"step_mode must be a member of LRScheduler.StepMode, not {step_mode!r}"
            )
        if not isinstance(frequency, int) or frequency < 1:
            raise ValueError(f"frequency must be an integer of at least 1, not {frequency!r}")
        self._scheduler = scheduler
        self._step_mode = step_mode
        self._frequency = frequency

    def step(self, *args: Any, **kwargs: Any) -> None:
        self._scheduler.step(*args, **kwargs)

    def step_if_due(self, number: int) -> None:
        """Step after the `number`-th batch, epoch or optimizer step (counted from 1)."""
        if number % self._frequency == 0:
            self._scheduler.step()

    def get_last_lr(self) -> List[float]:
        lrs: List[float] = self._scheduler.get_last_lr()
        return lrs

    def state_dict(self) -> Dict[str, Any]:
        state: Dict[str, Any] = self._scheduler.state_dict()
        return state

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        self._scheduler.load_state_dict(state_dict)
