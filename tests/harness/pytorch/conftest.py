"""These tests run in the interpreter that has torch: frameworks/test_pytorch_suite.py starts them there."""

import importlib.util
import pathlib
from typing import Any

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]


@pytest.fixture
def core(tmp_path: pathlib.Path) -> Any:
    from tests.support.fake_core import FakeCore

    return FakeCore(tmp_path)
