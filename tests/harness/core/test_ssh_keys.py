"""The ssh keys for connections between the containers of an allocation."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from determined.launch import _ed25519, _ssh_files

from tests.support.ssh import require_ssh

# The secret and public keys of the first three test vectors in RFC 8032, section 7.1.
VECTORS = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
    ),
]


@pytest.fixture(autouse=True)
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DET_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("DET_ALLOCATION_ID", "1.a.1")
    monkeypatch.setenv("DET_PEER_KEY", "shared by the containers of one allocation")
    return tmp_path / "run"


def written(run_dir: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (run_dir / "ssh").iterdir()}


@pytest.mark.parametrize(("secret", "public"), VECTORS)
def test_public_keys_match_the_rfc(secret: str, public: str) -> None:
    assert _ed25519.public_key(bytes.fromhex(secret)).hex() == public


def test_openssh_reads_the_private_key(run_dir: Path) -> None:
    require_ssh()
    assert _ssh_files.make_keys()
    command = ["ssh-keygen", "-y", "-f", str(run_dir / "ssh" / "id_rsa")]
    public_key = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert public_key.split()[:2] == (run_dir / "ssh" / "authorized_keys").read_text().split()[:2]


def test_containers_of_one_allocation_have_the_same_keys(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ssh_files.make_keys()
    first = written(run_dir)
    shutil.rmtree(run_dir)
    _ssh_files.make_keys()
    assert written(run_dir) == first
    shutil.rmtree(run_dir)
    monkeypatch.setenv("DET_PEER_KEY", "another allocation's")
    _ssh_files.make_keys()
    assert written(run_dir)["id_rsa"] != first["id_rsa"]


def test_only_the_owner_can_read_the_keys(run_dir: Path) -> None:
    _ssh_files.make_keys()
    modes = {stat.S_IMODE(os.stat(path).st_mode) for path in (run_dir / "ssh").iterdir()}
    assert modes == {0o600}


def test_existing_keys_are_kept(run_dir: Path) -> None:
    (run_dir / "ssh").mkdir(parents=True)
    (run_dir / "ssh" / "id_rsa").write_text("from elsewhere")
    assert _ssh_files.make_keys()
    assert written(run_dir)["id_rsa"] == "from elsewhere"
    assert set(written(run_dir)) == {"id_rsa", "sshd_config"}


def test_no_keys_without_a_peer_key(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DET_PEER_KEY")
    assert not _ssh_files.make_keys()
    assert not run_dir.exists()
