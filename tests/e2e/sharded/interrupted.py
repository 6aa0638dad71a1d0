"""Store two checkpoints asynchronously. The test kills the first run while its second one is uploaded."""

import logging

import determined as det
import torch
from determined import core

MIB = 1024 * 1024
STEPS = 2

logging.basicConfig(level=logging.INFO, format=det.LOG_FORMAT)
with core.init() as context:
    latest = det.get_cluster_info().latest_checkpoint  # type: ignore[union-attr]
    done = 0
    if latest is not None:
        with context.checkpoint.restore_path(latest) as path:
            done = torch.load(path / "state_dict.pth", weights_only=True)["done"]
    print(f"|| begins after {done} steps", flush=True)
    for step in range(done + 1, STEPS + 1):
        weights = torch.full((5 * MIB,), float(step))
        state = {"weights": weights, "done": step}
        context.checkpoint.store_async(state, {"steps_completed": step})
        context.checkpoint.wait()
        context.train.report_validation_metrics(step, {"loss": 1.0 / step})
