"""Prevent torch from loading its compiler unless it is used: `lean_torch.py SITE_PACKAGES`.

torch's optimizers and DistributedDataParallel load torch._dynamo only to disable it. This takes longer than loading
torch itself, in each of the hundreds of training processes of the tests. Programs that call torch.compile still load
the compiler.
"""

import sys
from pathlib import Path
from typing import NamedTuple

_LOADED = '"torch._dynamo" in __import__("sys").modules'


class Change(NamedTuple):
    """A text in a file of torch, how many times it occurs, and its replacement."""

    file: str
    old: str
    new: str
    times: int = 1


CHANGES = (
    Change(
        "_compile.py",
        "            if disable_fn is None:\n",
        f"            if not ({_LOADED}):\n                return fn(*args, **kwargs)\n"
        "            if disable_fn is None:\n",
    ),
    Change(
        "optim/optimizer.py",
        "        import torch._dynamo\n\n        self = cast",
        "        # Without torch._dynamo.\n        self = cast",
    ),
    Change(
        "optim/optimizer.py",
        "            torch._dynamo.graph_break()\n",
        f"            if {_LOADED}:\n                torch._dynamo.graph_break()\n",
        times=2,
    ),
    Change(
        "nn/parallel/distributed.py",
        "            torch._dynamo.utils.get_optimize_ddp_mode() ==",
        f"            {_LOADED} and torch._dynamo.utils.get_optimize_ddp_mode() ==",
    ),
)


def make_lean(torch: Path) -> None:
    """Apply the missing changes. Each file is replaced, because the installed files are links into uv's cache."""
    for change in CHANGES:
        path = torch / change.file
        text = path.read_text()
        if change.new in text:
            continue
        if text.count(change.old) != change.times:
            raise SystemExit(
                f"{path} belongs to a version of torch that scripts/lean_torch.py does not support"
            )
        path.unlink()
        path.write_text(text.replace(change.old, change.new))


if __name__ == "__main__":
    make_lean(Path(sys.argv[1]) / "torch")
