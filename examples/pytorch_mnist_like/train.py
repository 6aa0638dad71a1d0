"""The same trial from a script: `python3 train.py`, on a cluster or off."""

import logging

import determined as det
from determined import pytorch
from model_def import DigitsTrial

HPARAMS = {
    "records": 2000,
    "global_batch_size": 50,
    "learning_rate": 0.003,
    "filters": 8,
    "dropout": 0.25,
}


def main() -> None:
    info = det.get_cluster_info()
    with pytorch.init(hparams=None if info else HPARAMS) as context:
        trainer = pytorch.Trainer(DigitsTrial(context), context)
        trainer.fit(
            max_length=pytorch.Epoch(3),
            validation_period=pytorch.Epoch(1),
            latest_checkpoint=info.latest_checkpoint if info else None,
        )


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main()
