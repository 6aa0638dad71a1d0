import pathlib
import shutil
import tempfile
from typing import Any, Dict, Mapping, Optional, Set, Union

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

from determined.experimental import core_v2


class DetLogger(Logger):  # type: ignore[misc]
    """A logger for a Lightning Trainer. It reports metrics and checkpoints to a new experiment.

    Inside a trial it reports to that trial. Metrics named `val...` are validation metrics, metrics named `test...`
    go to the group "test", and all others are training metrics.
    """

    def __init__(
        self,
        *,
        defaults: Optional[core_v2.DefaultConfig] = None,
        unmanaged: Optional[core_v2.UnmanagedConfig] = None,
        config: Optional[core_v2.Config] = None,
        client: Optional[Any] = None,
    ) -> None:
        super().__init__()
        self._arguments: Dict[str, Any] = {
            "defaults": defaults,
            "unmanaged": unmanaged,
            "config": config,
            "client": client,
        }
        self._context: Optional[Any] = None
        self._stored: Set[str] = set()
        self._reported: Dict[str, Set[str]] = {}
        self._reported_at = -1

    @property
    def name(self) -> str:
        return "determined"

    @property
    def version(self) -> Union[int, str]:
        info = self._context.info if self._context is not None else None
        return info.trial.trial_id if info is not None else 0

    @property
    def experiment(self) -> Any:
        """Return the Core API context. It is opened at the first use."""
        if self._context is None:
            self._context = core_v2.init_context(**self._arguments)
            self._context.start()
        return self._context

    @rank_zero_only  # type: ignore[untyped-decorator]
    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Store hyperparameters as metadata of the run, because the experiment's configuration exists already."""
        values = params if isinstance(params, Mapping) else vars(params)
        self.experiment.train.set_metadata({"hparams": {k: _plain(v) for k, v in values.items()}})

    @rank_zero_only  # type: ignore[untyped-decorator]
    def log_metrics(self, metrics: Mapping[str, float], step: Optional[int] = None) -> None:
        epoch = metrics.get("epoch")
        steps = (step or 0) + 1
        groups: Dict[str, Dict[str, Any]] = {}
        for name, value in metrics.items():
            if name != "epoch" and self._is_new(name, steps):
                groups.setdefault(group_of(name), {})[name] = float(value)
        position = {"batches": steps, **({"epochs": int(epoch)} if epoch is not None else {})}
        for group, values in groups.items():
            self.experiment.train.report_metrics(group, steps, {**values, **position})

    @rank_zero_only  # type: ignore[untyped-decorator]
    def after_save_checkpoint(self, checkpoint_callback: Any) -> None:
        """Store each file that Lightning's ModelCheckpoint wrote."""
        written = [*checkpoint_callback.best_k_models, checkpoint_callback.last_model_path]
        for file in {*written, checkpoint_callback.best_model_path} - self._stored:
            if file and pathlib.Path(file).is_file():
                self._stored.add(file)
                self._store(pathlib.Path(file), checkpoint_callback)

    @rank_zero_only  # type: ignore[untyped-decorator]
    def finalize(self, status: str) -> None:
        if self._context is not None:
            self._context.close()
            self._context = None

    def _store(self, file: pathlib.Path, checkpoint_callback: Any) -> None:
        steps = int(getattr(checkpoint_callback, "_last_global_step_saved", 0) or 0)
        with tempfile.TemporaryDirectory() as scratch:
            shutil.copy(file, scratch)
            self.experiment.checkpoint.upload(scratch, {"steps_completed": steps})

    def _is_new(self, name: str, steps: int) -> bool:
        """Return whether the metric is new at this step. The cluster rejects a second value for the same step."""
        if steps != self._reported_at:
            self._reported, self._reported_at = {}, steps
        names = self._reported.setdefault(group_of(name), set())
        if name in names:
            return False
        names.add(name)
        return True


def group_of(name: str) -> str:
    if name.startswith("val"):
        return "validation"
    return "test" if name.startswith("test") else "training"


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
