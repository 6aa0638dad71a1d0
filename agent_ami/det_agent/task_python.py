"""The Python of tasks that are processes: each has an environment of its own over one that all share.

What a task installs ends with it, and never changes what the agent and the control plane run on."""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_ASK = """
import json, sys
print(json.dumps({"executable": sys.executable, "interpreter": getattr(sys, "_base_executable", sys.executable),
                  "version": "%d.%d" % sys.version_info[:2], "path": sys.path}))
"""
_ASK_TIMEOUT_S = 60
_LONGEST_SCRIPT = 16 * 1024
_SHEBANG = re.compile(rb"#!\s*(\S+)[^\n]*\n")
# What pip and uv write where the kernel would cut a long shebang, or where an environment may move.
_SHELL_SHEBANG = re.compile(rb"#!/bin/sh\n'''exec' \"?'?([^\n]*?)'?\"? \"\$0\" \"\$@\"\n' '''\n")
# Settings of pip that would have it install elsewhere, and of Python that would hide the environment.
MISLEADING = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_PYTHON", "PYTHONHOME", "CONDA_PREFIX")


class NoPython(Exception):
    """The interpreter that tasks should use does not run."""


@dataclass(frozen=True)
class BasePython:
    """An interpreter with its installed packages."""

    executable: Path
    interpreter: Path  # the one behind its virtual environment
    version: str
    packages: tuple[str, ...]

    @classmethod
    def of(cls, python: str) -> "BasePython":
        try:
            asked = subprocess.run(
                [python, "-E", "-c", _ASK], capture_output=True, check=True, text=True,
                timeout=_ASK_TIMEOUT_S,
            )  # fmt: skip
            told = json.loads(asked.stdout)
        except (OSError, subprocess.SubprocessError, ValueError) as e:
            reason = str(getattr(e, "stderr", "") or e).strip().splitlines()[-1]
            raise NoPython(f"the Python of tasks, {python}, does not run: {reason}") from e
        packages = tuple(p for p in told["path"] if _holds_packages(p))
        interpreter = Path(told["interpreter"] or told["executable"])
        return cls(Path(told["executable"]), interpreter, told["version"], packages)

    @cached_property
    def scripts(self) -> dict[str, bytes]:
        """Return the programs that its packages installed, without their first line."""
        folder = self.executable.parent
        found = {path.name: _body(path, folder) for path in folder.iterdir()}
        return {name: body for name, body in found.items() if body is not None}


def make_environment(base: BasePython, folder: Path) -> Path:
    """Make a virtual environment that sees the packages of `base`; return its folder of programs.

    Python's own `venv` would take a second, and would hide what a base that is an environment itself has."""
    programs = folder / "bin"
    packages = folder / "lib" / f"python{base.version}" / "site-packages"
    programs.mkdir(parents=True)
    packages.mkdir(parents=True)
    (folder / "lib64").symlink_to("lib")
    home = f"home = {base.interpreter.parent}\n"
    (folder / "pyvenv.cfg").write_text(f"{home}include-system-site-packages = false\n")
    python = programs / "python"
    python.symlink_to(base.interpreter)
    for name in ("python3", f"python{base.version}"):
        (programs / name).symlink_to("python")
    lines = [f"import site; site.addsitedir({path!r})\n" for path in base.packages]
    (packages / "_packages_of_the_agent.pth").write_text("".join(lines))
    first_line = f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n".encode()
    for name, body in base.scripts.items():
        script = os.open(programs / name, os.O_WRONLY | os.O_CREAT, 0o755)
        with os.fdopen(script, "wb") as f:
            f.write(first_line + body)
    return programs


def _holds_packages(path: str) -> bool:
    return os.path.basename(path) in ("site-packages", "dist-packages") and os.path.isdir(path)


def _body(path: Path, folder: Path) -> bytes | None:
    """Return a program of Python without its first line; None when it is something else."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _LONGEST_SCRIPT:
            return None
        content = path.read_bytes()
    except OSError:
        return None
    shebang = _SHELL_SHEBANG.match(content) or _SHEBANG.match(content)
    if shebang is None:
        return None
    program = Path(os.fsdecode(shebang[1]))
    is_python = program.parent == folder and program.name.startswith("python")
    return content[shebang.end() :] if is_python else None
