"""The data sets of tasks: loaded once for a machine, verified, evicted only when no task uses them."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from det_agent import data_cache, data_objects, data_transfer
from det_agent.data_cache import DataCache
from det_agent.data_objects import DataRefused, RemoteObject, checked
from det_agent.data_sets import DataSets, PreparedData, StoreDown
from det_agent.data_stores import StoreDependencies
from det_agent.data_web import Web
from det_agent.runtime import ContainerKey, NoRoom, StartFailed
from det_controlplane.core.agent_protocol import DataMode, DataSetMount
from det_controlplane.core.datasets.sources import parse_source

from tests.support.full_disk import full_disk
from tests.support.object_server import ObjectServer, object_server

FILES = {"a.bin": b"first", "deep/b.bin": b"second" * 100, "empty": b""}


class Machine:
    """The data sets of an agent, with the log of its tasks."""

    def __init__(self, folder: Path, limit: int = 10**6, *, may_use_loopback: bool = True) -> None:
        self.folder, self.limit = folder, limit
        self.web = Web(may_use_loopback=may_use_loopback)
        self.log: list[str] = []
        self.changes = 0
        self.open()

    def open(self) -> None:
        self.cache = DataCache(self.folder, self.limit)
        self.sets = DataSets(self.cache, StoreDependencies(self.web, {}), self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def restart(self) -> None:
        self.close()
        self.open()

    def close(self) -> None:
        self.sets.close()
        self.cache.close()

    def start(
        self,
        name: str,
        *sources: str,
        mode: DataMode = "cached",
        cancelled: Callable[[], bool] = lambda: False,
    ) -> PreparedData:
        mounts = [DataSetMount(s, f"/data{n or ''}", mode) for n, s in enumerate(sources)]
        return self.sets.prepare(key(name), mounts, self.log.append, cancelled)

    def held(self) -> dict[str, tuple[int, int, bool]]:
        report = self.sets.report()
        assert report is not None
        return {s.source: (s.bytes, s.total, s.in_use) for s in report.sets}


def key(name: str) -> ContainerKey:
    return ContainerKey(name, 1, f"allocation {name}", f"task {name}")


def read(prepared: PreparedData, at: str = "/data") -> dict[str, bytes]:
    root = Path(prepared.folders[at])
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with object_server() as objects:
        yield objects


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    here = Machine(tmp_path / "cache")
    yield here
    here.close()


@pytest.fixture(autouse=True)
def _no_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_cache, "KEPT_FREE_BYTES", 0)
    monkeypatch.setattr(data_transfer, "RANGE_BYTES", 100)
    monkeypatch.setattr("det_agent.data_transfer.pauses", lambda *_: iter([0.0] * 9))
    monkeypatch.setattr("det_agent.data_sets.pauses", lambda *_: iter([0.0] * 9))
    monkeypatch.setattr("det_agent.data_sets.LOOK_S", 0.05)


def test_task_sees_all_files_of_the_manifest(server: ObjectServer, machine: Machine) -> None:
    prepared = machine.start("one", server.manifest(FILES))
    assert read(prepared) == FILES
    (mount,) = prepared.mounts
    assert (mount.container_path, mount.read_only) == ("/data", True)
    assert all(p.stat().st_mode & 0o222 == 0 for p in Path(mount.host_path).rglob("*") if p.is_file())  # fmt: skip


def test_second_task_downloads_nothing(server: ObjectServer, machine: Machine) -> None:
    source = server.manifest(FILES)
    machine.start("one", source)
    machine.sets.release(key("one"))
    server.gets.clear()
    assert read(machine.start("two", source)) == FILES
    assert dict(server.gets) == {"/set/manifest.json": 1}
    assert machine.log[-1] == "Data sets are in the cache: 605 bytes"


def test_tasks_that_start_together_load_each_object_once(
    server: ObjectServer, machine: Machine
) -> None:
    source = server.manifest({"a": b"x" * 90, "b": b"y" * 90})
    both = threading.Barrier(2)
    listed = threading.Event()

    def before_get(path: str) -> None:
        if path.endswith("manifest.json"):
            both.wait(20)
            listed.set()

    server.before_get = before_get
    results: list[PreparedData] = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(machine.start(n, source)))
        for n in ("one", "two")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(read(result)) for result in results] == [2, 2]
    assert (server.gets["/set/a"], server.gets["/set/b"]) == (1, 1)


def test_unequal_checksum_is_a_sentence_and_leaves_nothing(
    server: ObjectServer, machine: Machine
) -> None:
    source = server.manifest(FILES)
    server.objects["/set/a.bin"] = b"FIRST"
    with pytest.raises(StartFailed, match=r"'a.bin' has the checksum sha256:.* its listing says") as e:  # fmt: skip
        machine.start("one", source)
    assert e.value.failure == "container_failed"
    assert not list((machine.folder / "partial").iterdir())
    assert not list((machine.folder / "views").iterdir())


def test_file_that_changed_after_the_listing_is_listed_again(
    server: ObjectServer, machine: Machine
) -> None:
    server.objects["/f.bin"] = b"old"

    def change(path: str) -> None:
        server.objects["/f.bin"] = b"new!"

    server.before_get = change
    assert read(machine.start("one", server.url + "/f.bin")) == {"f.bin": b"new!"}
    assert "has changed since the data set was listed; listing it again" in machine.log[1]


def test_file_that_always_changes_fails_with_a_sentence(
    server: ObjectServer, machine: Machine
) -> None:
    server.objects["/f.bin"] = b"0"

    def change(path: str) -> None:
        server.objects["/f.bin"] += b"1"

    server.before_get = change
    with pytest.raises(StartFailed, match=r"'f\.bin' has changed since") as e:
        machine.start("one", server.url + "/f.bin")
    assert e.value.failure == "container_failed"


def test_missing_object_of_a_manifest_fails_with_its_name(
    server: ObjectServer, machine: Machine
) -> None:
    source = server.manifest(FILES)
    del server.objects["/set/a.bin"]
    with pytest.raises(
        StartFailed, match=r"object 'a.bin' is in the listing and does not exist: store it"
    ):
        machine.start("one", source)


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (404, "does not exist"),
        (403, r"may not be read by this agent \(403\): give the role of its machine read access"),
        (401, r"may not be read by this agent \(401\)"),
        (400, "the store refuses"),
    ],
)
def test_refusals_of_the_store_are_sentences(
    server: ObjectServer, machine: Machine, status: int, sentence: str
) -> None:
    server.objects["/f"] = b"x"
    server.statuses["/f"] = status
    with pytest.raises(StartFailed, match=sentence) as e:
        machine.start("one", server.url + "/f")
    assert e.value.failure == "container_failed"


def test_outage_of_the_store_is_no_failure_of_the_trial_or_the_machine(
    server: ObjectServer, machine: Machine
) -> None:
    source = server.manifest(FILES)
    server.statuses["/set/a.bin"] = 503
    with pytest.raises(StoreDown, match=r"the store answers 503 for object 'a\.bin'") as e:
        machine.start("one", source)
    assert e.value.failure == "agent_error"
    assert server.gets["/set/a.bin"] == data_transfer.ATTEMPTS


def test_broken_connections_are_retried(server: ObjectServer, machine: Machine) -> None:
    source = server.manifest(FILES)
    server.cuts["/set/deep/b.bin"] = 3
    assert read(machine.start("one", source)) == FILES


def test_large_file_comes_in_ranges(server: ObjectServer, machine: Machine) -> None:
    content = os.urandom(1234)
    assert read(machine.start("one", server.manifest({"large": content}))) == {"large": content}
    assert server.gets["/set/large"] == 13


def test_server_without_ranges_is_refused_for_large_files(
    server: ObjectServer, machine: Machine
) -> None:
    server.knows_ranges = False
    with pytest.raises(StartFailed, match="sends no ranges"):
        machine.start("one", server.manifest({"large": b"x" * 101}))


def test_file_without_a_version_is_refused(server: ObjectServer, machine: Machine) -> None:
    server.has_versions = False
    server.objects["/f"] = b"x"
    with pytest.raises(StartFailed, match="name a manifest with sha256 instead"):
        machine.start("one", server.url + "/f")


def test_data_set_above_the_cache_is_refused(server: ObjectServer, tmp_path: Path) -> None:
    small = Machine(tmp_path / "small", limit=100)
    sentence = (
        "have 605 bytes, and the data cache of its agent can hold 100 bytes: raise data_cache_size"
    )
    with pytest.raises(StartFailed, match=sentence):
        small.start("one", server.manifest(FILES))
    small.close()


def test_least_recently_used_data_leaves_first(server: ObjectServer, tmp_path: Path) -> None:
    here = Machine(tmp_path / "here", limit=250)
    a, b, c = (server.manifest({n: n.encode() * 90}, f"/{n}/manifest.json") for n in "abc")
    for name, source in (("1", a), ("2", b), ("3", a)):
        here.start(name, source)
        here.sets.release(key(name))
    here.start("4", c)
    assert here.held() == {c: (90, 90, True), a: (90, 90, False)}
    here.close()


def test_data_in_use_is_never_evicted_and_the_next_task_waits(
    server: ObjectServer, tmp_path: Path
) -> None:
    here = Machine(tmp_path / "here", limit=150)
    a, b = (server.manifest({n: n.encode() * 90}, f"/{n}/manifest.json") for n in "ab")
    running = here.start("one", a)
    waiting = threading.Event()
    here.log = _Watched(waiting, "Waiting for room")
    results: list[PreparedData] = []
    thread = threading.Thread(target=lambda: results.append(here.start("two", b)))
    thread.start()
    assert waiting.wait(20)
    assert read(running) == {"a": b"a" * 90}
    here.sets.release(key("one"))
    thread.join(20)
    assert read(results[0]) == {"b": b"b" * 90}
    assert here.held() == {b: (90, 90, True)}
    here.close()


class _Watched(list[str]):
    def __init__(self, event: threading.Event, text: str) -> None:
        super().__init__()
        self._event, self._text = event, text

    def append(self, line: str) -> None:
        super().append(line)
        if self._text in line:
            self._event.set()


def test_killed_task_stops_waiting_for_room(server: ObjectServer, tmp_path: Path) -> None:
    here = Machine(tmp_path / "here", limit=150)
    a, b = (server.manifest({n: n.encode() * 90}, f"/{n}/manifest.json") for n in "ab")
    here.start("one", a)
    with pytest.raises(StartFailed) as e:
        here.start("two", b, cancelled=lambda: any("Waiting" in line for line in here.log))
    assert e.value.failure == "aborted"
    assert os.listdir(here.folder / "views") == ["one.1"]
    here.close()


def test_killed_task_stops_loading(server: ObjectServer, machine: Machine) -> None:
    source = server.manifest({f"f{n}": bytes([n]) * 50 for n in range(200)})
    with pytest.raises(StartFailed) as e:
        machine.start("one", source, cancelled=lambda: server.gets["/set/f0"] > 0)
    assert e.value.failure == "aborted"
    assert sum(server.gets.values()) < 200


def test_full_disk_is_no_fault_of_the_trial(server: ObjectServer, machine: Machine) -> None:
    source = server.manifest({"large": b"x" * 100_000})
    with full_disk(50_000), pytest.raises(NoRoom, match=r"the disk of the data cache .* is full") as e:  # fmt: skip
        machine.start("one", source)
    assert e.value.failure == "agent_error"
    assert not list((machine.folder / "partial").iterdir())
    assert len(read(machine.start("two", source))["large"]) == 100_000


def test_damaged_file_is_loaded_again(server: ObjectServer, machine: Machine) -> None:
    source = server.manifest(FILES)
    path = Path(machine.start("one", source).folders["/data"]) / "a.bin"
    path.chmod(0o644)
    path.write_bytes(b"FIRST")
    machine.sets.release(key("one"))
    assert read(machine.start("two", source)) == FILES
    assert server.gets["/set/a.bin"] == 2


def test_restarted_agent_keeps_data_in_use_and_removes_the_rest(
    server: ObjectServer, machine: Machine
) -> None:
    source = server.manifest(FILES)
    kept = machine.start("kept", source)
    machine.start("gone", source)
    machine.restart()
    machine.sets.keep([key("kept")])
    assert read(kept) == FILES
    assert os.listdir(machine.folder / "views") == ["kept.1"]
    assert machine.held() == {source: (605, 605, True)}
    machine.sets.release(key("kept"))
    assert machine.held() == {source: (605, 605, False)}
    server.gets.clear()
    machine.start("new", source)
    assert dict(server.gets) == {"/set/manifest.json": 1}


def test_restart_of_the_machine_empties_the_cache(server: ObjectServer, machine: Machine) -> None:
    source = server.manifest(FILES)
    machine.start("one", source)
    (machine.folder / "boot_id").write_text("another")
    machine.restart()
    machine.sets.keep([])
    assert machine.held() == {}
    assert read(machine.start("two", source)) == FILES


def test_two_agents_cannot_share_a_cache(machine: Machine) -> None:
    with pytest.raises(OSError, match="belongs to another agent: give this one another data_dir"):
        DataCache(machine.folder, 0)


@pytest.mark.parametrize("path", ["/set/manifest.json", "/redirected"])
def test_containers_cannot_read_the_machines_own_addresses(
    server: ObjectServer, tmp_path: Path, path: str
) -> None:
    docker = Machine(tmp_path / "docker", may_use_loopback=False)
    server.manifest(FILES)
    with pytest.raises(
        StartFailed, match=r"the agent's own machine \(127.0.0.1\).*: name the server by its"
    ):
        docker.start("one", server.url + path)
    docker.close()


def test_metadata_services_cannot_be_read(server: ObjectServer, machine: Machine) -> None:
    from det_agent.data_web import _OutsideConnections

    connections = _OutsideConnections("http://host")
    connections.may_use_loopback = True
    for address in ("169.254.169.254", "fe80::1%eth0", "fd00:ec2::254", "::ffff:169.254.169.254"):
        with pytest.raises(
            DataRefused, match=r"has the link-local or metadata address .*: name another"
        ):
            connections._check(address)
    connections._check("127.0.0.1")
    connections._check("10.0.0.7")


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"../x": b""}, "cannot be a file"),
        ({"/x": b""}, "cannot be a file"),
        ({"a//x": b""}, "cannot be a file"),
        ({"a": b"", "a/x": b""}, "has an object 'a' and objects below 'a/'"),
        ({"x" * 300: b""}, "more than 255 bytes"),
        ({}, "has no objects"),
    ],
)
def test_names_that_no_directory_can_hold_are_refused(
    server: ObjectServer, machine: Machine, files: dict[str, bytes], sentence: str
) -> None:
    with pytest.raises(StartFailed, match=sentence):
        machine.start("one", server.manifest(files))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"no json", "is not JSON"),
        (b"[]", "is no manifest"),
        (b'{"files": [3]}', r"files\[0\] of .* must be an object"),
        (b'{"files": [{"size": 1}]}', "must have a path"),
        (b'{"files": [{"path": "a", "size": -1}]}', "must have a size in bytes"),
        (b'{"files": [{"path": "a", "size": 1, "sha256": "x"}]}', "64 hexadecimal digits"),
    ],
)
def test_wrong_manifest_is_refused_with_the_entry(
    server: ObjectServer, machine: Machine, text: bytes, sentence: str
) -> None:
    server.objects["/manifest.json"] = text
    with pytest.raises(StartFailed, match=sentence):
        machine.start("one", server.url + "/manifest.json")


def test_listing_stops_at_the_limit_and_names_the_way_out() -> None:
    read_objects = 0

    def ten_million() -> Iterator[RemoteObject]:
        nonlocal read_objects
        for number in range(10_000_000):
            read_objects += 1
            yield RemoteObject("f", 1, str(number))

    with pytest.raises(DataRefused, match=r"more than 1,000,000 objects.*into shards.* name a manifest"):  # fmt: skip
        checked(ten_million(), parse_source("s3://bucket/x"))
    assert read_objects == data_objects.MOST_OBJECTS + 1


def test_stream_loads_objects_when_they_are_asked_for(
    server: ObjectServer, machine: Machine
) -> None:
    prepared = machine.start("one", server.manifest(FILES), mode="stream")
    assert read(prepared) == {}
    assert machine.log == []  # "in the cache" would be false
    assert machine.sets.files(key("one"), "/data") == [(n, len(b)) for n, b in FILES.items()]
    machine.sets.fetch(key("one"), "/data", "deep/b.bin")
    assert read(prepared) == {"deep/b.bin": FILES["deep/b.bin"]}
    with pytest.raises(DataRefused, match="had no object 'x'"):
        machine.sets.fetch(key("one"), "/data", "x")
    with pytest.raises(DataRefused, match="no data set at '/other'"):
        machine.sets.fetch(key("one"), "/other", "x")


def test_stream_may_be_larger_than_the_cache(server: ObjectServer, tmp_path: Path) -> None:
    here = Machine(tmp_path / "here", limit=250)
    files = {f"f{n}": bytes([n]) * 90 for n in range(8)}
    prepared = here.start("one", server.manifest(files), mode="stream")
    root = Path(prepared.folders["/data"])
    with open_first(here, root) as first:
        for name, content in files.items():
            here.sets.fetch(key("one"), "/data", name)
            assert (root / name).read_bytes() == content
            assert here.cache.used <= 250
        assert first.read() == files["f0"]  # an open file stays readable
    here.close()


def open_first(machine: Machine, root: Path):  # type: ignore[no-untyped-def]
    machine.sets.fetch(key("one"), "/data", "f0")
    return (root / "f0").open("rb")


def test_lost_disk_is_no_report(server: ObjectServer, machine: Machine) -> None:
    shutil.rmtree(machine.folder)
    assert machine.sets.report() is None
    machine.sets.release(key("one"))


def test_stream_continues_after_a_restart_of_the_agent(
    server: ObjectServer, machine: Machine
) -> None:
    prepared = machine.start("one", server.manifest(FILES), mode="stream")
    machine.sets.fetch(key("one"), "/data", "a.bin")
    machine.restart()
    machine.sets.keep([key("one")])
    machine.sets.fetch(key("one"), "/data", "deep/b.bin")
    assert read(prepared).keys() == {"a.bin", "deep/b.bin"}
