"""Import user code from a directory that is not on `sys.path`."""

import contextlib
import os
import re
import sys
import sysconfig
import threading
from types import ModuleType
from typing import Dict, Iterator

_importing = threading.Lock()
_INSTALLED = tuple(
    os.path.realpath(path) + os.sep
    for path in (
        *map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")),
        os.path.dirname(__file__),
    )
)
_PACKAGES_DIR = re.compile(r"[/\\](site|dist)-packages[/\\]")


@contextlib.contextmanager
def import_from_path(path: "os.PathLike[str]") -> Iterator[None]:
    """Import modules from `path` first inside the block, and forget them afterwards.

    A checkpoint carries its own copy of the model's code. Its modules have the same names as the modules of the
    running program. Inside the block the program's modules are therefore hidden; afterwards they are restored.
    Blocks cannot be nested, because the inner block could not distinguish the program's modules from the outer block's.
    """
    if not _importing.acquire(blocking=False):
        raise RuntimeError("import_from_path() cannot be nested, nor used by two threads at once")
    try:
        with _isolate_modules(os.path.realpath(os.fspath(path))):
            yield
    finally:
        _importing.release()


@contextlib.contextmanager
def _isolate_modules(root: str) -> Iterator[None]:
    hidden = _program_modules(root)
    for name in hidden:
        del sys.modules[name]
    before = set(sys.modules)
    sys.path.insert(0, root)
    try:
        yield
    finally:
        sys.path.remove(root)
        for name in _program_modules(root):
            if name not in before:
                del sys.modules[name]
        sys.modules.update(hidden)


def _program_modules(root: str) -> Dict[str, ModuleType]:
    """Return loaded modules of the program or of `root`, and modules with the top-level name of an entry of `root`."""
    places = (root + os.sep, os.path.realpath(os.getcwd()) + os.sep)
    names = {os.path.splitext(entry)[0] for entry in os.listdir(root)}
    modules = {}
    for name, module in list(sys.modules.items()):
        place = _place(module)
        is_here = place.startswith(places) or name.partition(".")[0] in names
        if name != "__main__" and place and is_here and not _is_installed(place):
            modules[name] = module
    return modules


def _is_installed(place: str) -> bool:
    return place.startswith(_INSTALLED) or bool(_PACKAGES_DIR.search(place))


def _place(module: object) -> str:
    """Return the file of a module, or the directory of a package without a file, or "" for a built-in module."""
    # Read `__dict__`: getattr() would run the `__getattr__` of lazy modules such as torch's.
    attributes = getattr(module, "__dict__", {})
    origin = attributes.get("__file__")
    if origin is None:
        # `__path__` of a subpackage raises KeyError if its parent was removed from sys.modules.
        with contextlib.suppress(KeyError):
            origin = next(iter(attributes.get("__path__") or []), None)
    return os.path.realpath(origin) if isinstance(origin, str) and os.path.isabs(origin) else ""
