"""A Terraform root stack in a temporary folder."""

import tempfile
from pathlib import Path

from det_cli.deployment.provider_lock import ProviderLock
from det_cli.deployment.terraform import Backend, Terraform


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
