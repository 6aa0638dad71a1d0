"""Logs of a trial class that runs without a training script."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HARNESS = str(Path(__file__).parents[3] / "harness")
MODULE = """
import logging
logger = logging.getLogger("mine")
logger.debug("details")
logger.info("what happens")
class Other: ...
"""


@pytest.mark.parametrize(("debug", "expected"), [(False, ["INFO"]), (True, ["DEBUG", "INFO"])])
def test_log_level_follows_the_configuration(
    trial_env: Callable[..., dict[str, str]], tmp_path: Path, debug: bool, expected: list[str]
) -> None:
    (tmp_path / "model.py").write_text(MODULE)
    result = subprocess.run(
        [sys.executable, "-m", "determined.exec.harness", "--trial", "model:Other"],
        env={**trial_env({"debug": debug}), "PYTHONPATH": HARNESS},
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert "Other is not a trial class" in result.stderr
    lines = [line for line in result.stderr.splitlines() if "] mine: " in line]
    assert [line.partition(":")[0] for line in lines] == expected


@pytest.mark.parametrize(
    ("entrypoint", "message"),
    [
        ("model:Othr", "the entrypoint is wrong: module model has no class Othr: it has Other\n"),
        ("model", "the entrypoint is wrong: --trial 'model' must look like module:Class\n"),
    ],
)
@pytest.mark.parametrize("module", [["exec.harness", "--trial"], ["experimental._one_batch"]])
def test_missing_class_is_reported_in_one_line(
    tmp_path: Path, module: list[str], entrypoint: str, message: str
) -> None:
    (tmp_path / "model.py").write_text("import logging\nclass Other: ...\n")
    result = subprocess.run(
        [sys.executable, "-m", f"determined.{module[0]}", *module[1:], entrypoint],
        env={"PYTHONPATH": HARNESS},
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (1, message)
