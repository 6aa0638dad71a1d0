"""The script that mounts a machine's own disks at /scratch formats only empty disks."""

import os
import subprocess
from importlib import resources
from pathlib import Path

import pytest

SETUP = (resources.files("det_agent") / "machine-setup.sh").read_text()
HEAD = "cat > /usr/local/sbin/determined-scratch <<'END'\n"
EC2 = "nvme-Amazon_EC2_NVMe_Instance_Storage_AWS1A2B3C4D"
GOOGLE = "google-local-nvme-ssd-0"
# `lsblk` shows the content of a disk's file.
PROGRAMS = {
    "mountpoint": '[ -e "{folder}/mounted$2" ]',
    "lsblk": 'for disk; do :; done; cat "$disk"',
}


def called(folder: Path, **disks: str) -> list[str]:
    """Run the script where disks are files that hold their file systems; return the programs that changed something."""
    by_id = folder / "by-id"
    by_id.mkdir()
    for name, holds in disks.items():
        (by_id / name).write_text(f"{holds}\n")
    for name in ("mountpoint", "lsblk", "mkfs.ext4", "mount", "mkdir", "chmod"):
        does = PROGRAMS.get(name, 'echo "$(basename $0) $*" >> {folder}/called').format(
            folder=folder
        )
        (folder / name).write_text(f"#!/bin/sh\n{does}\n")
        (folder / name).chmod(0o755)
    script = SETUP.partition(HEAD)[2].partition("\nEND\n")[0]
    script = script.replace("/dev/disk/by-id", str(by_id)).replace("[ -b ", "[ -e ")
    path = f"{folder}:{os.environ['PATH']}"
    subprocess.run(["sh", "-c", script], env={"PATH": path}, check=True)
    calls = folder / "called"
    return calls.read_text().replace(f"{by_id}/", "").splitlines() if calls.exists() else []


def mounted(disk: str) -> list[str]:
    """Return the calls that make a disk scratch space."""
    formats = f"mkfs.ext4 -q -m 0 -E nodiscard {disk}"
    return [
        formats,
        "mkdir -p /scratch",
        f"mount -o noatime {disk} /scratch",
        "chmod 1777 /scratch",
    ]


@pytest.mark.parametrize("disk", [EC2, GOOGLE])
def test_empty_disk_becomes_scratch_space(tmp_path: Path, disk: str) -> None:
    assert called(tmp_path, **{disk: ""}) == mounted(disk)


def test_formatted_disk_is_not_changed(tmp_path: Path) -> None:
    other = f"{EC2[:-1]}E"
    assert called(tmp_path, **{EC2: "ext4 /data", other: ""}) == mounted(other)


def test_machine_without_local_disks_has_no_scratch_space(tmp_path: Path) -> None:
    assert called(tmp_path) == []


def test_mounted_scratch_space_is_not_changed(tmp_path: Path) -> None:
    mount_at(tmp_path, "/scratch")
    assert called(tmp_path, **{EC2: ""}) == []


def test_volume_of_the_machine_image_is_scratch_space(tmp_path: Path) -> None:
    """AWS's images with NVIDIA's driver make one volume of all such disks at their start."""
    mount_at(tmp_path, "/opt/dlami/nvme")
    assert called(tmp_path, **{EC2: "LVM2_member"}) == [
        "mkdir -p /scratch",
        "mount --bind /opt/dlami/nvme /scratch",
        "chmod 1777 /scratch",
    ]


def mount_at(folder: Path, place: str) -> None:
    (folder / f"mounted{place}").parent.mkdir(parents=True, exist_ok=True)
    (folder / f"mounted{place}").touch()
