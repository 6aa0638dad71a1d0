"""The lock file of Terraform's providers, stored next to a cluster's state so that all runs use the same provider.

Some stacks contain no lock file. Their first `terraform init` records the checksums that the publisher signed.
"""

import re
from pathlib import Path
from typing import Protocol

FILE = ".terraform.lock.hcl"
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
            (stack / FILE).write_text(self._stored)

    def keep(self, stack: Path) -> None:
        """Store the lock file of `terraform init` if it differs from the stored file."""
        path = stack / FILE
        content = path.read_text() if path.is_file() else ""
        if content and content != self._stored:
            self._store.keep_provider_lock(self._cluster_id, content)


def _versions(text: str) -> set[str]:
    return set(_VERSION.findall(text))
