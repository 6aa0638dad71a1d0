"""Take model definitions, as the file list that stock clients send or an archive uploaded beside the API, and hand them out."""

import base64
import binascii
import hashlib
import tarfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from det_controlplane.core.code import context_archive
from det_controlplane.core.code.context_archive import BadArchive
from det_controlplane.db.experiments import contexts as rows
from det_controlplane.db.experiments.contexts import NewContext, StoredContext
from det_controlplane.db.schema.enums import EffectKind
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, Oversized, WrongState, require
from det_controlplane.services.principal import User
from det_controlplane.services.use_case import change

MAX_CONTEXT = 95 * 1024 * 1024
# Larger archives go to the object store instead of a row.
INLINE_LIMIT = 8 * 1024 * 1024
UPLOAD_LIFE = timedelta(hours=1)
DOWNLOAD_LIFE = timedelta(minutes=15)
UNUSED_FOR = timedelta(days=1)
_DAY = timedelta(days=1)
_AT_ONCE = 1000
_GZIP = 31  # zlib's way to ask for gzip around it
_FEW_TABLES, _USUAL_TABLES, _SMALL = 5, 8, 1 << 16
_DIRECTORY = 53  # the tar type flag '5'; files are 48, '0'


@dataclass(frozen=True, slots=True)
class File:
    path: str
    type: int
    content: str  # base64
    mtime: int
    mode: int
    uid: int = 0
    gid: int = 0


def archive(files: Sequence[File]) -> bytes:
    """Return a tar.gz of the files; paths that leave the archive are refused."""
    # Level 1: contexts are small text, and this runs in the request.
    gzip = zlib.compressobj(1, wbits=_GZIP, memLevel=_memory_level(files))
    if len(files) > context_archive.MAX_ENTRIES:
        most = context_archive.MAX_ENTRIES
        raise Oversized(
            f"the model definition has more than {most} files; exclude some by .detignore"
        )
    parts, total = [], 0
    for file in files:
        content = _content(file)
        total += len(content)
        if total > MAX_CONTEXT:
            raise Oversized(
                f"the model definition has more than {MAX_CONTEXT >> 20} MiB; exclude files by .detignore"
            )
        parts.append(gzip.compress(_header(_member(file, len(content)))))
        parts.append(gzip.compress(content + bytes(-len(content) % tarfile.BLOCKSIZE)))
    parts.append(gzip.compress(bytes(2 * tarfile.BLOCKSIZE)))
    return b"".join((*parts, gzip.flush()))


def _memory_level(files: Sequence[File]) -> int:
    """Choose little memory for the usual few files: zlib clears its tables first, which is most of its work."""
    return _FEW_TABLES if sum(len(file.content) for file in files) < _SMALL else _USUAL_TABLES


def _header(member: tarfile.TarInfo) -> bytes:
    """Write the header in the old format, which costs half as much, wherever that can say it."""
    if member.name.isascii():
        with suppress(ValueError):  # a name too long, a number too large
            return member.tobuf(tarfile.USTAR_FORMAT)
    return member.tobuf(tarfile.PAX_FORMAT)


def _content(file: File) -> bytes:
    if file.type == _DIRECTORY:
        return b""
    try:
        return base64.b64decode(file.content, validate=True)
    except (binascii.Error, ValueError) as e:
        raise Invalid(f"model definition: the content of {file.path!r} is not base64") from e


def _member(file: File, size: int) -> tarfile.TarInfo:
    parts = file.path.replace("\\", "/").split("/")
    if not file.path or file.path.startswith("/") or ".." in parts or "\0" in file.path:
        raise Invalid(
            f"model definition: path {file.path!r} must be relative and stay inside the archive"
        )
    if len(file.path.encode()) > context_archive.LONGEST_PATH:
        most = context_archive.LONGEST_PATH
        raise Invalid(f"model definition: path {file.path[:80]!r}… has more than {most} bytes")
    member = tarfile.TarInfo(file.path.rstrip("/"))
    member.type = tarfile.DIRTYPE if file.type == _DIRECTORY else tarfile.REGTYPE
    member.size, member.mtime, member.mode = size, file.mtime, file.mode & 0o777
    member.uid, member.gid = file.uid, file.gid
    return member


@dataclass(frozen=True, slots=True)
class Prepared:
    """An archive of something that is being made, and its row where that is still to be inserted."""

    context_id: UUID
    row: NewContext | None


def prepare(ctx: Context, user_id: int, content: bytes) -> Prepared:
    """Put a large archive into the object store before the transaction begins.

    The archive's row is written before, so that archives of refused requests are collected with other unused
    archives."""
    _require_within_day(ctx, user_id, len(content))
    context_id = ctx.random.uuid()
    digest = hashlib.sha256(content).hexdigest()
    if len(content) <= INLINE_LIMIT:
        row = NewContext(context_id, len(content), digest, content, None, uploaded=True)
        return Prepared(context_id, row)
    key = f"contexts/{context_id}.tar.gz"
    upload = NewContext(context_id, len(content), digest, None, key, uploaded=True)
    with ctx.db.begin() as tx:
        rows.insert(tx, upload, user_id, ctx.now())
    ctx.objects.put(key, content)
    return Prepared(context_id, None)


