"""Train a sharded trial on each rank: trial_script.py PLAN ASYNC BATCHES [CHECKPOINT]. Print the final state."""

import json
import logging
import sys
from typing import Any

import torch
from determined import pytorch
from determined.pytorch import _sharded_state

from tests.support.sharded_trial import BlockTrial


def values(state: Any) -> Any:
    """Return the complete tensors as lists."""
    if isinstance(state, torch.Tensor):
        return (state.full_tensor() if hasattr(state, "full_tensor") else state).tolist()
    if isinstance(state, dict):
        return {str(k): values(v) for k, v in state.items()}
    return [values(v) for v in state] if isinstance(state, list) else state


def main(plan: str, asynchronous: str, batches: str, *checkpoint: str) -> None:
    torch.set_num_threads(1)
    logging.disable(logging.INFO)
    with pytorch.init(
        exp_conf={"reproducibility": {"experiment_seed": 3}}, enable_tensorboard_logging=False
    ) as context:
        losses: list[float] = []
        report = context._core.train
        report.report_training_metrics = lambda *a: losses.extend(r["loss"] for r in a[2])
        if plan == "none":
            BlockTrial.plan = None
        trial = BlockTrial(context)
        loaded: list[Any] = []

        class Watch(pytorch.PyTorchCallback):
            def on_training_start(self) -> None:
                loaded.append(values(_sharded_state.collect(context)))

        trial.build_callbacks = lambda: {"watch": Watch()}  # type: ignore[method-assign]
        pytorch.Trainer(trial, context).fit(
            max_length=pytorch.Batch(int(batches)),
            checkpoint_policy="none",
            latest_checkpoint=checkpoint[0] if checkpoint else None,
            async_checkpoints=asynchronous == "async",
        )
        final = values(_sharded_state.collect(context))
        if context.distributed.rank == 0:
            result = {"loaded": loaded[0], "final": final, "losses": losses}
            print(json.dumps(result))


main(*sys.argv[1:])
