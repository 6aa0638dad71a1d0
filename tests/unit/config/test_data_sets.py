"""The list form of `data`: data sets near the GPUs."""

from typing import Any

import pytest
from det_controlplane.core.config import InvalidConfig, Resolved, Sources, resolve
from det_controlplane.core.datasets.sources import parse_source, shown_bytes

MINIMAL: dict[str, Any] = {
    "name": "mnist",
    "entrypoint": "python3 train.py",
    "searcher": {"name": "single", "metric": "loss"},
    "checkpoint_storage": {"type": "directory", "container_path": "/checkpoints"},
}


def resolved(data: Any, sources: Sources = Sources(), **changes: Any) -> Resolved:
    return resolve({**MINIMAL, "data": data, **changes}, sources, name="n", seed=7)


def problems(data: Any, **changes: Any) -> dict[str, str]:
    with pytest.raises(InvalidConfig) as error:
        resolved(data, **changes)
    return {problem.path: problem.message for problem in error.value.problems}


def entry(**changes: Any) -> dict[str, Any]:
    return {"source": "s3://bucket/prefix", "at": "/data", **changes}


def test_data_of_determined_stays_as_it_is() -> None:
    data = {"url": None, "list": [1, 2]}
    assert resolved(data).config.to_json()["data"] == data


def test_data_set_is_cached_and_written_without_trailing_slashes() -> None:
    config = resolved([entry(source="gs://bucket/a/b/", at="/data/")]).config
    assert config.to_json()["data"] == [
        {"source": "gs://bucket/a/b", "at": "/data", "mode": "cached"}
    ]


def test_data_sets_of_a_template_are_added_by_their_mount_point() -> None:
    template = {"data": [entry(source="s3://other/x"), entry(at="/more")]}
    config = resolved([entry()], Sources(template=template)).config
    assert [(d["source"], d["at"]) for d in config.to_json()["data"]] == [
        ("s3://bucket/prefix", "/data"),
        ("s3://bucket/prefix", "/more"),
    ]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("/data", "for a directory of the machine, use bind_mounts"),
        ("ftp://host/x", "must begin with s3://, gs://, http:// or https://"),
        ("s3://", "must name a bucket, for example s3://bucket/prefix"),
        ("s3://Bucket/x", "'Bucket' cannot be the name of a bucket"),
        ("s3://bucket/a/../b", "must not have an empty part, '.' or '..' in its path"),
        ("s3://bucket/a//b", "must not have an empty part"),
        ("s3://bucket/a\nb", "must not contain control characters"),
        ("https://host", "must name a file or a manifest"),
        ("https://host:99999/x", "must have a port between 1 and 65535"),
        ("https://me:secret@host/x", "must not contain a user name or a password"),
        ("https://host/x?signature=1", "put signed addresses into a manifest"),
        ("s3://bucket/" + "x" * 1100, "must have at most 1024 characters"),
    ],
)
def test_wrong_source_is_refused_with_its_rule(source: str, message: str) -> None:
    assert message in problems([entry(source=source)])["data[0].source"]


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("data", "must be an absolute path"),
        ("", "must be an absolute path"),
        ("/", "must not be /, which has files of the image"),
        ("/usr", "must not be /usr"),
        ("/a/../../etc", "must not contain '..'"),
        ("/data:ro", "must not contain ':'"),
        ("/proc/1", "must not overlap with /proc"),
        ("/run/determined/workdir/data", "must not overlap with /run/determined"),
        ("/determined_shared_fs", "must not overlap with /determined_shared_fs"),
    ],
)
def test_wrong_mount_point_is_refused_with_its_rule(at: str, message: str) -> None:
    assert message in problems([entry(at=at)])["data[0].at"]


@pytest.mark.parametrize("other", ["/data", "/data/", "/data/train", "/data/../data"])
def test_mount_points_must_not_overlap(other: str) -> None:
    wrong = problems([entry(), entry(source="s3://other/x", at=other)])
    assert "/data" in wrong["data[1].at"]


def test_mount_point_must_not_overlap_with_a_bind_mount_or_the_checkpoints() -> None:
    mounts = [{"host_path": "/disk", "container_path": "/data/raw"}]
    assert (
        "overlaps with /data/raw of bind_mounts[0].container_path"
        in problems([entry()], bind_mounts=mounts)["data[0].at"]
    )
    wrong = problems([entry(at="/checkpoints/x")])
    assert "overlaps with /checkpoints of checkpoint_storage" in wrong["data[0].at"]


def test_unknown_key_of_a_data_set_names_the_allowed_ones() -> None:
    wrong = problems([entry(sourc="x")])
    assert "did you mean 'source'?" in wrong["data[0].sourc"]


def test_data_must_be_an_object_or_a_short_list() -> None:
    wrong = (
        "must be a list of data sets, each with source and at, or an object, not 's3://bucket/x'"
    )
    assert problems("s3://bucket/x") == {"data": wrong}
    many = [entry(at=f"/data{number}") for number in range(17)]
    assert problems(many) == {"data": "must have at most 16 entries"}


def test_manifest_is_recognized_by_its_name() -> None:
    assert parse_source("https://host/a/manifest.json").is_manifest
    assert parse_source("s3://bucket/train.manifest.json").is_manifest
    assert not parse_source("s3://bucket/train.json").is_manifest
    assert str(parse_source("gs://bucket/a/manifest.json").folder) == "gs://bucket/a"


def test_sizes_are_shown_in_powers_of_1000() -> None:
    assert [shown_bytes(n) for n in (7, 1500, 40e9, 2.25e12)] == [
        "7 bytes", "1.5 kB", "40 GB", "2.2 TB",
    ]  # fmt: skip
