"""A small transformer from transformers, trained from scratch by its Trainer, without downloads.

The sentences are generated: a sentence is positive if it has more good words than bad ones.
"""

import random
import sys

import determined as det
import transformers
from determined.transformers import DetCallback

GOOD, BAD, OTHER = range(1, 11), range(11, 21), range(21, 64)
LENGTH = 16


def sentences(count: int, seed: int) -> list[dict]:
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        label = rng.randrange(2)
        liked, disliked = (GOOD, BAD) if label else (BAD, GOOD)
        words = rng.choices(liked, k=5) + rng.choices(disliked, k=2) + rng.choices(OTHER, k=9)
        rng.shuffle(words)
        found.append({"input_ids": words, "labels": label})
    return found


def build() -> transformers.PreTrainedModel:
    config = transformers.BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
        num_labels=2,
    )
    return transformers.BertForSequenceClassification(config)


def main(core: det.core.Context) -> None:
    # The options of transformers' own scripts, as the entrypoint gives them.
    parser = transformers.HfArgumentParser(transformers.TrainingArguments)
    (arguments,) = parser.parse_args_into_dataclasses(sys.argv[1:])
    trainer = transformers.Trainer(
        model=build(),
        args=arguments,
        train_dataset=sentences(2_000, seed=1),
        eval_dataset=sentences(200, seed=2),
        # It reports the Trainer's metrics, stores its checkpoints, and stops it when the cluster asks.
        callbacks=[DetCallback(core, arguments)],
    )
    trainer.train(resume_from_checkpoint=arguments.resume_from_checkpoint)


if __name__ == "__main__":
    with det.core.init() as core:
        main(core)