@dataclass(frozen=True, slots=True)
class Upload:
    context_id: UUID
    url: str


def begin_upload(ctx: Context, user_id: int, size: int, sha256: str) -> Upload:
    """Return a place for a large archive: the client puts it there and names it when it creates the experiment."""
    if not 0 < size <= MAX_CONTEXT:
        raise Oversized(
            f"a context of {size} bytes; the limit is {MAX_CONTEXT} bytes. Exclude files by .detignore"
        )
    if len(sha256) != 64:
        raise Invalid("sha256 must be the archive's SHA-256 in hex")
    _require_within_day(ctx, user_id, size)
    context_id = ctx.random.uuid()
    key = f"contexts/{context_id}.tar.gz"
    announced = NewContext(context_id, size, sha256, None, key, uploaded=False)
    with ctx.db.begin() as tx:
        rows.insert(tx, announced, user_id, ctx.now())
    return Upload(context_id, ctx.objects.upload_url(key, size, int(UPLOAD_LIFE.total_seconds())))


def _require_within_day(ctx: Context, user_id: int, size: int) -> None:
    """Refuse an archive by which its user would have sent more within a day than the cluster takes of one user."""
    most = ctx.config.max_uploads_per_day
    if (
        size <= rows.COUNTED_FROM
        or size + rows.sent_since(ctx.db, user_id, ctx.now() - _DAY) <= most
    ):
        return
    raise Oversized(
        f"the model definitions that you sent within 24 hours would have more than {_shown_size(most)} with this one:"
        " exclude files by .detignore, delete experiments that you do not need, or wait; an administrator may set"
        " another limit by security.max_uploads_per_day"
    )


def _shown_size(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size} bytes"


def check_uploaded(ctx: Context, user: User, context_id: UUID) -> None:
    """Require that this user uploaded an archive, whole and as announced."""
    row = _find(ctx, context_id)
    if row.user_id != user.id:
        raise Missing(f"context {context_id} not found")
    if row.uploaded:
        return
    content = ctx.objects.get(row.object_key or "")
    if content is None:
        raise WrongState(f"context {context_id} was never uploaded: PUT it to its upload URL first")
    if len(content) != row.size or hashlib.sha256(content).hexdigest() != row.sha256:
        raise Invalid(
            f"context {context_id}: what was uploaded is not what was announced; upload it again"
        )
    require_bearable(content)
    with ctx.db.begin() as tx:
        rows.uploaded(tx, context_id)


def require_bearable(content: bytes) -> None:
    """Refuse an archive that unpacks to too much, before anything reads it."""
    try:
        context_archive.check(content)
    except BadArchive as e:
        raise Oversized(f"the archive of the model definition is not taken: {e}") from e


def collect_unused(ctx: Context) -> None:
    """Delete unused archives, such as interrupted uploads and the code of refused experiments."""
    with change(ctx) as changed:
        for key in rows.delete_unused(changed.tx, changed.now - UNUSED_FOR, _AT_ONCE):
            changed.later(EffectKind.DELETE_OBJECT, key=key)


@dataclass(frozen=True, slots=True)
class Code:
    """The archive of a model definition; where it lies instead, if it is large and the caller can fetch it there."""

    content: bytes = b""
    url: str = ""
    sha256: str = ""  # the user's upload URL stays valid for an hour

    def to_json(self) -> dict[str, str]:
        fields = {"b64Tgz": base64.b64encode(self.content).decode()}
        return {**fields, "url": self.url, "sha256": self.sha256} if self.url else fields


def of_task(ctx: Context, task_id: str, *, by_url: bool = False) -> Code:
    with ctx.db.begin() as tx:
        owner = require(rows.of_task(tx, task_id), f"task {task_id}")
    return _code(ctx, owner.context_id, by_url=by_url)


def of_experiment(ctx: Context, experiment_id: int, *, by_url: bool = False) -> Code:
    with ctx.db.begin() as tx:
        owner = require(rows.of_experiment(tx, experiment_id), f"experiment {experiment_id}")
    return _code(ctx, owner.context_id, by_url=by_url)


def _code(ctx: Context, context_id: UUID | None, *, by_url: bool) -> Code:
    if context_id is None:
        return Code()
    row = _find(ctx, context_id)
    if row.content is not None:
        return Code(row.content)
    key = row.object_key or ""
    url = ctx.objects.download_url(key, int(DOWNLOAD_LIFE.total_seconds())) if by_url else ""
    if url:
        return Code(url=url, sha256=row.sha256)
    content = ctx.objects.get(key)
    if content is None:
        raise Missing(f"context {context_id}: its object {key} is gone from the store")
    if hashlib.sha256(content).hexdigest() != row.sha256:
        raise WrongState(f"context {context_id}: its object {key} is not what was uploaded")
    return Code(content)


def _find(ctx: Context, context_id: UUID) -> StoredContext:
    with ctx.db.begin() as tx:
        return require(rows.find(tx, context_id), f"context {context_id}")
