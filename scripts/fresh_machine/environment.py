"""The variables and settings of the host that a machine gets: only package sources and locale."""

import os
import shutil
from pathlib import Path

from fresh_machine.plan import Plan

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NAMES = frozenset(
    {
        *("LANG", "LC_ALL", "TZ", "TERM", "NO_COLOR", "CI"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    }
)
_PREFIXES = ("PIP_", "UV_")
_SUFFIXES = ("_proxy", "_PROXY")
_WITHOUT = frozenset({"PIP_CACHE_DIR", "PIP_CONFIG_FILE", "UV_CACHE_DIR"})
_SETTINGS = (".pip/pip.conf", ".config/pip/pip.conf", ".config/uv/uv.toml", ".npmrc")


def environment(plan: Plan) -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items() if _is_passed(name)}
    for variable in plan.variables:
        name, has_value, value = variable.partition("=")
        if has_value or name in os.environ:
            variables[name] = value if has_value else os.environ[name]
    return {
        "PATH": f"{plan.interpreter.program.parent}:{SYSTEM_PATH}",
        "PYTHON": str(plan.interpreter.program),
        "HOME": str(plan.home),
        "USER": plan.user,
        "LOGNAME": plan.user,
        "SHELL": "/bin/sh",
        **variables,
    }


def copy_settings(home: Path) -> None:
    for setting in _SETTINGS:
        source, target = Path.home() / setting, home / setting
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def _is_passed(name: str) -> bool:
    is_known = name in _NAMES or name.startswith(_PREFIXES) or name.endswith(_SUFFIXES)
    return is_known and name not in _WITHOUT
