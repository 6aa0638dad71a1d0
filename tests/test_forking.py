"""Scripts in forks, see tests/support/forking.py: each is as alone as in a process that was started for it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import forking

_TELLS = """
import os, sys
if __name__ == "__main__":
    print(sys.argv[1:], dict(os.environ), "decimal" in sys.modules, hasattr(sys, "left"), flush=True)
    sys.left = True
"""


def ran(folder: Path, *jobs: tuple[str, list[str]]) -> list[dict[str, Any]]:
    """Run scripts after each other, each with its arguments, in forks of a process that loaded `decimal`."""
    lines = []
    for text, arguments in jobs:
        script = folder / "script.py"
        script.write_text(text)
        job = {"arguments": [str(script), *arguments], "environment": {"NAME": "value"}}
        lines.append(json.dumps([job]))
    command = [sys.executable, forking.__file__, "decimal"]
    process = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, check=True
    )
    return [result for line in process.stdout.splitlines() for result in json.loads(line)]


def test_scripts_share_loaded_modules_but_no_state(tmp_path: Path) -> None:
    assert ran(tmp_path, (_TELLS, ["a"]), (_TELLS, ["b"])) == [
        {"code": 0, "output": "['a'] {'NAME': 'value'} True False\n"},
        {"code": 0, "output": "['b'] {'NAME': 'value'} True False\n"},
    ]


def test_failing_script_prints_its_exception(tmp_path: Path) -> None:
    (result,) = ran(tmp_path, ("raise ValueError('no')", []))
    assert result["code"] == 1
    assert "ValueError: no" in result["output"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("", {"code": 0, "output": ""}),
        ("7", {"code": 7, "output": ""}),
        ("'no'", {"code": 1, "output": "no\n"}),
    ],
)
def test_script_exits_with_its_own_status(
    tmp_path: Path, status: str, expected: dict[str, Any]
) -> None:
    assert ran(tmp_path, (f"import sys; sys.exit({status})", [])) == [expected]
