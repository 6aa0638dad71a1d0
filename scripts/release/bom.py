"""Software bills of materials in the JSON format of CycloneDX 1.6.

A wheel contains no libraries: its bill lists the libraries that it needs, in the versions of the lock file, on this
platform and Python. The bills of the Lambda zip and the image list the libraries that they contain."""

import hashlib
import importlib.metadata
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

OWN = "determined-serverless"
_PINNED = re.compile(r"^([\w.-]+)==([^\s;]+)", re.M)
_DEPENDENCIES = re.compile(r"^dependencies = \[\n(.*?)^\]", re.M | re.S)
_INSTALLED = re.compile(r"(?:^|/)([^/]+)-([^/-]+)\.dist-info/METADATA$")


class WrongVersion(Exception):
    """A library does not have the version of the lock file."""


@dataclass(frozen=True)
class Libraries:
    """The versions of the lock file. It may have two of a library, for different versions of Python."""

    versions: Mapping[str, frozenset[str]]

    @classmethod
    def of_lock(cls, path: Path) -> "Libraries":
        versions: dict[str, set[str]] = {}
        for name, version in _PINNED.findall(path.read_text()):
            versions.setdefault(normal(name), set()).add(version)
        return cls({name: frozenset(found) for name, found in versions.items()})

    def check(self, libraries: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the libraries except our own package, sorted. Raises WrongVersion."""
        checked = sorted({(normal(name), version) for name, version in libraries})
        for name, version in checked:
            if name != OWN and version not in self.versions.get(name, frozenset()):
                locked = " or ".join(sorted(self.versions.get(name, ()))) or "no version"
                raise WrongVersion(
                    f"the release would contain {name} {version}, and requirements.lock has {locked}:"
                    " install the environment again (rm -r .venv; make .venv/.installed-dev)"
                )
        return [(name, version) for name, version in checked if name != OWN]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def required_by(pyproject: str, libraries: Libraries) -> list[tuple[str, str]]:
    """Return the libraries that an installation without extras gets on this platform."""
    text = _DEPENDENCIES.search(pyproject)
    assert text, "pyproject.toml has no dependencies"
    waiting = [Requirement(line) for line in re.findall(r'^  "(.*)",$', text[1], re.M)]
    versions: dict[str, str] = {}
    seen: set[str] = set()
    while waiting:
        requirement = waiting.pop()
        if str(requirement) in seen or not applies(requirement, frozenset()):
            continue
        seen.add(str(requirement))
        name = normal(requirement.name)
        versions[name] = importlib.metadata.version(name)
        for line in importlib.metadata.requires(name) or ():
            needed = Requirement(line)
            if applies(needed, frozenset(requirement.extras)):
                waiting.append(needed)
    return libraries.check(versions.items())


def applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""})


def installed_in(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the libraries in a list of files, by their folders of metadata."""
    return [match.groups() for name in names if (match := _INSTALLED.search(name))]  # type: ignore[misc]


def read_version(unpacked: Path) -> str:
    """Return the version of an unpacked wheel of ours."""
    info = next(unpacked.glob("determined_serverless-*.dist-info"))
    return info.name.removeprefix("determined_serverless-").removesuffix(".dist-info")


def describe(
    path: Path, libraries: Iterable[tuple[str, str]], *, contained: bool
) -> dict[str, Any]:
    """Return the bill of a file. `contained` says whether the libraries are in the file or only needed by it."""
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}@{version}",
            "name": name,
            "version": version,
            "purl": f"pkg:pypi/{name}@{version}",
            "properties": [
                {"name": "determined-serverless:contained", "value": str(contained).lower()}
            ],
        }
        for name, version in libraries
    ]
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "components": components,
    }
    return renamed(bill, path)


def renamed(bill: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return a bill with the name and the digest of a file."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    component = {
        "type": "application",
        "bom-ref": path.name,
        "name": path.name,
        "hashes": [{"alg": "SHA-256", "content": digest}],
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    needs = [str(library["bom-ref"]) for library in bill["components"]]
    return {
        **bill,
        # The same file gets the same number.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "metadata": {"component": component},
        "dependencies": [{"ref": path.name, "dependsOn": needs}],
    }
