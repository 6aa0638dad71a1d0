"""Install programs that a task's image lacks when a notebook, TensorBoard or shell starts.

Python packages are installed into a separate virtual environment in the task's directory. It uses the image's
packages without changing their versions, so that installing JupyterLab never changes torch or numpy.
"""

import contextlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Dict, Iterator, List, Mapping, Sequence, Tuple

from determined._paths import run_dir
from determined.exec import _exit_reason, _serve

SWITCH = "DET_INSTALL_MISSING"
_TIMEOUT_S = 900.0
_MOST_CHARACTERS = 300
# Settings of pip that would change the target of the installation.
_MISLEADING = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON")
# An unresponsive mirror fails after half a minute, instead of pip's several minutes.
_PIP = (
    "-m", "pip", "install", "--progress-bar", "off", "--no-input", "--no-user",
    "--disable-pip-version-check", "--retries", "2", "--timeout", "15",
)  # fmt: skip
_APT = (
    "apt-get", "-q", "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=15",
    "-o", "APT::Update::Error-Mode=any", "-o", "DPkg::Lock::Timeout=60",
)  # fmt: skip
_OPENSSH = ("install", "-y", "--no-install-recommends", "--no-remove", "openssh-server")
_PLAIN = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+")
# apt shows the installed version in brackets if it would replace the package.
_REPLACED = re.compile(r"^Inst (\S+) \[", re.M)


@dataclass(frozen=True)
class Program:
    """A Python program that serves a port, and the versions to install if an image lacks it."""

    module: str
    product: str
    requirements: Tuple[str, ...]


# images/requirements.txt has the same versions; 4.5 is the last JupyterLab for Python 3.9.
JUPYTERLAB = Program(
    "jupyterlab",
    "JupyterLab",
    (
        "jupyterlab==4.6.6; python_version >= '3.10'",
        "jupyterlab==4.5.11; python_version < '3.10'",
    ),
)
TENSORBOARD = Program("tensorboard", "TensorBoard", ("tensorboard==2.21.0",))


class InstallFailed(Exception):
    """An installation failed. The text of the exception is the reason."""


def is_allowed() -> bool:
    return os.environ.get(SWITCH, "").lower() not in ("0", "false")


def interpreter(program: Program) -> str:
    """Return the Python that can run the program, and install the program if necessary. Raises NotInstalled."""
    if importlib.util.find_spec(program.module) is not None:
        return sys.executable
    reason = ""
    if is_allowed():
        try:
            return _with_packages(program)
        except InstallFailed as e:
            reason = str(e)
    raise _missing_error(program, reason)


def failed(reason: str) -> str:
    """Return a clause about the failed installation, or '' without a reason."""
    return f", and installing it failed ({reason})" if reason else ""


def _missing_error(program: Program, reason: str) -> _serve.NotInstalled:
    if _serve.is_process():
        return _serve.NotInstalled(
            f"{program.product} is not installed in the Python of this machine's tasks{failed(reason)}",
            f"install it there (pip install {program.module}), name another Python by DET_PYTHON_EXECUTABLE in"
            f" environment_variables, or let a startup-hook.sh in the context install it",
        )
    return _serve.NotInstalled(
        f"{program.product} is not installed in {_exit_reason.image_name()}{failed(reason)}",
        f"choose an image that has it (environment.image), install it in yours (pip install {program.module}),"
        f" or let a startup-hook.sh in the context do so",
    )


def _with_packages(program: Program) -> str:
    """Install a program's packages and return the Python that can import them. Raises InstallFailed."""
    folder = os.path.join(run_dir(), "programs", program.module)
    site = [path for path in sys.path if _holds_packages(path)]
    with _log_installation(program.product, "pip"):
        try:
            python = _environment(folder, site)
            constraints = os.path.join(folder, "constraints.txt")
            with open(constraints, "w", encoding="utf-8") as f:
                f.writelines(f"{line}\n" for line in _versions(site))
        except (ImportError, OSError, subprocess.SubprocessError) as e:
            raise InstallFailed(f"no virtual environment could be made: {e}") from e
        env = {name: value for name, value in os.environ.items() if name not in _MISLEADING}
        # A container's cache is lost with the container. A machine's cache helps the next notebook.
        cache = () if _serve.is_process() else ("--no-cache-dir",)
        result = _run((python, *_PIP, *cache, "-c", constraints, *program.requirements), env)
        if result.returncode != 0:
            raise InstallFailed(_reason_of_pip(result.stderr + result.stdout))
    return python


