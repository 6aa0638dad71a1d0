"""Control groups of a machine. Engines create their groups below them, so that all can be removed afterwards."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fresh_machine.plan import Plan
from fresh_machine.system import NEW_CGROUPS, mount, unshare

ALL = Path("/sys/fs/cgroup")
# A group stays busy for a short time after its last process ended.
EMPTY_S = 5.0
_ABOUT_MOUNTS = ("rw", "ro", "relatime", "nosuid", "nodev", "noexec")


@dataclass(frozen=True)
class Hierarchy:
    folder: Path
    kind: str
    controllers: tuple[str, ...]


def enter_cgroups(name: str) -> None:
    """Move this process to a new group in every hierarchy. The process then sees these groups as the roots."""
    for hierarchy in _hierarchies():
        group = hierarchy.folder / name
        group.mkdir()
        if "cpuset" in hierarchy.controllers:
            for setting in ("cpuset.cpus", "cpuset.mems"):
                (group / setting).write_text((hierarchy.folder / setting).read_text())
        (group / "cgroup.procs").write_text("0")
    unshare(NEW_CGROUPS)


def mount_cgroups(plan: Plan) -> None:
    for hierarchy in _hierarchies():
        target = plan.at(hierarchy.folder)
        if hierarchy.folder != ALL:
            if not plan.at(ALL).is_mount():
                mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(plan.at(ALL)))
            target.mkdir()
        options = ["-o", ",".join(hierarchy.controllers)] if hierarchy.controllers else []
        mount("-t", hierarchy.kind, *options, hierarchy.kind, str(target))
        if hierarchy.folder == ALL:
            _allow_controllers(target)


def remove_cgroups(name: str) -> None:
    deadline = time.monotonic() + EMPTY_S
    for hierarchy in _hierarchies():
        top = hierarchy.folder / name
        if top.exists():
            # Remove only folders, because the files in a group are not removable.
            for group in (*sorted(_folders_below(top), reverse=True), top):
                _remove(group, deadline)


def _hierarchies() -> Iterator[Hierarchy]:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, folder, kind, options, *_ = line.split()
        if kind == "cgroup2":
            yield Hierarchy(Path(folder), kind, ())
        elif kind == "cgroup":
            controllers = [o for o in options.split(",") if o not in _ABOUT_MOUNTS]
            yield Hierarchy(
                Path(folder),
                kind,
                tuple(o for o in controllers if not o.startswith("release_agent")),
            )


def _allow_controllers(top: Path) -> None:
    """Enable controllers for child groups. A group that has processes itself cannot do this."""
    (top / "init").mkdir()
    (top / "init" / "cgroup.procs").write_text("0")
    controllers = (top / "cgroup.controllers").read_text().split()
    (top / "cgroup.subtree_control").write_text(" ".join(f"+{c}" for c in controllers))


def _folders_below(top: Path) -> Iterator[Path]:
    return (path for path in top.rglob("*") if path.is_dir())


def _remove(group: Path, deadline: float) -> None:
    while True:
        try:
            group.rmdir()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
