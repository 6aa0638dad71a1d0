"""The files of a machine. It has separate data folders, and overlays over the host's program folders."""

import os
import shutil
import socket
from pathlib import Path

from fresh_machine.cgroups import mount_cgroups
from fresh_machine.environment import SYSTEM_PATH, copy_settings
from fresh_machine.network import NAME_SERVER
from fresh_machine.plan import CHECKOUT, NAME, SYSTEM, USER, USER_ID, Plan
from fresh_machine.system import mount, run

ENGINES_DATA = ("var/lib/docker", "var/lib/containerd", "var/lib/containers")
DOCKER_PROGRAMS = ("docker*", "containerd*", "ctr", "runc", "podman*", "nerdctl*")


def lay_out(plan: Plan) -> None:
    """Make the folders on the disk: an empty home, a copy of the checkout, and folders for changes."""
    for name in ("root", "home", "tmp", "checkout", "layers", *ENGINES_DATA):
        (plan.folder / name).mkdir(parents=True)
    (plan.folder / "tmp").chmod(0o1777)
    copy_settings(plan.folder / "home")
    for path in _files_of_checkout(plan):
        source, target = CHECKOUT / path, plan.folder / "checkout" / path
        if source.is_symlink() or source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    if not plan.as_root:
        for name in ("home", "checkout"):
            run("chown", "-R", f"{USER_ID}:{USER_ID}", str(plan.folder / name))


def build_root(plan: Plan) -> None:
    mount("--make-rprivate", "/")
    mount("--bind", str(plan.root), str(plan.root))
    for entry in os.scandir("/"):
        if entry.name in SYSTEM and entry.is_symlink():
            plan.at(entry.name).symlink_to(os.readlink(entry.path))
        elif entry.name in SYSTEM:
            _layer_over(plan, Path(entry.path))
    for name in ("home", "mnt", "root", "srv"):
        plan.at(name).mkdir()
    _mount_kernel_folders(plan)
    _bind(plan.folder / "tmp", plan.at("tmp"))
    _bind(plan.folder / "home", plan.at(plan.home))
    _bind(plan.folder / "checkout", plan.at(CHECKOUT))
    for folder in plan.carried:
        _layer_over(plan, CHECKOUT / folder)
    for data in ENGINES_DATA:
        _bind(plan.folder / data, plan.at(data))
    prefix = plan.interpreter.prefix
    if not plan.at(prefix / "lib").exists():
        _layer_over(plan, prefix)
    _write_settings(plan)


def enter_root(plan: Plan) -> None:
    """Make the new root the only visible one."""
    os.chdir(plan.root)
    os.mkdir(".host")
    run("pivot_root", ".", ".host")
    os.chroot(".")
    os.chdir("/")
    run("umount", "--lazy", "/.host")
    os.rmdir("/.host")
    if not plan.docker:
        _remove_docker()


def _files_of_checkout(plan: Plan) -> list[str]:
    """Return the files that git does not ignore. This also works in a checkout without its repository."""
    repository = plan.folder / "no-repository"
    run("git", "init", "--quiet", "--bare", str(repository))
    git = ("git", f"--git-dir={repository}", f"--work-tree={CHECKOUT}", "-C", str(CHECKOUT))
    output = run(*git, "ls-files", "-z", "--others", "--exclude-standard")
    return list(filter(None, output.split("\0")))


def _layer_over(plan: Plan, folder: Path) -> None:
    """Show a folder of the host in the machine. Changes go to a separate layer."""
    layer = plan.folder / "layers" / str(folder).strip("/").replace("/", "-")
    for name in ("upper", "work"):
        (layer / name).mkdir(parents=True)
    target = plan.at(folder)
    target.mkdir(parents=True, exist_ok=True)
    layers = f"lowerdir={folder},upperdir={layer}/upper,workdir={layer}/work"
    # With "volatile" changes need not be flushed to the disk, so removing the machine is fast.
    mount("-t", "overlay", "-o", f"{layers},volatile", "overlay", str(target))


def _bind(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    mount("--bind", str(source), str(target))


def _mount_kernel_folders(plan: Plan) -> None:
    for name, kind in (("proc", "proc"), ("sys", "sysfs"), ("run", "tmpfs")):
        plan.at(name).mkdir()
        mount("-t", kind, "-o", "nosuid,nodev", kind, str(plan.at(name)))
    plan.at("run").chmod(0o755)
    plan.at("dev").mkdir()
    mount("--rbind", "/dev", str(plan.at("dev")))
    mount("-t", "tmpfs", "-o", "nosuid,nodev,mode=1777", "tmpfs", str(plan.at("dev/shm")))
    mount_cgroups(plan)


def _write_settings(plan: Plan) -> None:
    etc = plan.at("etc")
    for name, content in (("resolv.conf", f"nameserver {NAME_SERVER}"), ("hostname", NAME)):
        (etc / name).unlink(missing_ok=True)
        (etc / name).write_text(content + "\n")
    _append(etc / "hosts", f"127.0.1.1 {NAME}")
    _append(etc / "passwd", f"{USER}:x:{USER_ID}:{USER_ID}::/home/{USER}:/bin/sh")
    _append(etc / "group", f"{USER}:x:{USER_ID}:")
    shutil.rmtree(etc / "docker", ignore_errors=True)
    socket.sethostname(NAME)


def _append(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(line + "\n")


def _remove_docker() -> None:
    for folder in map(Path, SYSTEM_PATH.split(":")):
        for pattern in DOCKER_PROGRAMS:
            for program in folder.glob(pattern):
                program.unlink()