def _environment(folder: str, site: Sequence[str]) -> str:
    """Make a virtual environment that can also import the packages of `site`. Return its Python.

    `system_site_packages` is not enough: it misses the packages of an image with Python in a virtual environment.
    """
    import venv  # images with an incomplete standard library may lack it

    has_pip = importlib.util.find_spec("pip") is not None
    venv.EnvBuilder(symlinks=True, with_pip=not has_pip).create(folder)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site_packages = os.path.join(folder, "lib", version, "site-packages")
    with open(
        os.path.join(site_packages, "_packages_of_the_image.pth"), "w", encoding="utf-8"
    ) as f:
        f.writelines(f"import site; site.addsitedir({path!r})\n" for path in site)
    return os.path.join(folder, "bin", "python3")


def _holds_packages(path: str) -> bool:
    return os.path.basename(path) in ("site-packages", "dist-packages") and os.path.isdir(path)


def _versions(site: Sequence[str]) -> List[str]:
    """Return the installed packages as requirements. If a package has several versions, the first one is imported."""
    versions: Dict[str, str] = {}
    for distribution in importlib.metadata.distributions(path=list(site)):
        # An incomplete removal can leave a folder without metadata.
        with contextlib.suppress(KeyError, TypeError, FileNotFoundError):
            name = distribution.metadata["Name"]
            line = f"{name}=={distribution.version}"
            # A single line that pip cannot parse would make it reject the whole file.
            if name and _PLAIN.fullmatch(line):
                versions.setdefault(name.lower().replace("_", "-"), line)
    return list(versions.values())


def openssh() -> None:
    """Install the OpenSSH server with apt, which requires root. Raises InstallFailed."""
    if os.geteuid() != 0:
        raise InstallFailed(f"apt-get takes root, and this task runs as user {os.geteuid()}")
    if shutil.which("apt-get") is None:
        raise InstallFailed("the image has no apt-get")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    with _log_installation("OpenSSH's server", "apt-get"):
        _apt(env, "update")
        replaced = _REPLACED.findall(_apt(env, "--simulate", *_OPENSSH))
        other = [name for name in replaced if not name.startswith("openssh-")]
        if other:
            raise InstallFailed(f"it would replace packages of the image: {', '.join(other)}")
        _apt(env, *_OPENSSH)


def _apt(env: Mapping[str, str], *words: str) -> str:
    result = _run((*_APT, *words), env)
    if result.returncode != 0:
        errors = [line for line in result.stderr.splitlines() if line.startswith(("E:", "W:"))]
        raise InstallFailed(_short(errors[0][2:] if errors else result.stderr))
    return result.stdout


@contextlib.contextmanager
def _log_installation(product: str, installer: str) -> Iterator[None]:
    """Log the installation of a product, and its duration."""
    place = "this machine's Python" if _serve.is_process() else _exit_reason.image_name()
    _serve.say(f"{product} is not installed in {place}: installing it with {installer}")
    begun = time.monotonic()
    yield
    took_s = time.monotonic() - begun
    _serve.say(f"installed {product} in {took_s:.0f} s; an image that has it starts without this")


def _run(command: Sequence[str], env: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            list(command), env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as e:
        raise InstallFailed(f"it took longer than {_TIMEOUT_S:.0f} s") from e
    except OSError as e:
        raise InstallFailed(str(e)) from e


def _reason_of_pip(output: str) -> str:
    """Return the reason why pip failed. pip reports an unreachable index as a package without versions."""
    if "connection broken by" in output and "from versions: none" in output:
        return "the package index cannot be reached"
    errors = [line[6:] for line in output.splitlines() if line.startswith("ERROR:")]
    installed = re.findall(r"\(constraint\) (\S+)", output)
    versions = f"; installed here: {', '.join(dict.fromkeys(installed))}" if installed else ""
    return _short(errors[0] if errors else output) + versions


def _short(text: str) -> str:
    """Return the last line of a text, shortened to a maximum length."""
    lines = text.strip().splitlines() or ["no reason given"]
    return lines[-1].strip()[:_MOST_CHARACTERS]
