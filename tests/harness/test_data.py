"""`determined.data` finds the data sets of a task, and waits for the objects of a stream."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from determined import data


@pytest.fixture
def stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A stream at /data with the objects f0 to f9. The list has the requests for objects."""
    folder = tmp_path / "view"
    folder.mkdir()
    entry = {"source": "s3://bucket/x", "at": "/data", "mode": "stream", "path": str(folder)}
    monkeypatch.setenv("DET_DATA_SETS", json.dumps([entry]))
    asked: list[str] = []

    def ask(method: str, route: str, **query: str) -> dict[str, Any]:
        if route.endswith("/files"):
            return {"files": [[f"f{n}", 2] for n in range(10)]}
        asked.append(query["path"])
        (folder / query["path"]).write_text(query["path"])
        return {}

    monkeypatch.setattr(data, "_ask", ask)
    return asked


def test_stream_loads_an_object_once(stream: list[str]) -> None:
    for _ in range(2):
        with data.open("/data/f3", "r") as f:
            assert f.read() == "f3"
    assert stream == ["f3"]


def test_object_that_left_the_cache_is_loaded_again(stream: list[str]) -> None:
    path = data.fetch("/data/f3")
    os.unlink(path)
    with data.open("/data/f3") as f:
        assert f.read() == b"f3"
    assert stream == ["f3", "f3"]


def test_iterate_loads_the_next_files_ahead(stream: list[str]) -> None:
    paths = data.iterate("/data", ahead=3)
    assert Path(next(paths)).read_text() == "f0"
    assert len(stream) <= 4
    assert [Path(path).read_text() for path in paths] == [f"f{n}" for n in range(1, 10)]


def test_iterate_takes_names_in_any_order(stream: list[str]) -> None:
    chosen = [file.name for file in data.files("/data")][::-3]
    assert [Path(p).name for p in data.iterate("/data", chosen)] == ["f9", "f6", "f3", "f0"]


def test_names_outside_of_data_sets_are_ordinary_paths(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "x").write_text("here")
    (file,) = data.files(str(tmp_path))
    assert (file.name, file.size) == (str(tmp_path / "deep" / "x"), 4)
    with data.open(file.name, "r") as f:
        assert f.read() == "here"
    with pytest.raises(FileNotFoundError):
        data.open(str(tmp_path / "none"))


def test_data_sets_are_read_only(stream: list[str]) -> None:
    with pytest.raises(ValueError, match="data sets are read-only"):
        data.open("/data/f0", "w")


def test_list_form_of_data_is_no_user_data() -> None:
    from determined import ExperimentConfig

    assert ExperimentConfig({"data": [{"source": "s3://bucket/x"}]}).get_data() == {}
    assert ExperimentConfig({"data": {"url": "x"}}).get_data() == {"url": "x"}
