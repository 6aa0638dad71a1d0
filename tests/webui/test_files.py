"""The files of the WebUI as browsers get them: no build step stands between the repository and the page."""

import gzip
import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.api.app import App
from det_controlplane.api.router import Router
from det_controlplane.entry.aws import packaging
from det_controlplane.entry.server.asgi import AsgiApp
from det_controlplane.entry.server.web_files import FOLDER, WebFiles, sent, web_routes

from tests.support.apps import small_app
from tests.support.asgi import Got, request

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = json.loads((ROOT / "scripts" / "webui" / "package.json").read_text("utf-8"))
OURS = sorted(f for f in FOLDER.rglob("*.js") if "vendor" not in f.parts)
IMPORTED = re.compile(r'(?:from|import)\s*\(?\s*"(\.[^"]+)"')
IMPORTING_PAGES = re.compile(r'import\("\./(pages/[^"]+)"\)')
PAGES = sorted(set(IMPORTING_PAGES.findall((FOLDER / "app.js").read_text("utf-8"))))
BEFORE_THE_FIRST_CHART, EVERYTHING = 200_000, 350_000


@pytest.fixture(scope="module")
def host() -> AsgiApp:
    app = App(small_app().ctx, Router(web_routes()))
    return AsgiApp(app, LocalNotifier())


def page(host: AsgiApp, path: str = "/det/", **headers: str) -> Got:
    return request(host, "GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})


def files_of(response: Got) -> list[str]:
    return re.findall(r'(?:href|src)="(/det/-/[^"]+)"', response.body.decode())


def scripts_of(response: Got) -> set[str]:
    return {p.split("/", 4)[4] for p in files_of(response) if p.endswith(".js")}


@pytest.mark.parametrize("path", ["/det", "/det/", "/det/experiments/1", "/det/trials/3/logs"])
def test_every_page_address_returns_the_page(host: AsgiApp, path: str) -> None:
    response = page(host, path)
    assert response.status == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert b'<div id="app">' in response.body


def test_files_are_cached_forever_and_addresses_depend_on_content(
    host: AsgiApp, tmp_path: Path
) -> None:
    for path in files_of(page(host)):
        response = page(host, path)
        assert (response.status, response.headers["cache-control"]) == (
            200,
            "public, max-age=31536000, immutable",
        )
    (tmp_path / "app.js").write_text("1")
    (tmp_path / "index.html").write_text("{{files}}")
    files = WebFiles(tmp_path)
    before = files.current.digest
    (tmp_path / "app.js").write_text("2")
    assert WebFiles(tmp_path).current.digest != before


def test_file_of_another_version_is_not_found(host: AsgiApp) -> None:
    response = page(host, "/det/-/0123456789abcdef/app.js")
    assert response.status == 404


def test_cached_page_is_not_sent_again(host: AsgiApp) -> None:
    etag = page(host).headers["etag"]
    assert page(host, if_none_match=etag).status == 304
    assert page(host, if_none_match='"other"').status == 200


def test_pages_allow_only_scripts_of_the_cluster(host: AsgiApp) -> None:
    response = page(host)
    policy = response.headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    for directive in (
        "default-src 'none'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ):
        assert directive in policy.split("; ")
    text = response.body.decode()
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", text)


def test_files_are_compressed_if_the_client_accepts_it(host: AsgiApp) -> None:
    path = next(p for p in files_of(page(host)) if p.endswith("preact.js"))
    packed, plain = page(host, path, accept_encoding="gzip"), page(host, path)
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.raw) == plain.raw
    assert len(packed.raw) < len(plain.raw) / 2


@pytest.mark.parametrize("file", OURS, ids=lambda f: f.relative_to(FOLDER).as_posix())
def test_scripts_are_sent_without_comments_but_with_the_same_lines(file: Path) -> None:
    source, lines = file.read_text("utf-8").split("\n"), sent(file).decode().split("\n")
    assert len(lines) == len(source)
    for line, original in zip(lines, source, strict=True):
        assert line == original or (not line and re.match(r"\s*(//|/\*\*|\*)", original)), original


def test_files_outside_the_folder_are_not_found(host: AsgiApp) -> None:
    root = files_of(page(host))[0].rsplit("/", 1)[0]
    for path in (
        "/../__init__.py",
        "/%2e%2e/entry/build.py",
        "/__init__.py",
        "/vendor/preact.d.ts",
    ):
        assert page(host, root + path).status == 404


@pytest.mark.parametrize("file", OURS, ids=lambda f: f.relative_to(FOLDER).as_posix())
def test_imported_scripts_exist(file: Path) -> None:
    for target in IMPORTED.findall(file.read_text("utf-8")):
        assert (file.parent / target).is_file(), target


def test_page_lists_every_script_that_it_needs(host: AsgiApp) -> None:
    scripts = scripts_of(page(host))
    assert {f.relative_to(FOLDER).as_posix() for f in needed("app.js")} <= scripts


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("", ["pages/dashboard.js"]),
        ("/experiments", ["pages/experiments.js"]),
        ("/experiments/new", ["pages/new_experiment.js"]),
        ("/experiments/7", ["pages/experiment/page.js", "pages/experiment/overview.js"]),
        ("/experiments/7/logs/", ["pages/experiment/page.js", "pages/experiment/logs.js"]),
        ("/experiments/7/nothing", ["pages/experiment/page.js", "pages/experiment/overview.js"]),
        ("/experiments/7/logs/more", []),
        ("/queue", ["pages/queue.js"]),
        ("/queue/a%20pool", ["pages/queue.js"]),
        ("/nowhere", []),
    ],
)
def test_page_lists_only_scripts_of_its_address(host: AsgiApp, path: str, shown: list[str]) -> None:
    files = {f.relative_to(FOLDER).as_posix() for f in needed("app.js", *shown)}
    scripts = scripts_of(page(host, f"/det{path}"))
    assert scripts - files == {"theme.js", "vendor/signals-core.js"}
    assert files <= scripts


