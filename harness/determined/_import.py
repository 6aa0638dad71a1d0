"""Import user code from a directory that is not on the path."""

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
    """Resolve imports of the block from `path` first, without leaving its modules behind.

    A checkpoint carries its own copy of the model's code, whose modules have the names of the current code. So
    inside the block the modules of the program are hidden; at its end they are back, and the block's are gone.
    Blocks may not be nested, as the inner one could not know which modules are whose.
    """
    if not _importing.acquire(blocking=False):
        raise RuntimeError("import_from_path() cannot be nested, nor used by two threads at once")
    try:
        with _isolated(os.path.realpath(os.fspath(path))):
            yield
    finally:
        _importing.release()


@contextlib.contextmanager
def _isolated(root: str) -> Iterator[None]:
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
    """Return the modules of the program and of `root`, and those whose names `root` has too."""
    places = (root + os.sep, os.path.realpath(os.getcwd()) + os.sep)
    names = {os.path.splitext(entry)[0] for entry in os.listdir(root)}
    found = {}
    for name, module in list(sys.modules.items()):
        place = _place(module)
        is_here = place.startswith(places) or name.partition(".")[0] in names
        if name != "__main__" and place and is_here and not _is_installed(place):
            found[name] = module
    return found


def _is_installed(place: str) -> bool:
    return place.startswith(_INSTALLED) or bool(_PACKAGES_DIR.search(place))


def _place(module: object) -> str:
    """Return the file of a module, or the directory of a package that has none; "" for what is built in."""
    # Modules that make attributes on demand, such as torch's, are not asked; theirs may not be absolute either.
    known = getattr(module, "__dict__", {})
    origin = known.get("__file__")
    if origin is None:
        # The path of a package within a package that was dropped cannot be told.
        with contextlib.suppress(KeyError):
            origin = next(iter(known.get("__path__") or []), None)
    return os.path.realpath(origin) if isinstance(origin, str) and os.path.isabs(origin) else ""
