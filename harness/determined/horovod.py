"""Horovod's API, loaded at its first use: `from determined.horovod import hvd`."""

import importlib
from typing import Any, Optional

_MODULES = {
    "torch": "horovod.torch",
    "tensorflow": "horovod.tensorflow",
    "tensorflow.keras": "horovod.tensorflow.keras",
}


class _Horovod:
    """A proxy for the horovod module of the framework that `require_horovod_type` selected."""

    def __init__(self) -> None:
        self._module: Optional[Any] = None
        self._kind: Optional[str] = None
        self._reason = ""

    def require_horovod_type(self, horovod_type: str, reason: str) -> None:
        """Load Horovod for a framework. A process can use only one framework."""
        if horovod_type not in _MODULES:
            raise ValueError(
                f"unknown framework {horovod_type!r} for Horovod: use one of {', '.join(_MODULES)}"
            )
        if self._kind not in (None, horovod_type):
            raise RuntimeError(
                f"Horovod was loaded for {self._kind} ({self._reason}) and cannot be for {horovod_type} ({reason})"
            )
        try:
            self._module = importlib.import_module(_MODULES[horovod_type])
        except ImportError as e:
            raise ImportError(
                f"Horovod for {horovod_type} is needed ({reason}) but cannot be imported: {e}. Install horovod "
                "into the image, or use determined.launch.torch_distributed."
            ) from e
        self._kind, self._reason = horovod_type, reason

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._module is None:
            raise RuntimeError(
                "call hvd.require_horovod_type('torch' or 'tensorflow.keras', reason) before using Horovod"
            )
        return getattr(self._module, name)


hvd = _Horovod()
