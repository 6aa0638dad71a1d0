"""The det command run in this process against a fake cluster."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from det_cli.main import main

from tests.support.fake_cluster import FakeCluster

VARIABLES = (
    "DET_MASTER_ADDR", "DET_USER", "DET_PASS", "DET_USER_TOKEN", "DET_SESSION_TOKEN", "DET_DEBUG",
    "DET_MASTER_CERT_FILE", "DET_MASTER_CERT_NAME", "DET_DEBUG_CONFIG_PATH", "XDG_CONFIG_HOME",
)  # fmt: skip


@dataclass
class Ran:
    code: int
    out: str
    err: str


Det = Callable[..., Ran]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home in UTC, without any of the variables the client reads."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLUMNS", "200")
    time.tzset()
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def cluster(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    with FakeCluster() as fake:
        monkeypatch.setenv("DET_MASTER", fake.url)
        yield fake


@pytest.fixture
def det(capsys: pytest.CaptureFixture[str]) -> Det:
    def run(*words: object) -> Ran:
        try:
            code = main([str(w) for w in words])
        except SystemExit as e:
            code = int(e.code or 0)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run
