"""Write and verify the file of a backup: an uncompressed tar with a manifest of all members.

The manifest and its checksum are the last members, so an incomplete file does not have them."""

import hashlib
import json
import os
import secrets
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

FORMAT = 1
DUMP = "database.dump"
SETTINGS, OBJECTS, CHECKPOINTS = "settings", "objects", "checkpoints"
_MANIFEST, _CHECKSUM = "manifest.json", "manifest.sha256"
_PIECE = 1 << 20


class BadArchive(Exception):
    """The file is not a backup, is damaged, or was made by a newer version."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file with its checksum, a symbolic link with its target, or a folder (its name ends with a slash)."""

    name: str
    size: int = 0
    sha256: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory of checkpoints, and the folder of the archive that has its files."""

    path: str
    member: str


@dataclass(frozen=True, slots=True)
class Manifest:
    format: int
    product_version: str
    schema_revision: str
    postgres_version: int  # the newer version of the server and pg_dump
    cluster_id: str
    cluster_name: str
    folder: str  # the data directory of the cluster
    taken_at: str  # when the snapshot of the database was taken
    table_bytes: int
    rows: Mapping[str, int]  # by table
    with_checkpoints: bool
    directories: tuple[Directory, ...]
    elsewhere: Mapping[
        str, int
    ]  # number of checkpoints in storages that a backup does not copy, by location
    missing: tuple[str, ...]  # files in the database that did not exist
    members: tuple[Member, ...] = ()

    @property
    def file_bytes(self) -> int:
        return sum(member.size for member in self.members)


class ArchiveWriter:
    """Writes members one after another to a partial file; `complete` adds the manifest and renames the file."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self.folder = target.parent
        self._partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
        # The file contains secrets, so it must be private from its creation.
        handle = os.open(self._partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(handle, "wb")
        self._members: dict[str, Member] = {}

    def add_pieces(
        self, name: str, pieces: Iterable[bytes], mode: int = 0o600, mtime: float = 0.0
    ) -> None:
        """Add a file of unknown size."""
        info = tarfile.TarInfo(name)
        info.mode, info.mtime = mode, int(mtime)
        start, digest = self._file.tell(), hashlib.sha256()
        self._file.write(_header(info))
        for piece in pieces:
            self._file.write(piece)
            digest.update(piece)
            info.size += len(piece)
        self._file.write(b"\0" * (-info.size % tarfile.BLOCKSIZE))
        end = self._file.tell()
        self._file.seek(start)
        self._file.write(_header(info))
        self._file.seek(end)
        self._members[name] = Member(name, info.size, digest.hexdigest())

    def add_file(self, name: str, source: Path) -> None:
        """Add a file or a symbolic link of this machine. Raises FileNotFoundError before anything is written."""
        if source.is_symlink():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, os.readlink(source)
            self._file.write(_header(info))
            self._members[name] = Member(name, link=info.linkname)
            return
        with source.open("rb") as file:
            stat = os.fstat(file.fileno())
            self.add_pieces(name, _pieces(file), stat.st_mode & 0o777, stat.st_mtime)

    def add_folder(self, name: str) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        self._file.write(_header(info))
        self._members[f"{name}/"] = Member(f"{name}/")

    def __contains__(self, name: str) -> bool:
        """Return whether a file is in the archive, itself or behind a symbolic link to a folder."""
        path = PurePosixPath(name)
        return any(str(one) in self._members for one in (path, *path.parents))

    def complete(self, manifest_of: Callable[[tuple[Member, ...]], Manifest]) -> Manifest:
        """Write the manifest, and rename the file once it is on the disk."""
        manifest = manifest_of(tuple(self._members.values()))
        text = (json.dumps(asdict(manifest), indent=1) + "\n").encode()
        self.add_pieces(_MANIFEST, [text])
        self.add_pieces(_CHECKSUM, [hashlib.sha256(text).hexdigest().encode() + b"\n"])
        self._file.write(b"\0" * (2 * tarfile.BLOCKSIZE))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._partial.replace(self._target)
        sync_folder(self._target.parent)
        return manifest

    def discard(self) -> None:
        """Remove the partial file unless `complete` has renamed it."""
        self._file.close()
        self._partial.unlink(missing_ok=True)


@contextmanager
def writing(target: Path) -> Iterator[ArchiveWriter]:
    """Open a writer; remove the partial file if the block does not complete it."""
    writer = ArchiveWriter(target)
    try:
        yield writer
    finally:
        writer.discard()


def read_manifest(path: Path) -> Manifest:
    """Return the manifest of a backup without reading its other members. Raises BadArchive."""
    if path.is_dir():
        raise BadArchive(f"{path} is a directory: name the file that `backup` wrote")
    texts: dict[str, bytes] = {}
    with _open(path) as archive:
        for info in archive:
            if info.name in (_MANIFEST, _CHECKSUM):
                texts[info.name] = b"".join(_content(archive, info))
    if _MANIFEST not in texts or _CHECKSUM not in texts:
        raise BadArchive(
            f"{path} is not a backup, or was cut off: it has no manifest; copy it again"
        )
    if hashlib.sha256(texts[_MANIFEST]).hexdigest().encode() != texts[_CHECKSUM].strip():
        raise _damage_error(path, _MANIFEST)
    return _parse_manifest(path, json.loads(texts[_MANIFEST]))


def verify(path: Path, manifest: Manifest) -> None:
    """Compare every member of a backup with the manifest. Raises BadArchive."""
    entries = {member.name: member for member in manifest.members}
    with _open(path) as archive:
        members = _members(archive)
    for name in sorted(entries.keys() | members.keys()):
        if entries.get(name) != members.get(name):
            raise _damage_error(path, name)


def extract(path: Path, folders: Mapping[str, Path]) -> None:
    """Write the members below each prefix to its folder.

    Symbolic links are made last, so that no file is written through one."""
    links: list[tuple[Path, str]] = []
    with _open(path) as archive:
        for info in archive:
            target = _target(info.name, folders)
            if target is None:
                continue
            if info.isdir():
                target.mkdir(parents=True, exist_ok=True)
            elif info.issym():
                links.append((target, info.linkname))
            else:
                _extract_file(archive, info, target)
    for target, link in links:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(link)


@contextmanager
def opened(path: Path, name: str) -> Iterator[IO[bytes]]:
    """Open one member."""
    with _open(path) as archive:
        file = archive.extractfile(name)
        assert file is not None
        with file:
            yield file


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _header(info: tarfile.TarInfo) -> bytes:
    # In this format the length of a header depends on the name alone, also of files beyond 8 GiB.
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece


@contextmanager
def _open(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path, "r:", encoding="utf-8") as archive:
            yield archive
    except (tarfile.TarError, EOFError) as e:
        raise BadArchive(f"{path} is not a backup, or was cut off ({e}): copy it again") from e


def _members(archive: tarfile.TarFile) -> dict[str, Member]:
    """Return the members with their checksums."""
    members: dict[str, Member] = {}
    for info in archive:
        _require_plain(info)
        name = f"{info.name}/" if info.isdir() else info.name
        if name in members:
            raise tarfile.ReadError(f"{name} is in it twice")
        if info.name in (_MANIFEST, _CHECKSUM):
            continue
        digest = hashlib.sha256()
        for piece in _content(archive, info) if info.isreg() else ():
            digest.update(piece)
        checksum = digest.hexdigest() if info.isreg() else ""
        members[name] = Member(name, info.size, checksum, info.linkname)
    return members


def _require_plain(info: tarfile.TarInfo) -> None:
    """Refuse names that lead out of a folder, and devices: no backup has them."""
    parts = PurePosixPath(info.name).parts
    if not parts or info.name.startswith("/") or ".." in parts:
        raise tarfile.ReadError(f"a member is called {info.name!r}")
    if not (info.isreg() or info.isdir() or info.issym()):
        raise tarfile.ReadError(f"{info.name} is neither a file nor a folder")


def _content(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Iterator[bytes]:
    file = archive.extractfile(info)
    assert file is not None
    with file:
        yield from _pieces(file)


def _parse_manifest(path: Path, raw: dict[str, Any]) -> Manifest:
    if raw.get("format") != FORMAT:
        raise BadArchive(
            f"{path} has format {raw.get('format')} of backups and this program knows format {FORMAT}: it was made by"
            f" version {raw.get('product_version')}; install that version or a newer one"
        )
    return Manifest(
        **{
            **raw,
            "directories": tuple(Directory(**d) for d in raw["directories"]),
            "missing": tuple(raw["missing"]),
            "members": tuple(Member(**m) for m in raw["members"]),
        }
    )


def _damage_error(path: Path, name: str) -> BadArchive:
    return BadArchive(
        f"{path} was altered or damaged: {name} differs from the manifest; copy the file again"
    )


def _target(name: str, folders: Mapping[str, Path]) -> Path | None:
    for prefix, folder in folders.items():
        if name.startswith(f"{prefix}/"):
            return folder / name[len(prefix) + 1 :]
    return None


def _extract_file(archive: tarfile.TarFile, info: tarfile.TarInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source = archive.extractfile(info)
    assert source is not None
    with (
        source,
        os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
    ):
        shutil.copyfileobj(source, file, _PIECE)
    target.chmod(info.mode)
    os.utime(target, (info.mtime, info.mtime))
