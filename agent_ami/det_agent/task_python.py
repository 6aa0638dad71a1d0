"""The Python of tasks that run as processes. Each task has its own environment on top of a shared installation.

Packages that a task installs are deleted with it, and never change the packages of the agent or the control plane."""

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
# The shebang of pip and uv for paths that are too long for the kernel, and for relocatable environments.
_SHELL_SHEBANG = re.compile(rb"#!/bin/sh\n'''exec' \"?'?([^\n]*?)'?\"? \"\$0\" \"\$@\"\n' '''\n")
# Variables that would make pip install elsewhere, or hide the environment from Python.
MISLEADING = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_PYTHON", "PYTHONHOME", "CONDA_PREFIX")


class NoPython(Exception):
    """The configured interpreter for tasks does not run."""


@dataclass(frozen=True)
class BasePython:
    """An interpreter with its installed packages."""

    executable: Path
    interpreter: Path  # the interpreter behind a virtual environment
    version: str
    packages: tuple[str, ...]

    @classmethod
    def of(cls, python: str) -> "BasePython":
        try:
            result = subprocess.run(
                [python, "-E", "-c", _ASK], capture_output=True, check=True, text=True,
                timeout=_ASK_TIMEOUT_S,
            )  # fmt: skip
            facts = json.loads(result.stdout)
        except (OSError, subprocess.SubprocessError, ValueError) as e:
            reason = str(getattr(e, "stderr", "") or e).strip().splitlines()[-1]
            raise NoPython(f"the Python of tasks, {python}, does not run: {reason}") from e
        packages = tuple(p for p in facts["path"] if _holds_packages(p))
        interpreter = Path(facts["interpreter"] or facts["executable"])
        return cls(Path(facts["executable"]), interpreter, facts["version"], packages)

    @cached_property
    def scripts(self) -> dict[str, bytes]:
        """Return the scripts of its packages without their first line."""
        folder = self.executable.parent
        bodies = {path.name: _body(path, folder) for path in folder.iterdir()}
        return {name: body for name, body in bodies.items() if body is not None}


def make_environment(base: BasePython, folder: Path) -> Path:
    """Create a virtual environment with access to the packages of `base`. Return its folder of programs.

    Python's own `venv` takes a second, and hides the packages of a base that is a virtual environment itself."""
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
    """Return a Python script without its first line, or None for other files."""
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
