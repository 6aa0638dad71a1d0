"""Run Hugging Face Trainers as trials: pass a DetCallback to the Trainer."""

from determined.transformers._callback import DetCallback
from determined.transformers._deepspeed_args import get_ds_config_path_from_args

__all__ = ["DetCallback", "get_ds_config_path_from_args"]
