"""A Hugging Face Trainer under Determined."""

from typing import Any

import determined as det
import pace
import torch
import transformers
from determined.transformers import DetCallback


class Line(torch.nn.Module):  # type: ignore[misc]
    """Learns y = 2x."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([0.5]))

    def forward(self, x: Any, labels: Any = None) -> Any:
        y = x * self.weight
        return {"loss": ((y - labels) ** 2).mean(), "logits": y}


class Pace(transformers.TrainerCallback):  # type: ignore[misc]
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        pace.step(state.global_step)


def main(core: "det.core.Context") -> None:
    data = [{"x": torch.tensor([i / 10]), "labels": torch.tensor([i / 5])} for i in range(20)]
    args = transformers.TrainingArguments(
        output_dir="out",
        max_steps=40,
        per_device_train_batch_size=2,
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=20,
        save_strategy="steps",
        save_steps=20,
        learning_rate=0.1,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = transformers.Trainer(
        model=Line(),
        args=args,
        train_dataset=data,
        eval_dataset=data,
        callbacks=[DetCallback(core, args), Pace()],
    )
    trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)


if __name__ == "__main__":
    with det.core.init() as core:
        main(core)
