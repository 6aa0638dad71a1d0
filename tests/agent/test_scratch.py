"""The script that mounts a machine's own disks at /scratch formats only empty disks, and puts images and data there."""

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
    "df": "echo Avail; cat {folder}/room",
    "systemctl": 'if [ "$2" = is-active ]; then [ -e {folder}/docker-runs ]; exit; fi\n'
    'echo "systemctl $*" >> {folder}/called',
}


def called(folder: Path, disks: dict[str, str], room_kb: int = 0) -> list[str]:
    """Run the script where disks are files that hold their file systems; return the programs that changed something."""
    (folder / "room").write_text(f"{room_kb}\n")
    by_id = folder / "by-id"
    by_id.mkdir()
    for name, holds in disks.items():
        (by_id / name).write_text(f"{holds}\n")
    for name in ("mountpoint", "lsblk", "mkfs.ext4", "mount", "mkdir", "chmod", "df", "systemctl"):
        does = PROGRAMS.get(name, 'echo "$(basename $0) $*" >> {folder}/called').format(
            folder=folder
        )
        (folder / name).write_text(f"#!/bin/sh\n{does}\n")
        (folder / name).chmod(0o755)
    script = SETUP.partition(HEAD)[2].partition("\nEND\n")[0]
    script = script.replace("/dev/disk/by-id", str(by_id)).replace("[ -b ", "[ -e ")
    script = script.replace("=/var/lib", f"={folder}/lib")
    path = f"{folder}:{os.environ['PATH']}"
    subprocess.run(["sh", "-c", script], env={"PATH": path}, check=True)
    calls = folder / "called"
    text = calls.read_text() if calls.exists() else ""
    return text.replace(f"{by_id}/", "").replace(f"{folder}/lib", "/var/lib").splitlines()


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
    assert called(tmp_path, {disk: ""}) == mounted(disk)


def test_formatted_disk_is_not_changed(tmp_path: Path) -> None:
    other = f"{EC2[:-1]}E"
    assert called(tmp_path, {EC2: "ext4 /data", other: ""}) == mounted(other)


def test_machine_without_local_disks_has_no_scratch_space(tmp_path: Path) -> None:
    assert called(tmp_path, {}) == []


def test_mounted_scratch_space_is_not_changed(tmp_path: Path) -> None:
    mount_at(tmp_path, "/scratch")
    assert called(tmp_path, {EC2: ""}) == []


def test_volume_of_the_machine_image_is_scratch_space(tmp_path: Path) -> None:
    """AWS's images with NVIDIA's driver make one volume of all such disks at their start."""
    mount_at(tmp_path, "/opt/dlami/nvme")
    assert called(tmp_path, {EC2: "LVM2_member"}) == [
        "mkdir -p /scratch",
        "mount --bind /opt/dlami/nvme /scratch",
        "chmod 1777 /scratch",
    ]


def mount_at(folder: Path, place: str) -> None:
    (folder / f"mounted{place}").parent.mkdir(parents=True, exist_ok=True)
    (folder / f"mounted{place}").touch()


LARGE_KB = 400_000_000
DATA = "/var/lib/determined/agent/data"
STOP, START = (
    "systemctl stop docker.socket docker containerd",
    "systemctl start --no-block docker.socket docker",
)


def stored(name: str, folder: str) -> list[str]:
    """Return the calls that put a folder on the disk."""
    return [
        f"mkdir -p /scratch/{name} {folder}",
        f"chmod 711 /scratch/{name}",
        f"mount --bind /scratch/{name} {folder}",
    ]


DATA_ONLY = stored("determined-data", DATA)
ALL = [
    *DATA_ONLY,
    *stored("containerd", "/var/lib/containerd"),
    *stored("docker", "/var/lib/docker"),
]


def test_images_and_data_are_stored_on_the_disk(tmp_path: Path) -> None:
    assert called(tmp_path, {EC2: ""}, LARGE_KB) == [*mounted(EC2), *ALL]


def test_docker_that_runs_is_restarted_on_the_disk(tmp_path: Path) -> None:
    (tmp_path / "docker-runs").touch()
    calls = called(tmp_path, {EC2: ""}, LARGE_KB)
    assert calls == [*mounted(EC2), *DATA_ONLY, STOP, *ALL[len(DATA_ONLY) :], START]


@pytest.mark.parametrize(
    "image",
    [
        "docker/image/overlay2/imagedb/content/sha256/1a2b",
        "containerd/io.containerd.content.v1.content/blobs/sha256/1a2b",
    ],
)
def test_images_of_the_machine_image_stay_where_they_are(tmp_path: Path, image: str) -> None:
    (tmp_path / "lib" / image).mkdir(parents=True)
    assert called(tmp_path, {EC2: ""}, LARGE_KB) == [*mounted(EC2), *DATA_ONLY]


def test_small_disk_keeps_its_room_for_tasks(tmp_path: Path) -> None:
    assert called(tmp_path, {EC2: ""}, 50_000_000) == mounted(EC2)


def test_data_that_the_operator_put_elsewhere_stays_there(tmp_path: Path) -> None:
    mount_at(tmp_path, f"{tmp_path}/lib/determined/agent/data")
    calls = called(tmp_path, {EC2: ""}, LARGE_KB)
    assert not [call for call in calls if DATA in call]
