"""The trial of examples/fsdp_transformer, which also writes its whole state to a file after each epoch."""

import os
from typing import Any

import torch
from determined import pytorch
from model_def import TransformerTrial


class PlainStates(pytorch.PyTorchCallback):
    def __init__(self, trial: TransformerTrial) -> None:
        self._trial = trial

    def on_training_epoch_end(self, epoch_idx: int) -> None:
        trial = self._trial
        state = {
            "models_state_dict": [whole(trial.model.state_dict())],
            "optimizers_state_dict": [whole(trial.optimizer.state_dict())],
        }
        if trial.context.distributed.rank == 0:
            torch.save(state, os.environ["PLAIN_STATE"])


class PlainTrial(TransformerTrial):  # type: ignore[misc]
    def build_callbacks(self) -> Any:
        return {"plain": PlainStates(self)}


def whole(value: Any) -> Any:
    if hasattr(value, "full_tensor"):
        return value.full_tensor()
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    return [whole(item) for item in value] if isinstance(value, list) else value
