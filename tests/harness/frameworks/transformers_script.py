"""Train a tiny model with a Hugging Face Trainer, and print the reports."""

import json
import os
import pathlib
import sys
from types import SimpleNamespace
from typing import Any

import torch
import transformers
from determined.transformers import DetCallback

from tests.support.fake_core import FakeCore


class Line(torch.nn.Module):  # type: ignore[misc]
    """A model that learns y = 2x."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([0.5]))

    def forward(self, x: Any, labels: Any = None) -> Any:
        y = x * self.weight
        return {"loss": ((y - labels) ** 2).mean(), "logits": y}


class Callback(DetCallback):
    resume_path: Any = None

    def load_last_checkpoint(self, args: Any) -> None:
        super().load_last_checkpoint(args)
        self.resume_path = args.resume_from_checkpoint


DIRECTORY, PREEMPT_AFTER, LATEST = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
core: Any = FakeCore(DIRECTORY)
core.train.given_up = "GIVEN_UP" in os.environ
SEARCHER = json.loads(os.environ.get("SEARCHER", "{}"))
CONFIG = {"searcher": {"name": "single", "metric": "eval_loss", **SEARCHER}}
core.info = SimpleNamespace(
    latest_checkpoint=LATEST[0] if LATEST else None,
    task_type="TRIAL",
    trial=SimpleNamespace(trial_id=1, _config=CONFIG),
)
core.preempt.after_calls = PREEMPT_AFTER if PREEMPT_AFTER >= 0 else None
data = [{"x": torch.tensor([i / 10.0]), "labels": torch.tensor([i / 5.0])} for i in range(10)]
arguments: dict[str, Any] = {
    "output_dir": str(DIRECTORY / "out"),
    "max_steps": 6,
    "per_device_train_batch_size": 2,
    "logging_steps": 1,
    "eval_strategy": "steps",
    "eval_steps": 3,
    "save_strategy": "steps",
    "save_steps": 6,
    "learning_rate": 0.1,
    "report_to": [],
    "disable_tqdm": True,
    "use_cpu": True,
    **json.loads(os.environ.get("ARGUMENTS", "{}")),
}
args = transformers.TrainingArguments(**arguments)
callback = Callback(core, args, user_data={"note": "mine"})
trainer = transformers.Trainer(
    model=Line(), args=args, train_dataset=data, eval_dataset=data, callbacks=[callback]
)
trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
print(
    json.dumps(
        {
            "resume_path": callback.resume_path,
            "training": [[s, m] for s, m, _ in core.train.training],
            "validations": core.train.validations,
            "saved": {
                s: [p.name, sorted(str(f.relative_to(p)) for f in p.rglob("*") if f.is_file())]
                for s, p in core.saved().items()
            },
        }
    )
)
