"""Import user code from a directory that is not on the path."""

import contextlib
import os
import sys
from typing import Iterator


@contextlib.contextmanager
def import_from_path(path: "os.PathLike[str]") -> Iterator[None]:
    """Resolve imports of the block from `path` first, without leaving its modules behind.

    A checkpoint carries its own copy of the model's code; two checkpoints may carry modules of the
    same name. So what the block imported from `path` is dropped from `sys.modules` at its end.
    """
    root = os.path.realpath(os.fspath(path))
    before = dict(sys.modules)
    sys.path.insert(0, root)
    try:
        yield
    finally:
        sys.path.remove(root)
        for name, module in list(sys.modules.items()):
            if name not in before and _lies_in(module, root):
                del sys.modules[name]


def _lies_in(module: object, root: str) -> bool:
    origin = getattr(module, "__file__", None)
    return bool(origin) and os.path.realpath(str(origin)).startswith(root + os.sep)
