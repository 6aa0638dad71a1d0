"""The files of a directory that are uploaded as context."""

import base64
import io
import os
import socket
import tarfile
from pathlib import Path

import pytest
from determined.common.context import collect
from determined.common.failures import BadContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    (folder / "pkg" / "__pycache__").mkdir(parents=True)
    (folder / "train.py").write_text("print(1)\n")
    (folder / "pkg" / "model.py").write_text("x = 1\n")
    (folder / "pkg" / "__pycache__" / "model.cpython-311.pyc").write_bytes(b"\0")
    return folder


def paths(root: Path, *includes: Path) -> list[str]:
    return [e.path for e in collect(str(root), [str(i) for i in includes]).entries]


def test_directories_come_before_their_files(root: Path) -> None:
    assert paths(root) == ["pkg", "pkg/model.py", "train.py"]


def test_the_inline_format_matches_determined(root: Path) -> None:
    os.chmod(root / "train.py", 0o755)
    os.utime(root / "train.py", (1_700_000_000, 1_700_000_000))
    folder, _, script = collect(str(root)).inline()
    assert (folder["type"], folder["content"]) == (53, "")
    assert script == {
        "path": "train.py", "type": 48, "content": base64.b64encode(b"print(1)\n").decode(),
        "mtime": "1700000000", "mode": 0o755, "uid": 0, "gid": 0,
    }  # fmt: skip


def test_detignore_excludes_matching_files_and_itself(root: Path) -> None:
    (root / ".detignore").write_text("*.bin\n!keep.bin\n/pkg\n")
    for name in ("a.bin", "keep.bin"):
        (root / name).touch()
    assert paths(root) == ["keep.bin", "train.py"]


def test_only_the_detignore_of_the_root_applies(root: Path) -> None:
    (root / "pkg" / ".detignore").write_text("*\n")
    assert paths(root) == ["pkg", "pkg/.detignore", "pkg/model.py", "train.py"]


def test_byte_code_is_always_excluded(root: Path) -> None:
    (root / ".detignore").write_text("!__pycache__/\n!*.pyc\n")
    assert paths(root) == ["pkg", "pkg/model.py", "train.py"]


def test_links_are_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "data.txt").write_text("d")
    (root / "link").symlink_to(tmp_path / "shared")
    assert paths(root)[:2] == ["link", "link/data.txt"]


def test_warns_about_a_dangling_link(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    (root / "dead").symlink_to(root / "gone")
    assert paths(root) == ["pkg", "pkg/model.py", "train.py"]
    assert f"'{root}/dead' is a link to nothing: it is not sent" in caplog.text


def test_rejects_a_link_to_a_parent_directory(root: Path) -> None:
    (root / "pkg" / "up").symlink_to(root)
    with pytest.raises(BadContext, match="contains it"):
        collect(str(root))


def test_rejects_a_socket(root: Path) -> None:
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(root / "sock"))
        with pytest.raises(BadContext, match=r"sock.*neither a file nor a directory") as error:
            collect(str(root))
    assert ".detignore" in error.value.hint


def test_reports_the_number_of_unreadable_files(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(7):
        (root / f"secret{i}").touch()
    monkeypatch.setattr(os, "access", lambda path, _: "secret" not in str(path))
    with pytest.raises(
        BadContext, match=r"(?s)7 files.*secret0.*permission denied.*and 2 more"
    ) as error:
        collect(str(root))
    assert "secret6" not in error.value.cause


def test_does_not_warn_about_an_ignored_dangling_link(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (root / "dead").symlink_to(root / "gone")
    (root / ".detignore").write_text("dead\n")
    assert "dead" not in paths(root)
    assert caplog.text == ""


def test_accepts_an_ignored_socket(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)  # a socket address has at most 107 characters
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("sock")
        (root / ".detignore").write_text("sock\n")
        assert "sock" not in paths(root)


def test_lists_the_largest_files_if_the_context_is_too_large(root: Path) -> None:
    for i in range(7):
        with open(root / f"data{i}", "wb") as f:
            f.truncate((15 + i) * 2**20)
    with pytest.raises(BadContext) as error:
        collect(str(root))
    files = [line.split()[-1] for line in error.value.cause.splitlines()[1:]]
    assert files == ["data6", "data5", "data4", "data3", "data2"]


def test_accepts_exactly_the_size_limit(tmp_path: Path) -> None:
    with open(tmp_path / "data", "wb") as f:
        f.truncate(95 * 2**20)
    assert collect(str(tmp_path)).size == 95 * 2**20
    with open(tmp_path / "data", "ab") as f:
        f.write(b"x")
    with pytest.raises(BadContext):
        collect(str(tmp_path))


def test_includes_keep_their_names(root: Path, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "util.py").touch()
    (tmp_path / "one.txt").touch()
    all_paths = paths(root, tmp_path / "lib", tmp_path / "one.txt")
    assert all_paths[-3:] == ["lib", "lib/util.py", "one.txt"]


def test_an_include_cannot_replace_a_file_of_the_context(root: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    with pytest.raises(BadContext, match=r"train\.py"):
        collect(str(root), [str(tmp_path / "train.py")])


def test_a_single_file_is_a_context(root: Path) -> None:
    assert paths(root / "train.py") == ["train.py"]


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadContext, match="'/none' does not exist"):
        collect("/none")


names = st.text("abcé .-_", min_size=1, max_size=8).filter(
    lambda n: n.strip(". ") != "" and n[0] != "."
)
contents = st.dictionaries(
    st.lists(names, min_size=1, max_size=3).map("/".join), st.binary(max_size=64), max_size=8
)


@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(contents)
def test_the_archive_contains_the_files_of_the_directory(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    root = tmp_path_factory.mktemp("packed")
    written_contents = {}
    for path, content in files.items():
        target = root / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        except (NotADirectoryError, FileExistsError, IsADirectoryError):
            continue
        written_contents[path] = content
    archive = collect(str(root))
    inline = {
        f["path"]: base64.b64decode(f["content"]) for f in archive.inline() if f["type"] == 48
    }
    assert inline == written_contents
    out = io.BytesIO()
    archive.write_tar_gz(out)
    buffer = io.BytesIO()
    archive.write_tar_gz(buffer)
    assert out.getvalue() == buffer.getvalue()
    with tarfile.open(fileobj=io.BytesIO(out.getvalue())) as tar:
        members = {m.name: tar.extractfile(m) for m in tar if m.isfile()}
        assert {n: f.read() for n, f in members.items() if f} == written_contents
