"""Objects of a data set with `mode: stream`, as a program reads them with `determined.data`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from det_agent.data_cache import DataCache
from det_agent.data_sets import DataSets
from det_agent.data_stores import StoreDependencies
from det_agent.data_web import Web
from det_agent.runtime import ContainerSessions
from det_agent.spool import Spool
from det_controlplane.core.agent_protocol import DataSetMount
from determined import data

from tests.support.fake_controlplane import FakeControlPlane
from tests.support.gateway import KEY, running_gateway
from tests.support.object_server import ObjectServer, object_server


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with object_server() as objects:
        objects.manifest({"a.bin": b"first", "b.bin": b"second"})
        yield objects


@pytest.fixture
def stream(
    server: ObjectServer,
    plane: FakeControlPlane,
    spool: Spool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """A task with the objects as a stream at /data."""
    cache = DataCache(tmp_path / "data", 10**6)
    sets = DataSets(cache, StoreDependencies(Web(may_use_loopback=True), {}), lambda: None)
    source = f"{server.url}/set/manifest.json"
    prepared = sets.prepare(KEY, [DataSetMount(source, "/data", "stream")], print, lambda: False)
    entry = {"source": source, "at": "/data", "mode": "stream", "path": prepared.folders["/data"]}
    sessions = ContainerSessions()
    sessions.open(KEY)
    (tmp_path / "reports").mkdir()
    with running_gateway(plane.url, tmp_path, sessions, spool, sets) as gateway:
        monkeypatch.setenv("DET_MASTER", f"http://127.0.0.1:{gateway.port}")
        monkeypatch.setenv("DET_SESSION_TOKEN", KEY.session_token)
        monkeypatch.setenv("DET_DATA_SETS", json.dumps([entry]))
        yield
    sets.close()
    cache.close()


@pytest.mark.usefixtures("stream")
def test_object_of_a_stream_is_read() -> None:
    with data.open("/data/a.bin") as f:
        assert f.read() == b"first"


@pytest.mark.usefixtures("stream")
def test_wrong_checksum_is_no_missing_file(server: ObjectServer) -> None:
    server.objects["/set/a.bin"] = b"FIRST"
    checksums = r"a.bin.* has the checksum sha256:\w+, and its listing says sha256:\w+"
    with pytest.raises(OSError, match=checksums) as e:
        data.open("/data/a.bin")
    assert not isinstance(e.value, FileNotFoundError)
    assert "store it again, or correct the manifest" in str(e.value)
    assert "start the task again" in str(e.value)


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize("name", ["a.bin", "none.bin"])
def test_missing_object_is_a_missing_file(server: ObjectServer, name: str) -> None:
    del server.objects["/set/a.bin"]
    with pytest.raises(FileNotFoundError, match=name):
        data.open(f"/data/{name}")