def test_list_of_experiments_loads_few_files(host: AsgiApp) -> None:
    response = page(host, "/det/experiments")
    assert len(scripts_of(response)) < 33
    (sheet,) = [f for f in files_of(response) if f.endswith(".css")]
    css = page(host, sheet).body.decode()
    assert "@import" not in css
    for file in (FOLDER / "css").glob("*.css"):
        assert file.stem == "all" or file.read_text("utf-8") in css, file.name


def packed(files: Iterable[Path]) -> int:
    """Return the bytes that browsers get. Our style sheets are sent as one file."""
    bodies = {f: sent(f) for f in files}
    sheets = sorted(f for f in bodies if f.parent == FOLDER / "css")
    joined = b"".join(bodies.pop(sheet) for sheet in sheets)
    return sum(len(gzip.compress(body, 9)) for body in (*bodies.values(), joined))


def needed(*names: str) -> set[Path]:
    """Return scripts with all their immediate imports, without files that a page loads later."""
    files: set[Path] = set()
    remaining = [FOLDER / name for name in names]
    while remaining:
        file = remaining.pop().resolve()
        if file in files:
            continue
        files.add(file)
        if "vendor" not in file.parts:
            text = re.sub(r"import\([^)]*\)", "", file.read_text("utf-8"))
            remaining += [file.parent / target for target in IMPORTED.findall(text)]
    return files


@pytest.mark.parametrize("page", PAGES)
def test_files_before_the_first_chart_are_small(page: str) -> None:
    sheets = (FOLDER / "css").glob("*.css")
    size = packed([*needed("app.js", page), *sheets, FOLDER / "index.html", FOLDER / "icon.svg"])
    assert size < BEFORE_THE_FIRST_CHART


def test_all_pages_with_all_libraries_are_small() -> None:
    kinds = (".js", ".css", ".html", ".svg")
    assert packed(f for f in FOLDER.rglob("*") if f.suffix in kinds) < EVERYTHING


def test_libraries_have_the_versions_of_the_lock_file() -> None:
    notices = (FOLDER / "vendor" / "LICENSES.txt").read_text("utf-8")
    for name, version in PACKAGES["dependencies"].items():
        assert f"{name} {version}\n" in notices
    for file in (FOLDER / "vendor").glob("*.js"):
        first_line = file.read_text("utf-8").split("\n", 1)[0]
        assert any(f"/*! {n} {v}, " in first_line for n, v in PACKAGES["dependencies"].items()), (
            first_line
        )


@pytest.mark.parametrize("file", OURS, ids=lambda f: f.relative_to(FOLDER).as_posix())
def test_scripts_are_short_and_write_no_markup(file: Path) -> None:
    text = file.read_text("utf-8")
    assert text.count("\n") <= 500
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\(", text)


def test_style_sheets_name_colours_by_tokens() -> None:
    for file in (FOLDER / "css").glob("*.css"):
        if file.stem != "tokens":
            assert not re.search(r"#[0-9a-f]{3,8}\b", file.read_text("utf-8")), file.name


def test_aws_functions_contain_the_pages_without_type_files() -> None:
    unused_files = [name for name in packaging.UNUSED if name.startswith("det_controlplane/webui")]
    assert unused_files == ["det_controlplane/webui/**/*.ts"]
