"""Keep torch from loading its compiler in processes that compile nothing: `lean_torch.py SITE_PACKAGES`.

torch's optimizers and DistributedDataParallel load torch._dynamo only to switch it off. That takes longer than to load
torch itself, in each of the hundreds of processes in which the tests train. What calls torch.compile still gets it.
"""

import sys
from pathlib import Path
from typing import NamedTuple

_LOADED = '"torch._dynamo" in __import__("sys").modules'


class Change(NamedTuple):
    """A text of a file of torch, how often it stands there, and what takes its place."""

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
    """Change what is not changed yet, each file as a new one: the old ones are links into the cache of uv."""
    for change in CHANGES:
        path = torch / change.file
        text = path.read_text()
        if change.new in text:
            continue
        if text.count(change.old) != change.times:
            raise SystemExit(f"{path} is not of the torch that scripts/lean_torch.py knows")
        path.unlink()
        path.write_text(text.replace(change.old, change.new))


if __name__ == "__main__":
    make_lean(Path(sys.argv[1]) / "torch")
