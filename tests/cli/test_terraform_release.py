"""The download of Terraform: checksum, cache and plugin cache."""

import fcntl
import hashlib
import io
import subprocess
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from det_cli.deployment import terraform_release
from det_cli.deployment.stack import Stack
from det_cli.deployment.terraform import Terraform
from det_cli.errors import CommandError

from tests.support.fake_terraform import fake_terraform
from tests.support.threaded import serving

VERSION = terraform_release.VERSION
NAME = f"terraform_{VERSION}_linux_amd64.zip"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Serve one release of Terraform. Yield its folder."""
    folder = tmp_path / "releases" / VERSION
    folder.mkdir(parents=True)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("LICENSE.txt", "terms")
        archive.writestr("terraform", "#!/bin/sh\necho released\n")
    (folder / NAME).write_bytes(buffer.getvalue())
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    (folder / f"terraform_{VERSION}_SHA256SUMS").write_text(f"{digest}  {NAME}\n")
    handler = partial(Quiet, directory=str(tmp_path / "releases"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    monkeypatch.setenv("DET_TERRAFORM_RELEASES", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("sys.platform", "linux")
    with serving(server):
        yield folder


def test_release_is_downloaded_once(releases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = terraform_release.ensure()
    assert subprocess.run([program], capture_output=True, check=True).stdout == b"released\n"
    assert f"downloading {VERSION}" in capsys.readouterr().err
    (releases / NAME).unlink()
    assert terraform_release.ensure() == program


def test_release_with_wrong_checksum_is_rejected(releases: Path, tmp_path: Path) -> None:
    (releases / NAME).write_bytes(b"something else")
    with pytest.raises(CommandError, match=r"the checksum of .* is wrong"):
        terraform_release.ensure()
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_unreachable_release_server_error_has_install_link(
    releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_TERRAFORM_RELEASES", "http://127.0.0.1:9")
    with pytest.raises(CommandError, match="not installed, and http://127") as error:
        terraform_release.ensure()
    assert "developer.hashicorp.com/terraform/install" in error.value.hint


def test_platform_without_release_is_rejected(
    releases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "sparc64")
    with pytest.raises(CommandError, match="there is no release for linux sparc64"):
        terraform_release.ensure()


def test_providers_are_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Providers have hundreds of megabytes, and each command uses a temporary folder."""
    fake = fake_terraform(tmp_path / "terraform", monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TF_PLUGIN_CACHE_DIR", raising=False)
    with Stack("aws", None, {}):
        pass
    monkeypatch.setenv("TF_PLUGIN_CACHE_DIR", "/chosen")
    with Stack("aws", None, {}):
        pass
    cache = tmp_path / "cache/determined-serverless/terraform/plugins"
    assert [call["plugins"] for call in fake.calls("init")] == [str(cache), "/chosen"]
    assert cache.is_dir()


def test_uncreatable_cache_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert terraform_release.plugins() == {}


def test_parallel_commands_download_providers_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two commands that fill the cache at the same time can leave an incomplete provider."""
    fake_terraform(tmp_path / "terraform", monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    others: list[bool] = []
    run = Terraform._run

    def watched(self: Terraform, *arguments: str) -> Any:
        if arguments[0] == "init":
            others.append(
                may_begin(tmp_path / "cache/determined-serverless/terraform/plugins.lock")
            )
        return run(self, *arguments)

    monkeypatch.setattr(Terraform, "_run", watched)
    for _ in range(2):
        with Stack("aws", None, {}):
            pass
    assert others == [False, False]


def may_begin(lock: Path) -> bool:
    with lock.open() as other:
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
