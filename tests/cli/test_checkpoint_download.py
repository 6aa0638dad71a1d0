"""`det checkpoint download`, `list` and `rm`."""

import io
import json
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from det_cli.actions import checkpoint_download
from determined.common import checkpoint_files
from determined.common.failures import Failure

from tests.cli.conftest import Det
from tests.support.fake_api import Raw, Refusal
from tests.support.fake_cluster import CKPT, FakeCluster, archive, checkpoint


@pytest.fixture
def saved(cluster: FakeCluster) -> FakeCluster:
    cluster.add(1)
    return cluster


def test_download_through_the_cluster_writes_files_and_metadata(
    saved: FakeCluster, det: Det, tmp_path: Path
) -> None:
    result = det("checkpoint", "download", CKPT, "-o", tmp_path / "c", "--mode", "master")
    assert result.code == 0
    assert (tmp_path / "c" / "model.pt").read_bytes() == b"w" * 2000
    assert (tmp_path / "c" / "code" / "train.py").stat().st_size == 1000
    metadata = json.loads((tmp_path / "c" / "metadata.json").read_text())
    assert metadata == {"steps_completed": 200, "framework": "torch"}
    (request,) = saved.sent("GET", f"/checkpoints/{CKPT}")
    assert request.headers["accept"] == "application/gzip"


def test_quiet_prints_only_the_path(saved: FakeCluster, det: Det, tmp_path: Path) -> None:
    result = det("c", "download", CKPT, "-o", tmp_path / "c", "--mode", "master", "-q")
    assert (result.out, result.err) == (f"{tmp_path}/c\n", "")


