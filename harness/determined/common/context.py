"""Pack a user's code for the cluster: its files, their total size and the upload formats.

See docs/reference/compatibility.md#context-of-a-model."""

import base64
import gzip
import io
import logging
import os
import re
import stat
import tarfile
from typing import IO, Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from determined.common.failures import BadContext, MissingContext

logger = logging.getLogger("determined")

MAX_BYTES = 95 * 2**20
_REGULAR, _DIRECTORY = 48, 53
_SHOWN = 5

# Byte-code, editor files, version control and Terraform state are never part of a model.
ALWAYS_IGNORED = (
    "__pycache__/",
    "*.py[co]",
    "*$py.class",
    ".terraform/",
    "*.tfstate",
    "*.tfstate.*",
    ".git/",
    ".vscode/",
    ".idea/",
    ".mypy_cache/",
    "/shared_fs",
)


class Entry(NamedTuple):
    path: str  # in the container, relative to the working directory
    source: str
    is_dir: bool
    size: int
    mode: int
    mtime: int


class Context(NamedTuple):
    entries: Tuple[Entry, ...]

    @property
    def size(self) -> int:
        return sum(e.size for e in self.entries)

    def inline(self) -> List[Dict[str, Any]]:
        """Return the files as JSON, for the request that creates the experiment."""
        return [_as_json(e) for e in self.entries]

    def write_tar_gz(self, out: IO[bytes]) -> None:
        """Write the files as an archive for a separate upload. Equal directories give equal bytes."""
        with (
            gzip.GzipFile("", "wb", 3, out, mtime=0) as zipped,
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            for entry in self.entries:
                _add(tar, entry)


class Ignore:
    """The rules of one context directory. Paths are relative to its root and use `/`."""

    def __init__(self, lines: Iterable[str]) -> None:
        # Only packing a context needs this import, and `det --help` must start fast.
        from pathspec import GitIgnoreSpec

        try:
            self._spec = GitIgnoreSpec.from_lines(lines)
        except (ValueError, re.error) as e:
            raise BadContext(
                f"a pattern in .detignore is not valid: {e}",
                "correct the pattern; its syntax is that of .gitignore",
            ) from e

    def matches(self, path: str, *, is_dir: bool) -> bool:
        """Return whether the rules exclude this path. The last matching rule decides."""
        return self._spec.match_file(path + "/" if is_dir else path)


def collect(root: Optional[str], includes: Sequence[str] = ()) -> Context:
    """List the files of a directory (or one file) and of the includes. Raise BadContext if they cannot be sent."""
    walk = _Walk()
    if root is not None:
        walk.start(root, with_name=os.path.isfile(root))
    top = {e.path for e in walk.entries}
    for include in includes:
        name = os.path.basename(os.path.abspath(include))
        if name in top:
            raise BadContext(
                f"'{include}' would replace '{name}' of the context directory",
                "rename one of them, or leave the include away",
            )
        top.add(name)
        walk.start(include, with_name=True)
    walk.refuse_unreadable()
    context = Context(tuple(walk.entries))
    _refuse_oversized(context)
    return context


class _Walk:
    def __init__(self) -> None:
        self.entries: List[Entry] = []
        self._unreadable: List[str] = []

    def start(self, root: str, *, with_name: bool) -> None:
        if not os.path.exists(root):
            raise MissingContext(f"'{root}' does not exist", "name a directory or a file to send")
        name = os.path.basename(os.path.abspath(root)) if with_name else ""
        ignore = Ignore([*_detignore(root, with_name=with_name), *ALWAYS_IGNORED])
        if name:
            self._visit(root, name, ignore, ())
        else:
            self._inside(root, "", ignore, (os.path.realpath(root),))

    def _inside(self, folder: str, at: str, ignore: Ignore, above: Tuple[str, ...]) -> None:
        try:
            names = sorted(os.listdir(folder))
        except OSError as e:
            self._unreadable.append(f"{folder}: {e.strerror}")
            return
        for name in names:
            path = f"{at}/{name}" if at else name
            source = os.path.join(folder, name)
            if path == ".detignore" or ignore.matches(path, is_dir=os.path.isdir(source)):
                continue
            if os.path.islink(source) and not os.path.exists(source):
                # Editors make such links as locks. Determined's client skips them, too.
                logger.warning("%r is a link to nothing: it is not sent", source)
                continue
            self._visit(source, path, ignore, above)

    def _visit(self, source: str, path: str, ignore: Ignore, above: Tuple[str, ...]) -> None:
        problem = _problem(source, path, above)
        if problem:
            self._unreadable.append(f"{source!r}: {problem}")
            return
        status = os.stat(source)
        is_dir = stat.S_ISDIR(status.st_mode)
        mode, mtime = stat.S_IMODE(status.st_mode), int(status.st_mtime)
        size = 0 if is_dir else status.st_size
        self.entries.append(Entry(path, source, is_dir, size, mode, mtime))
        if is_dir:
            self._inside(source, path, ignore, (*above, os.path.realpath(source)))

    def refuse_unreadable(self) -> None:
        if self._unreadable:
            shown = "".join(f"\n  {line}" for line in self._unreadable[:_SHOWN])
            more = len(self._unreadable) - _SHOWN
            rest = f"\n  and {more} more" if more > 0 else ""
            raise BadContext(
                f"{len(self._unreadable)} files of the context cannot be sent:{shown}{rest}",
                "make them readable, or list them in .detignore",
            )


def _problem(source: str, path: str, above: Tuple[str, ...]) -> str:
    """Return the reason why this file or directory cannot be sent, or ""."""
    try:
        path.encode()
        mode = os.stat(source).st_mode
    except UnicodeEncodeError:
        return "its name is not valid UTF-8"
    except OSError as e:
        return str(e.strerror)
    if stat.S_ISDIR(mode):
        return "a link to a directory that contains it" if os.path.realpath(source) in above else ""
    if not stat.S_ISREG(mode):
        return "neither a file nor a directory"
    return "" if os.access(source, os.R_OK) else "permission denied"


def _detignore(root: str, *, with_name: bool) -> List[str]:
    """Read the rules in the root of the context directory. Nested .detignore files are ignored."""
    path = os.path.join(root, ".detignore")
    if with_name or not os.path.isfile(path):
        return []
    with open(path, encoding="utf-8", errors="surrogateescape") as f:
        return f.read().split("\n")


def _refuse_oversized(context: Context) -> None:
    if context.size <= MAX_BYTES:
        return
    largest = sorted(context.entries, key=lambda e: -e.size)[:_SHOWN]
    lines = "".join(f"\n  {e.size / 2**20:8.1f} MiB  {e.path}" for e in largest)
    raise BadContext(
        f"the context is {context.size / 2**20:.1f} MiB, more than the 95 MiB that can be sent;"
        f" its largest files:{lines}",
        "keep data out of the context directory, or list it in .detignore",
    )


def _read(entry: Entry) -> bytes:
    try:
        with open(entry.source, "rb") as f:
            return f.read()
    except OSError as e:
        raise BadContext(f"cannot read '{entry.source}': {e.strerror}") from e


def _as_json(entry: Entry) -> Dict[str, Any]:
    content = b"" if entry.is_dir else _read(entry)
    return {
        "path": entry.path,
        "type": _DIRECTORY if entry.is_dir else _REGULAR,
        "content": base64.b64encode(content).decode(),
        "mtime": str(entry.mtime),
        "mode": entry.mode,
        "uid": 0,
        "gid": 0,
    }


def _add(tar: tarfile.TarFile, entry: Entry) -> None:

    info = tarfile.TarInfo(entry.path)
    info.mode, info.mtime = entry.mode, entry.mtime
    if entry.is_dir:
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
        return
    content = _read(entry)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))
