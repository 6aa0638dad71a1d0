"""Train the transformer outside a cluster, on one process or with torchrun:

torchrun --nproc-per-node 2 train.py --epochs 1 [--checkpoint UUID]
"""

import argparse
import logging
from typing import Any

import determined as det
from determined import pytorch
from model_def import TransformerTrial

HPARAMS: dict[str, Any] = {
    "records": 4000,
    "global_batch_size": 64,
    "learning_rate": 0.003,
    "width": 64,
    "layers": 3,
}


def main() -> None:
    logging.basicConfig(level=logging.INFO, format=det.LOG_FORMAT)
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--records", type=int, default=HPARAMS["records"])
    parser.add_argument("--checkpoint", help="UUID of the checkpoint to resume")
    args = parser.parse_args()
    hparams = {**HPARAMS, "records": args.records}
    with pytorch.init(hparams=hparams, exp_conf={}) as context:
        trainer = pytorch.Trainer(TransformerTrial(context), context)
        trainer.fit(
            max_length=pytorch.Epoch(args.epochs),
            validation_period=pytorch.Epoch(1),
            latest_checkpoint=args.checkpoint,
            async_checkpoints=True,
        )


if __name__ == "__main__":
    main()
