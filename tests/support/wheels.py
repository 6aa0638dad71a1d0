"""Small wheels in a folder that stands for a package index: pip reads it by --find-links."""

import zipfile
from collections.abc import Mapping
from pathlib import Path


def write_wheel(
    folder: Path, name: str, version: str, files: Mapping[str, str], requires: tuple[str, ...] = ()
) -> None:
    """Write a wheel of pure Python, which has the files and depends on other packages."""
    info = f"{name}-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
        wheel.writestr(f"{info}/METADATA", _metadata(name, version, requires))
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def write_installed(site: Path, name: str, version: str, files: Mapping[str, str]) -> None:
    """Write a package as pip leaves it in a folder of packages."""
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(_metadata(name, version, ()))
    for path, content in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(content)


def _metadata(name: str, version: str, requires: tuple[str, ...]) -> str:
    lines = [f"Requires-Dist: {requirement}\n" for requirement in requires]
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{''.join(lines)}"
