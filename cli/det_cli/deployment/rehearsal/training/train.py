"""A training script without dependencies for Python 3.9 and later, which runs in the default task image.

Each value depends on all earlier steps, so a wrong resume changes the metrics.
"""

import json
import os
import pathlib
import time
from typing import Any

_MODULUS = 1_000_003
CHECKPOINT_EVERY = 5


def next_value(value: int, step: int) -> int:
    return (value * 31 + step) % _MODULUS


def value_after(steps: int) -> int:
    """Return the metric that the training reports after some steps."""
    value = 1
    for step in range(1, steps + 1):
        value = next_value(value, step)
    return value


def main() -> None:
    import determined as det

    info = det.get_cluster_info()
    assert info is not None
    assert info.trial is not None
    steps, pause_s = int(info.trial.hparams["steps"]), float(info.trial.hparams["pause_s"])
    step, value = 0, 1
    with det.core.init() as core:
        if info.latest_checkpoint is not None:
            with core.checkpoint.restore_path(info.latest_checkpoint) as path:
                saved = json.loads((path / "state.json").read_text())
            step, value = saved["step"], saved["value"]
        resumed_from = step
        print(f"starting at step {step} on {os.environ.get('DET_AGENT_ID')}", flush=True)
        while step < steps:
            step += 1
            value = next_value(value, step)
            time.sleep(pause_s)
            core.train.report_training_metrics(step, {"value": value, "resumed_from": resumed_from})
            must_leave = core.preempt.should_preempt()
            if step % CHECKPOINT_EVERY == 0 or must_leave:
                _save(core, step, value)
            if must_leave:
                return
        core.train.report_validation_metrics(step, {"value": value})


def _save(core: Any, step: int, value: int) -> None:
    with core.checkpoint.store_path({"steps_completed": step}) as (path, _):
        (pathlib.Path(path) / "state.json").write_text(json.dumps({"step": step, "value": value}))


if __name__ == "__main__":
    main()
