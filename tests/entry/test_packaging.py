"""The zip of the functions fits the requested processor and Python, and is reproducible."""

import os
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest
from det_controlplane.entry.aws import packaging
from det_controlplane.entry.aws.packaging import PackagingFailed

ARM, INTEL = packaging.MACHINES["arm64"], packaging.MACHINES["x86_64"]


def elf(path: Path, machine: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF" + bytes(14) + machine.to_bytes(2, "little") + bytes(44))


def test_machine_type_of_the_interpreter_is_recognised() -> None:
    here = packaging.elf_machine(Path(sys.executable).resolve())
    assert here in (None, ARM, INTEL)


def test_rejects_a_library_for_another_processor(tmp_path: Path) -> None:
    elf(tmp_path / "fitting/_a.cpython-311.so", ARM)
    (tmp_path / "script.so").write_text("INPUT(libc.so.6)")
    packaging.refuse_other_machines(tmp_path, "arm64")
    elf(tmp_path / "pydantic_core/_b.so.1", INTEL)
    with pytest.raises(PackagingFailed, match=r"not for arm64 .*: pydantic_core/_b\.so\.1 \(62\)"):
        packaging.refuse_other_machines(tmp_path, "arm64")


def test_rejects_a_library_that_needs_a_newer_glibc_than_lambdas(tmp_path: Path) -> None:
    for name, newest in (("fitting/_a.so", b"2.17"), ("re2/_b.so", b"2.34")):
        elf(tmp_path / name, INTEL)
        with (tmp_path / name).open("ab") as file:
            file.write(b"\0GLIBC_2.4\0GLIBC_" + newest + b"\0")
    packaging.refuse_newer_glibc(tmp_path, "python3.12")
    with pytest.raises(PackagingFailed, match=r"than Lambda's 2\.26: re2/_b\.so \(2\.34\)"):
        packaging.refuse_newer_glibc(tmp_path, "python3.11")


@pytest.mark.parametrize(
    ("runtime", "remedy"),
    [("python3.11", "with Python 3.12 or 3.13"), ("python3.13", "on a machine whose glibc is no newer")],
)  # fmt: skip
def test_glibc_error_has_a_remedy(tmp_path: Path, runtime: str, remedy: str) -> None:
    elf(tmp_path / "_a.so", INTEL)
    with (tmp_path / "_a.so").open("ab") as file:
        file.write(b"\0GLIBC_2.39\0")
    with pytest.raises(PackagingFailed, match=remedy):
        packaging.refuse_newer_glibc(tmp_path, runtime)


def test_runtime_must_be_the_python_that_packages(tmp_path: Path) -> None:
    packaging.refuse_other_python(packaging.own_runtime())
    with pytest.raises(PackagingFailed, match=r"are to run in python3\.99, .* leave `runtime` out"):
        packaging.build(tmp_path, runtime="python3.99")


def test_rejects_an_unknown_processor(tmp_path: Path) -> None:
    with pytest.raises(PackagingFailed, match="no processor riscv64: give x86_64 or arm64"):
        packaging.build(tmp_path, architecture="riscv64")


def compiled(folder: Path, source: str) -> str:
    (folder / "package").mkdir(parents=True)
    for name in ("__init__", "first", "second"):
        (folder / "package" / f"{name}.py").write_text(source)
    packaging.add_bytecode(folder)
    packaging.write_zip(folder, folder.with_suffix(".zip"))
    with zipfile.ZipFile(folder.with_suffix(".zip")) as archive:
        assert sum(name.endswith(".pyc") for name in archive.namelist()) == 3
    return sha256(folder.with_suffix(".zip").read_bytes()).hexdigest()


def test_bytecode_does_not_depend_on_earlier_interned_strings(tmp_path: Path) -> None:
    signs = [chr(code) for code in range(1, 32)]
    source = "".join(f"of_{ord(sign)} = {sign!r}, 'more'\n" for sign in signs)
    before = compiled(tmp_path / "before", source)
    # Byte-code marks names that other modules have interned.
    interned = [sys.intern(sign) for sign in signs]
    assert compiled(tmp_path / "after", source) == before
    assert interned == signs


def test_reports_a_source_that_does_not_compile(tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task/broken.py").write_text("def (:\n")
    with pytest.raises(PackagingFailed, match=r"(?s)does not compile:.*broken\.py"):
        packaging.add_bytecode(tmp_path / "task")


def test_rejects_a_zip_that_is_too_large_for_lambda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packaging, "LARGEST_ZIP", 1024**2)
    (tmp_path / "task").mkdir()
    (tmp_path / "task/noise").write_bytes(os.urandom(2 * 1024**2))
    with pytest.raises(PackagingFailed, match=r"big.zip has 2\.0 MiB, and Lambda takes 1"):
        packaging.write_zip(tmp_path / "task", tmp_path / "big.zip")
