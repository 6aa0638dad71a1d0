"""A Terraform root stack in a temporary folder, and the lock file of its providers.

The lock file is stored next to the state of the cluster so that all runs use the same providers. Some stacks contain
no lock file. Their first `terraform init` records the checksums that the publisher signed.
"""

import re
import tempfile
from pathlib import Path
from typing import Protocol

from det_cli.deployment.terraform import Backend, Terraform

LOCK_FILE = ".terraform.lock.hcl"
_VERSION = re.compile(r'^\s*version\s*=\s*"([^"]+)"', re.M)


class LockStore(Protocol):
    """Stores lock files in the operator's account."""

    def provider_lock(self, cluster_id: str) -> str:
        """Return the lock file of a cluster, or '' if it does not exist."""

    def keep_provider_lock(self, cluster_id: str, content: str) -> None: ...


class ProviderLock:
    """The lock file of one cluster."""

    def __init__(self, store: LockStore, cluster_id: str) -> None:
        self._store, self._cluster_id = store, cluster_id
        self._stored = ""

    def restore(self, stack: Path) -> None:
        """Write the stored file into a stack's folder, unless the stack now pins other versions."""
        self._stored = self._store.provider_lock(self._cluster_id)
        locked, pinned = _versions(self._stored), _versions((stack / "versions.tf").read_text())
        if self._stored and locked == pinned:
            (stack / LOCK_FILE).write_text(self._stored)

    def keep(self, stack: Path) -> None:
        """Store the lock file of `terraform init` if it differs from the stored file."""
        path = stack / LOCK_FILE
        content = path.read_text() if path.is_file() else ""
        if content and content != self._stored:
            self._store.keep_provider_lock(self._cluster_id, content)


def _versions(text: str) -> set[str]:
    return set(_VERSION.findall(text))


class Stack:
    """Runs Terraform in a temporary folder. Without a backend, the state is temporary too."""

    lock: ProviderLock | None = None  # for stacks without a lock file

    def __init__(self, name: str, backend: Backend | None, environment: dict[str, str]) -> None:
        self._name = name
        self._backend = backend
        self._environment = environment
        self._temporary = tempfile.TemporaryDirectory(prefix="det-deploy-")

    def __enter__(self) -> "Stack":
        self.folder = Path(self._temporary.name)
        try:
            self.terraform = Terraform(self._name, self.folder, self._environment)
            self._init()
        except BaseException:
            self._temporary.cleanup()
            raise
        return self

    def _init(self) -> None:
        if self.lock:
            self.lock.restore(self.terraform.stack)
        self.terraform.init(self._backend)
        if self.lock:
            self.lock.keep(self.terraform.stack)

    def __exit__(self, *exc: object) -> None:
        self._temporary.cleanup()
