"""Serve the pages of the WebUI. This package has them as files; there is no build step.

The paths of files contain a digest of all files, so browsers cache them forever and an open page never mixes two
versions during an upgrade. Every other path below /det is a page, and its script chooses the view.
"""

import gzip
import hashlib
import mimetypes
import posixpath
import re
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from det_controlplane.api.errors import NotFound
from det_controlplane.api.http import Request, Response
from det_controlplane.api.router import Access, Route
from det_controlplane.services.context import Context

FOLDER = Path(__file__).resolve().parents[2] / "webui"
_FILES = "/det/-/"
_FIRST = "app.js"
_SUFFIXES = (".js", ".css", ".svg", ".html", ".txt")
# Code and styles come from files of ours alone, no other site shows a page in a frame, and text never becomes markup.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_PAGE_HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-cache",
    "vary": "Accept-Encoding",
}
_IMPORT = re.compile(r'(?:^|;)(?:import|export)\b[^;"]*?"(\.{1,2}/[^"]+)"', re.M)
# The routes in app.js and in pages with parts: ["/trials/:id/:tab?", "Trial", () => import("./pages/trial.js")].
_LATER = re.compile(r'^ *\["([^"]+)", "[^"]+",.*?\bimport\("(\./[^"]+)"\)', re.M)
# Comments with lines of their own. No template of a script has such a line.
_COMMENT = re.compile(
    rb"^[ \t]*(?:// [^\n]*|/\*\* [^\n]*\*/|/\*\*\n(?:[ \t]*\*[^\n]*\n)*?[ \t]*\*/)\n", re.M
)
_SHEET = re.compile(r'@import "\./([^"]+)";\n')


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    packed: bytes
    media_type: str


class _Version:
    """Holds the files as they were at one moment, compressed once."""

    def __init__(self, folder: Path, stamp: tuple[int, ...]) -> None:
        self.stamp = stamp
        self.files = {
            f.relative_to(folder).as_posix(): _file(f.name, sent(f)) for f in _find_files(folder)
        }
        hasher = hashlib.sha256()
        for name, file in self.files.items():
            hasher.update(f"{name}\n{len(file.content)}\n".encode() + file.content)
        self.digest = hasher.hexdigest()[:16]
        for name in (n for n in self.files if n.endswith(".css")):
            self.files[name] = _file(name, self._whole_sheet(name).encode())
        self._pages: dict[tuple[str, ...], _File] = {}
        self._parts = {
            n: dict(_LATER.findall(self._text(n))) for n in self.files if n.endswith(".js")
        }

    def page(self, path: str) -> _File:
        """Return the page that shows an address below /det, with the names of all scripts that it needs first."""
        scripts = tuple(self._shown_at(path))
        if scripts not in self._pages:
            root = f"{_FILES}{self.digest}"
            links = [
                f'<link rel="modulepreload" href="{root}/{f}">' for f in self._with_imports(scripts)
            ]
            text = self._text("index.html").replace("{{preloads}}", "\n    ".join(links))
            self._pages[scripts] = _file("index.html", text.replace("{{files}}", root).encode())
        return self._pages[scripts]

    def _with_imports(self, scripts: tuple[str, ...]) -> list[str]:
        """Return the scripts that a browser needs before it shows a page, so that it fetches them at once."""
        names = [_FIRST, *scripts]
        for name in names:  # which grows meanwhile
            for target in _IMPORT.findall(self._text(name)):
                script = _resolve_path(name, target)
                if script not in names:
                    names.append(script)
        return names

    def _shown_at(self, path: str) -> list[str]:
        """Return the script of a page, and the script of its part that the path names or that comes first."""
        for pattern, target in self._parts.get(_FIRST, {}).items():
            params = _match_path(pattern, path)
            if params is not None:
                page = _resolve_path(_FIRST, target)
                parts = self._parts[page]
                part = parts.get(params.get("tab", ""), next(iter(parts.values()), ""))
                return [page, _resolve_path(page, part)] if part else [page]
        return []

    def _text(self, name: str) -> str:
        return self.files[name].content.decode()

    def _whole_sheet(self, name: str) -> str:
        """Return a style sheet with its imports inlined, which saves a request for each."""
        return _SHEET.sub(lambda m: self._whole_sheet(_resolve_path(name, m[1])), self._text(name))


class WebFiles:
    """Serve the files of a folder from memory. Reloading a page shows changed files."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._version: _Version | None = None

    @property
    def current(self) -> _Version:
        return self._version or self._read()

    def _read(self) -> _Version:
        stamp = tuple(f.stat().st_mtime_ns for f in _find_files(self._folder))
        if self._version is None or self._version.stamp != stamp:
            self._version = _Version(self._folder, stamp)
        return self._version

    def page(self, ctx: Context, request: Request) -> Response:
        version = self._read()
        page = version.page(request.path.removeprefix("/det"))
        etag = f'"{version.digest}"'
        headers = {**_PAGE_HEADERS, "etag": etag}
        if request.headers.get("if-none-match", "").removeprefix("W/") == etag:
            return Response(b"", 304, page.media_type, headers)
        return _answer(request, page, headers)

    def file(self, ctx: Context, request: Request) -> Response:
        digest, _, name = request.param("file").partition("/")
        version = self.current
        file = version.files.get(name) if digest == version.digest else None
        if file is None:
            raise NotFound(f"there is no file {request.path} in this version of the WebUI")
        forever = {
            "cache-control": "public, max-age=31536000, immutable",
            "vary": "Accept-Encoding",
        }
        return _answer(request, file, forever)


def web_routes() -> tuple[Route, ...]:
    files, summary = WebFiles(), "The WebUI"
    return (
        Route("GET", "/det", files.page, Access.PUBLIC, summary),
        Route("GET", "/det/{page...}", files.page, Access.PUBLIC, summary),
        Route("GET", f"{_FILES}{{file...}}", files.file, Access.PUBLIC, "A file of the WebUI"),
    )


def _resolve_path(name: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), target))


def _match_path(pattern: str, path: str) -> dict[str, str] | None:
    """Match an address to a pattern as `/trials/:id/:tab?`, as lib/router.js does."""
    pattern_parts, path_parts = pattern.split("/"), (path.rstrip("/") or "/").split("/")
    params = {}
    if len(path_parts) > len(pattern_parts):
        return None
    for part, value in zip_longest(pattern_parts, path_parts):
        if not part.startswith(":") and part != value:
            return None
        if value is None and not part.endswith("?"):
            return None
        if value is not None:
            params[part.strip(":?")] = value
    return params


def _find_files(folder: Path) -> list[Path]:
    return sorted(f for f in folder.rglob("*") if f.suffix in _SUFFIXES)


def _answer(request: Request, file: _File, headers: dict[str, str]) -> Response:
    if "gzip" in request.headers.get("accept-encoding", ""):
        gzip_headers = {**headers, "content-encoding": "gzip"}
        return Response(file.packed, media_type=file.media_type, headers=gzip_headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


def sent(file: Path) -> bytes:
    """Return a file as browsers get it. Our scripts lose their comments, a seventh of their size."""
    content = file.read_bytes()
    if file.suffix != ".js" or "vendor" in file.parts:
        return content
    return _COMMENT.sub(lambda comment: b"\n" * comment[0].count(b"\n"), content)


def _file(name: str, content: bytes) -> _File:
    kind = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0]
    return _File(
        content, gzip.compress(content, 9, mtime=0), f"{kind or 'text/plain'}; charset=utf-8"
    )
