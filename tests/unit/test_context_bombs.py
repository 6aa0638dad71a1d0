"""Archives that would unpack to gigabytes are noticed without unpacking them."""

import gzip
import io
import tarfile
import tracemalloc

import pytest
from det_controlplane.core.code import context_archive
from det_controlplane.core.code.context_archive import BadArchive, check

MIB = 1 << 20


def member(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    member_info = tarfile.TarInfo(name)
    member_info.size, member_info.type = size, kind
    return member_info


def packed(*parts: bytes) -> bytes:
    return gzip.compress(b"".join(parts) + bytes(1024), 9)


def zeros(mib: int) -> bytes:
    """Return a small archive of a large file of zeros, made without holding the file."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1) as file:
        file.write(member("zeros", mib * MIB).tobuf())
        for _ in range(mib):
            file.write(bytes(MIB))
        file.write(bytes(1024))
    return buffer.getvalue()


def test_rejects_archive_of_gigabytes_without_using_much_memory() -> None:
    bomb = zeros(2048)
    assert len(bomb) < 16 * MIB
    tracemalloc.start()
    with pytest.raises(BadArchive, match="unpacks to more than"):
        check(bomb)
    assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    tracemalloc.stop()


def test_rejects_too_many_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_archive, "MAX_ENTRIES", 100)
    empty = [member(f"f{n}", 0).tobuf() for n in range(101)]
    assert check(packed(*empty[:100])).entries == 100
    with pytest.raises(BadArchive, match="more than 100 files"):
        check(packed(*empty))


def test_rejects_sparse_file() -> None:
    old = member("holes", 0, tarfile.GNUTYPE_SPARSE).tobuf()
    with pytest.raises(BadArchive, match="of a kind"):
        check(packed(old))
    new = member("holes", 0)
    new.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.realsize": str(1 << 40)}
    with pytest.raises(BadArchive, match="sparse"):
        check(packed(new.tobuf(tarfile.PAX_FORMAT)))


def test_rejects_file_with_two_sizes() -> None:
    """Readers use the PAX size, and would find entries within a file counted by the other size."""
    two = member("two", 0)
    two.pax_headers = {"comment": "x", "size": "0"}
    with pytest.raises(BadArchive, match="two sizes"):
        check(packed(two.tobuf(tarfile.PAX_FORMAT)))
    named = member("size=0 " + "ä" * 120, 0)
    assert check(packed(named.tobuf(tarfile.PAX_FORMAT))).entries == 1


def test_rejects_very_large_header() -> None:
    with pytest.raises(BadArchive, match="header of a file is too long"):
        check(packed(member("x", 300 * MIB, tarfile.XHDTYPE).tobuf()))


@pytest.mark.parametrize("content", [b"", b"no archive", gzip.compress(b"x" * 100_000)[:-9]])
def test_rejects_content_that_is_not_an_archive(content: bytes) -> None:
    if content:
        with pytest.raises(BadArchive):
            check(content)


def test_accepts_ordinary_archives() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name in ("model.py", "ä" * 150 + ".py"):
            tar.addfile(member(name, 3), io.BytesIO(b"x=1"))
        tar.addfile(member("folder", 0, tarfile.DIRTYPE))
    assert check(buffer.getvalue()).entries == 3
