"""The modified torch of the tests: a process does not load torch's compiler, which takes long, unless it compiles."""

import json
from pathlib import Path

import pytest

from scripts.lean_torch import CHANGES, make_lean
from tests.support import ml

_TRAIN = """
import json, sys, torch
weight = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.Adam([weight])
def step():
    optimizer.zero_grad()
    (2 * weight).sum().backward()
    optimizer.step()
step()
before = "torch._dynamo" in sys.modules
twice = torch.compile(lambda x: 2 * x, backend="eager")(torch.ones(1)).item()
step()
print(json.dumps([before, "torch._dynamo" in sys.modules, twice]))
"""


def test_compiler_is_loaded_only_by_compiling(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(_TRAIN)
    output = ml.run("ml", [str(script)], tmp_path)
    assert json.loads(output.splitlines()[-1]) == [False, True, 2.0]


def test_second_change_has_no_effect(tmp_path: Path) -> None:
    for change in CHANGES:
        path = tmp_path / change.file
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(change.old * change.times)
    make_lean(tmp_path)
    once = [(tmp_path / change.file).read_text() for change in CHANGES]
    make_lean(tmp_path)
    assert [(tmp_path / change.file).read_text() for change in CHANGES] == once


def test_rejects_unknown_version_of_torch(tmp_path: Path) -> None:
    for change in CHANGES:
        path = tmp_path / change.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("nothing that is known\n")
    with pytest.raises(SystemExit, match=r"version of torch that .* does not support"):
        make_lean(tmp_path)
