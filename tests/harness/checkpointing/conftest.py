"""Fixtures of the checkpoint tests. frameworks/test_pytorch_suite.py runs them with the interpreter that has torch."""

import importlib.util
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]


@pytest.fixture
def checkpoints(tmp_path: pathlib.Path) -> Iterator[Any]:
    from determined.core import CheckpointContext, DummyDistributedContext

    from tests.support.held_storage import HeldStorage, RecordingRegistry

    storage = HeldStorage(str(tmp_path / "stored"))
    context = CheckpointContext(DummyDistributedContext(), storage, RecordingRegistry())
    yield context
    storage.release()
    context.close()
