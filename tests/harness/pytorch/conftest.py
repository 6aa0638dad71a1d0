"""Fixtures of the torch tests. frameworks/test_pytorch_suite.py runs them with the interpreter that has torch."""

import contextlib
import importlib.util
import pathlib
from typing import Any

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]


@pytest.fixture
def core(tmp_path: pathlib.Path) -> Any:
    from tests.support.fake_core import FakeCore

    core = FakeCore(tmp_path)
    yield core
    # A failure that is under test has been raised before.
    with contextlib.suppress(Exception):
        core.checkpoint.close()