def test_reports_a_directory_that_cannot_be_created(
    saved: FakeCluster, det: Det, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    result = det("c", "download", CKPT, "-o", tmp_path / "file" / "c")
    assert result.code == 1
    assert f"cannot make the directory '{tmp_path}/file/c': Not a directory" in result.err


def test_consolidate_without_torch_fails_before_the_download(
    saved: FakeCluster, det: Det, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("torch", "determined.pytorch"):  # an earlier test may have imported it
        monkeypatch.setitem(sys.modules, module, None)
    result = det("c", "download", CKPT, "-o", tmp_path / "c", "--consolidate")
    assert result.code == 2
    assert "--consolidate needs PyTorch" in result.err
    assert "pip install torch" in result.err
    assert not (tmp_path / "c").exists()


def test_consolidate_says_that_an_ordinary_checkpoint_has_no_shards(
    saved: FakeCluster, det: Det, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joiner = SimpleNamespace(is_sharded=lambda path: False)  # the tests of det run without torch
    monkeypatch.setattr(checkpoint_download, "_consolidation", lambda: joiner)
    result = det("c", "download", CKPT, "-o", tmp_path / "c", "--consolidate")
    assert result.code == 0
    assert f"{CKPT} has no shards, so its files are unchanged" in result.err


def with_storage(cluster: FakeCluster, config: dict[str, object]) -> None:
    training = {**cluster.checkpoints[CKPT]["training"]}
    training["experimentConfig"] = {"checkpoint_storage": config}
    cluster.checkpoints[CKPT]["training"] = training


def test_direct_mode_reads_the_storage(saved: FakeCluster, det: Det, tmp_path: Path) -> None:
    folder = tmp_path / "storage" / CKPT
    (folder / "code").mkdir(parents=True)
    (folder / "model.pt").write_bytes(b"d" * 2000)
    (folder / "code" / "train.py").write_bytes(b"d" * 1000)
    with_storage(saved, {"type": "shared_fs", "host_path": str(tmp_path / "storage")})
    result = det("c", "download", CKPT, "-o", tmp_path / "c", "--mode", "direct")
    assert result.code == 0
    assert (tmp_path / "c" / "model.pt").read_bytes() == b"d" * 2000
    assert saved.sent("GET", f"/checkpoints/{CKPT}") == []


def test_auto_falls_back_to_the_cluster(saved: FakeCluster, det: Det, tmp_path: Path) -> None:
    with_storage(saved, {"type": "shared_fs", "host_path": str(tmp_path / "nowhere")})
    assert det("c", "download", CKPT, "-o", tmp_path / "c").code == 0
    assert (tmp_path / "c" / "model.pt").read_bytes() == b"w" * 2000


def test_direct_mode_reports_why_the_storage_cannot_be_read(
    saved: FakeCluster, det: Det, tmp_path: Path
) -> None:
    with_storage(saved, {"type": "shared_fs", "host_path": str(tmp_path / "nowhere")})
    result = det("c", "download", CKPT, "-o", tmp_path / "c", "--mode", "direct")
    assert result.code == 1
    assert "cannot be read from its storage" in result.err
    assert "--mode master" in result.err


def test_reports_both_reasons_if_both_modes_fail(
    saved: FakeCluster, det: Det, tmp_path: Path
) -> None:
    def refuse(_: object) -> None:
        raise Refusal(500, "bucket is gone")

    saved.on("GET", "/checkpoints/([^/]+)", refuse)
    with_storage(saved, {"type": "shared_fs", "host_path": str(tmp_path / "nowhere")})
    result = det("c", "download", CKPT, "-o", tmp_path / "c")
    assert result.code == 1
    assert "nowhere" in result.err
    assert "bucket is gone" in result.err


def test_rejects_a_deleted_checkpoint(saved: FakeCluster, det: Det, tmp_path: Path) -> None:
    saved.checkpoints[CKPT]["state"] = "STATE_DELETED"
    result = det("c", "download", CKPT, "-o", tmp_path / "c")
    assert result.code == 1
    assert "DELETED" in result.err
    assert not (tmp_path / "c").exists()


def test_an_unknown_checkpoint_is_not_found(saved: FakeCluster, det: Det) -> None:
    assert det("c", "download", "0000").code == 3


def test_an_interrupted_download_leaves_no_partial_file(
    saved: FakeCluster, det: Det, tmp_path: Path
) -> None:
    import os

    content = archive({"model.pt": os.urandom(2000), "code/train.py": b"x" * 1000})
    saved.on("GET", "/checkpoints/([^/]+)", Raw(content, cut_after=1000))
    result = det("c", "download", CKPT, "-o", tmp_path / "c", "--mode", "master")
    assert result.code == 1
    assert "broke off" in result.err
    assert [p.name for p in (tmp_path / "c").rglob("*") if p.is_file()] == []


def test_reports_a_missing_file(saved: FakeCluster, det: Det, tmp_path: Path) -> None:
    saved.on("GET", "/checkpoints/([^/]+)", Raw(archive({"model.pt": b"w" * 2000})))
    result = det("c", "download", CKPT, "-o", tmp_path / "c", "--mode", "master")
    assert result.code == 1
    assert "code/train.py (missing)" in result.err


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil"])
def test_an_archive_cannot_write_outside_of_the_target(tmp_path: Path, name: str) -> None:
    with (
        tarfile.open(fileobj=io.BytesIO(archive({name: b"x"}))) as tar,
        pytest.raises(Failure, match="outside"),
    ):
        checkpoint_files.extract(tar, str(tmp_path / "c"))
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_an_archive_cannot_contain_links_or_devices(tmp_path: Path, kind: bytes) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("link")
        info.type, info.linkname = kind, "/etc/passwd"
        tar.addfile(info)
    out.seek(0)
    with tarfile.open(fileobj=out) as tar, pytest.raises((Failure, KeyError)):
        checkpoint_files.extract(tar, str(tmp_path / "c"))
    assert not (tmp_path / "c" / "link").exists()


def test_experiment_download_selects_the_best_checkpoints(
    saved: FakeCluster, det: Det, tmp_path: Path
) -> None:
    other = "22222222-2222-3333-4444-555555555555"
    saved.checkpoints[other] = checkpoint(other, 10, 1)
    result = det("e", "download", 1, "-o", tmp_path / "out", "--top-n", 2, "-q")
    assert result.code == 0
    assert result.out.splitlines() == [f"{tmp_path}/out/{CKPT}", f"{tmp_path}/out/{other}"]


def test_trial_download_by_metric_needs_its_direction(saved: FakeCluster, det: Det) -> None:
    result = det("t", "download", 10, "--sort-by", "val_loss")
    assert result.code == 2
    assert "--smaller-is-better" in result.err


def test_downloads_no_checkpoint_for_an_unknown_metric(
    saved: FakeCluster, det: Det, tmp_path: Path
) -> None:
    by_metric = ("--sort-by", "acc", "--smaller-is-better", "false", "-o", tmp_path / "c")
    for command in (("t", "download", 10), ("e", "download", 1)):
        result = det(*command, *by_metric)
        assert (result.code != 0, "no" in result.err, (tmp_path / "c").exists()) == (
            True,
            True,
            False,
        )


def test_trial_download_of_the_latest_checkpoint(
    saved: FakeCluster, det: Det, tmp_path: Path
) -> None:
    assert det("t", "download", 10, "--latest", "-o", tmp_path / "c", "-q").code == 0
    assert (tmp_path / "c" / "model.pt").exists()


def test_list_takes_an_experiment_or_a_trial(saved: FakeCluster, det: Det) -> None:
    assert CKPT in det("c", "list", "--trial-id", 10).out
    assert CKPT in det("c", "ls", "--experiment-id", 1).out
    assert det("c", "list").code == 2


def test_rm_sends_ids_and_globs(saved: FakeCluster, det: Det) -> None:
    saved.on("POST", "/api/v1/checkpoints/rm", {})
    assert det("c", "rm", "a,b", "--glob", "*.pt", "--yes").code == 0
    (request,) = saved.sent("POST", "/api/v1/checkpoints/rm")
    assert request.body == {"checkpointUuids": ["a", "b"], "checkpointGlobs": ["*.pt"]}


def test_rm_without_globs_requests_only_a_comparison(saved: FakeCluster, det: Det) -> None:
    saved.on("POST", "/api/v1/checkpoints/rm", {})
    assert "comparing the records of checkpoints a with the storage" in det("c", "rm", "a").out
    (request,) = saved.sent("POST", "/api/v1/checkpoints/rm")
    assert request.body == {"checkpointUuids": ["a"], "checkpointGlobs": []}
