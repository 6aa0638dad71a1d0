import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_master import FakeMaster


@pytest.fixture
def master() -> Iterator[FakeMaster]:
    fake = FakeMaster()
    yield fake
    fake.close()


@pytest.fixture
def trial_env(master: FakeMaster, tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Return the environment that an agent gives to the process of a trial."""

    def build(config: dict[str, Any] | None = None, **extra: str) -> dict[str, str]:
        run_dir = tmp_path / "run"
        shared = tmp_path / "shared"
        run_dir.mkdir(exist_ok=True)
        shared.mkdir(exist_ok=True)
        full = {
            "checkpoint_storage": {"type": "shared_fs", "host_path": str(shared)},
            "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": 8}},
            **(config or {}),
        }
        paths = {"/run/determined": str(run_dir), "/determined_shared_fs": str(shared)}
        return {
            "DET_MASTER": master.url,
            "DET_CLUSTER_ID": "cluster-1",
            "DET_AGENT_ID": "agent-1",
            "DET_SLOT_IDS": "[0]",
            "DET_TASK_ID": "1.task",
            "DET_ALLOCATION_ID": "1.task.1",
            "DET_RESOURCES_ID": "container-1",
            "DET_CONTAINER_ID": "container-1",
            "DET_TASK_TYPE": "TRIAL",
            "DET_SESSION_TOKEN": "token-1",
            "DET_TRIAL_ID": "7",
            "DET_EXPERIMENT_ID": "3",
            "DET_TRIAL_RUN_ID": "2",
            "DET_TRIAL_SEED": "42",
            "DET_HPARAMS": json.dumps({"lr": 0.1}),
            "DET_EXPERIMENT_CONFIG": json.dumps(full),
            "DET_STEPS_COMPLETED": "0",
            "DET_RUN_DIR": str(run_dir),
            "DET_WORKDIR": str(run_dir / "workdir"),
            "DET_PATH_MAP": json.dumps(paths),
            "DET_RUNTIME": "process",
            **extra,
        }

    return build


@pytest.fixture
def on_cluster(
    trial_env: Callable[..., dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, str]]:
    """Set the environment of this process to the environment of a trial."""

    def enter(config: dict[str, Any] | None = None, **extra: str) -> dict[str, str]:
        env = trial_env(config, **extra)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        return env

    return enter


@pytest.fixture
def off_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("DET_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("DET_RUN_DIR", str(tmp_path / "no-run-dir"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
