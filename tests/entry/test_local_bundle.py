"""The support bundle of a local cluster."""

import json
import tarfile
from argparse import Namespace
from pathlib import Path

import pytest
from det_controlplane.entry.local import bundle
from det_controlplane.entry.local.commands import main
from det_controlplane.entry.local.files import Desired, LocalFiles

SECRET = "hunter2-of-the-bucket"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalFiles:
    monkeypatch.setattr(bundle, "_doctor", lambda url: b"docker: ok\n")
    files = LocalFiles(tmp_path / "cluster")
    files.make()
    url = f"postgresql://det:{SECRET}@10.0.0.1/det"
    files.write_desired(Desired("ours", "127.0.0.1", 8080, database_url=url))
    storage = {"type": "s3", "bucket": "b", "access_key": "AKIA", "secret_key": SECRET}
    files.cluster_config.write_text(json.dumps({"checkpoint_storage": storage}))
    files.secrets(bootstrap_token=SECRET)
    return files


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        content = {name.partition("/")[2]: archive.extractfile(name) for name in archive.getnames()}
        return {name: file.read() for name, file in content.items() if file is not None}


def test_bundle_contains_logs_and_versions_but_no_secrets(
    files: LocalFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files.log("api").write_bytes(b"x" * bundle.LOG_BYTES + b"the end")
    flags = Namespace(data_dir=str(files.folder), output_dir=str(tmp_path / "out"))
    assert main("support_bundle", flags) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path.stat().st_mode & 0o777 == 0o600
    files_of_bundle = members(path)
    assert sorted(files_of_bundle) == [
        "cluster.json", "cluster.yaml", "doctor.txt", "logs/api.log", "processes.json", "versions.json",
    ]  # fmt: skip
    assert files_of_bundle["logs/api.log"].endswith(b"the end")
    assert len(files_of_bundle["logs/api.log"]) == bundle.LOG_BYTES
    assert "determined-serverless" in json.loads(files_of_bundle["versions.json"])["packages"]
    assert json.loads(files_of_bundle["processes.json"])["running"] is False
    assert b"bucket: b" in files_of_bundle["cluster.yaml"]
    assert not [name for name, content in files_of_bundle.items() if SECRET.encode() in content]


def test_bundle_requires_a_local_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main("support-bundle", Namespace(data_dir=str(tmp_path / "none"))) == 3
    assert "no local cluster" in capsys.readouterr().err
