"""Files of replicas. The header is written last and has a checksum, so an interrupted write is detected."""

import contextlib
import json
import mmap
import os
import struct
import zlib
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Dict, List, Optional, Tuple

from determined.common.storage._parts import crc32

_MAGIC = b"DETREPL1"
_HEAD = struct.Struct("!8sII")  # magic, length and CRC-32 of the description
DATA_AT = 4096  # tensors start at a page
_PIECE = 16 * 1024 * 1024
_SPARE_BYTES = 256 * 1024
_SUFFIXES = (".0", ".1")
_ORIGIN = "origin.json"
STATE = "state"


def rank_item(rank: int) -> str:
    return f"rank-{rank}"


@dataclass(frozen=True)
class Header:
    """The description of a stored item, and of the replica that it belongs to."""

    item: str
    run: int
    sequence: int  # increases with every replica of the trial
    steps: int
    ranks: int
    has_state: bool
    has_rank_states: bool
    data: int = 0  # bytes of tensors
    skeleton: int = 0  # bytes of the other values, after the tensors
    crc: int = 0
    # The last step of each metric group that the chief had reported.
    reported: Dict[str, int] = field(default_factory=dict)

    @property
    def replica(self) -> Tuple[int, int]:
        return self.run, self.sequence


class SlotFile:
    """A file with every second version of an item. It stays mapped, because new pages of memory cost time."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.memory: Optional[mmap.mmap] = None

    def reserve(self, size: int) -> mmap.mmap:
        """Make the stored item invalid, and return memory for `size` bytes. Raises OSError without room."""
        needed = DATA_AT + size
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.pwrite(file, bytes(_HEAD.size), 0)
            present = os.fstat(file).st_size
            if not needed <= present <= needed + needed // 4 + 2 * _SPARE_BYTES:
                self.close()
                present = needed + _SPARE_BYTES
                os.ftruncate(file, present)
                # Without reserved pages, a write to a full file system would end the process by SIGBUS.
                os.posix_fallocate(file, 0, present)
            if self.memory is None:
                self.memory = mmap.mmap(file, present)
        finally:
            os.close(file)
        return self.memory

    def commit(self, header: Header) -> Header:
        """Write the header with the checksum of the content, and return it. From now on the item is valid."""
        assert self.memory is not None
        with memoryview(self.memory) as memory:
            content = memory[DATA_AT : DATA_AT + header.data + header.skeleton]
            header = replace(header, crc=checksum(content))
            content.release()
        description = json.dumps(asdict(header)).encode()
        head = _HEAD.pack(_MAGIC, len(description), zlib.crc32(description))
        if len(head) + len(description) > DATA_AT:
            raise ValueError(f"a header of {len(description)} bytes does not fit into a page")
        self.memory[_HEAD.size : _HEAD.size + len(description)] = description
        self.memory[: _HEAD.size] = head
        return header

    def close(self) -> None:
        if self.memory is not None:
            self.memory.close()
            self.memory = None


def checksum(content: Any) -> int:
    """Return the CRC-32 of a buffer. Large buffers are read in pieces, so that other threads run meanwhile."""
    crc = 0
    for start in range(0, len(content), _PIECE):
        crc = crc32(content[start : start + _PIECE], crc)
    return crc


def read_header(path: str) -> Optional[Header]:
    """Return the header of a file, or None if it has no complete item."""
    try:
        with open(path, "rb") as file:
            page = file.read(DATA_AT)
        magic, length, crc = _HEAD.unpack_from(page)
        description = page[_HEAD.size : _HEAD.size + length]
        if magic != _MAGIC or zlib.crc32(description) != crc:
            return None
        return Header(**json.loads(description))
    except (OSError, struct.error, ValueError, TypeError):
        return None


def read_content(path: str, header: Header) -> Optional[bytearray]:
    """Return the content of an item, or None if the file has another item or is damaged."""
    content = bytearray(header.data + header.skeleton)
    try:
        with open(path, "rb", buffering=0) as file:
            file.seek(DATA_AT)
            with memoryview(content) as view:
                position = 0
                while position < len(content):
                    count = file.readinto(view[position:])
                    if not count:
                        return None
                    position += count
    except OSError:
        return None
    is_same = read_header(path) == header
    return content if is_same and checksum(content) == header.crc else None


class Folder:
    """The directory of a trial's replicas on this machine."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._files: Dict[str, SlotFile] = {}

    def slot(self, item: str, sequence: int) -> SlotFile:
        """Return the file for an item of a replica. The replica before it has the other file."""
        path = self._path(item, sequence)
        return self._files.setdefault(path, SlotFile(path))

    def headers(self) -> List[Header]:
        """Return the headers of all complete items."""
        headers = [read_header(path) for path in self._paths()]
        return [header for header in headers if header is not None]

    def read(self, header: Header) -> Optional[bytearray]:
        return read_content(self._path(header.item, header.sequence), header)

    def used_bytes(self, *, without: Tuple[str, ...] = ()) -> int:
        """Return the size of all files, except the items in `without`."""
        paths = [p for p in self._paths() if _item_of(p) not in without]
        return sum(_size(path) for path in paths)

    def remove_items(self, *, without: Tuple[str, ...] = ()) -> None:
        """Delete the files of all items except `without`."""
        for path in self._paths():
            if _item_of(path) in without:
                continue
            slot = self._files.pop(path, None)
            if slot is not None:
                slot.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def read_origin(self) -> Optional[Dict[str, Any]]:
        try:
            with open(os.path.join(self.path, _ORIGIN)) as file:
                origin: Dict[str, Any] = json.load(file)
            return origin
        except (OSError, ValueError):
            return None

    def write_origin(self, origin: Dict[str, Any]) -> None:
        partial = os.path.join(self.path, f".{_ORIGIN}")
        with open(partial, "w") as file:
            json.dump(origin, file)
        os.replace(partial, os.path.join(self.path, _ORIGIN))

    def close(self) -> None:
        for slot in self._files.values():
            slot.close()
        self._files = {}

    def _path(self, item: str, sequence: int) -> str:
        return os.path.join(self.path, f"{item}{_SUFFIXES[sequence % 2]}")

    def _paths(self) -> List[str]:
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return []
        return [os.path.join(self.path, n) for n in sorted(names) if n.endswith(_SUFFIXES)]


def _item_of(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0
