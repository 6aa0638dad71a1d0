"""Model definitions: upload, download, their files one by one."""

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass

from det_controlplane.api.auth import user_of
from det_controlplane.api.http import Answer, Request, Response, json_response
from det_controlplane.api.router import Unaudited, get, post
from det_controlplane.core.people.permissions import TaskRule, in_any_workspace, in_path, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.code import model_definitions, model_files
from det_controlplane.services.code.model_definitions import File
from det_controlplane.services.context import Context


@dataclass(frozen=True)
class FileBody:
    """A file of a model definition, as clients send it."""

    path: str
    type: int = 48
    content: str = ""
    mtime: int = 0
    mode: int = 0o644


@dataclass(frozen=True)
class NewUpload:
    size: int = 0
    sha256: str = ""


@dataclass(frozen=True)
class FilePath:
    path: str


@dataclass(frozen=True)
class DownloadQuery:
    path: str = ""


@dataclass(frozen=True)
class CodeQuery:
    url: bool = False


def files_of(bodies: Iterable[FileBody]) -> list[File]:
    return [
        File(path=f.path, type=f.type, content=f.content, mtime=f.mtime, mode=f.mode)
        for f in bodies
    ]


def begin_upload(ctx: Context, request: Request, body: NewUpload) -> Answer:
    upload = model_definitions.begin_upload(ctx, user_of(request).id, body.size, body.sha256)
    return json_response(
        {"contextId": str(upload.context_id), "uploadUrl": upload.url, "headers": {}}
    )


def model_definition(ctx: Context, request: Request, query: CodeQuery) -> Answer:
    code = model_definitions.of_experiment(ctx, request.id("experimentId"), by_url=query.url)
    return json_response(code.to_json())


def archive_of(ctx: Context, request: Request) -> Answer:
    experiment_id = request.id("experimentId")
    code = model_definitions.of_experiment(ctx, experiment_id, by_url=True)
    if code.url:
        return Response(b"", 302, headers={"location": code.url})
    name = f'attachment; filename="exp{experiment_id}_model_def.tar.gz"'
    headers = {"content-disposition": name}
    return Response(code.content, media_type="application/x-gtar", headers=headers)


def file_tree(ctx: Context, request: Request) -> Answer:
    return json_response({"files": model_files.tree(ctx, request.id("experimentId"))})


def file(ctx: Context, request: Request, body: FilePath) -> Answer:
    content = model_files.file(ctx, request.id("experimentId"), body.path).content
    return json_response({"file": base64.b64encode(content).decode()})


def download_file(ctx: Context, request: Request, query: DownloadQuery) -> Answer:
    file = model_files.file(ctx, request.id("experimentId"), query.path)
    name = json.dumps(file.path.rpartition("/")[2])
    headers = {"content-disposition": f"attachment; filename={name}"}
    return Response(file.content, media_type="application/octet-stream", headers=headers)


_E = "/api/v1/experiments"
ROUTES = (
    post(
        "/api/v1/contexts",
        begin_upload,
        summary="Announce a large model definition",
        rule=require(in_any_workspace(Right.CREATE_EXPERIMENT), task=TaskRule.AS_OWNER),
        audit="context.create",
    ),
    get(
        f"{_E}/{{experimentId}}/model_def",
        model_definition,
        summary="Model definition, base64",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_ARTIFACTS, "experiment", "experimentId"),
            task=TaskRule.READ,
            own=True,
        ),
    ),
    get(
        f"{_E}/{{experimentId}}/file_tree",
        file_tree,
        summary="Files of a model definition",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_ARTIFACTS, "experiment", "experimentId"),
            task=TaskRule.READ,
            own=True,
        ),
    ),
    post(
        f"{_E}/{{experimentId}}/file",
        file,
        summary="One file of a model definition",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_ARTIFACTS, "experiment", "experimentId"),
            task=TaskRule.OWN_EXPERIMENT,
        ),
        audit=Unaudited.NO_CHANGE,
    ),
    get(
        "/experiments/{experimentId}/model_def",
        archive_of,
        produces=("application/x-gtar",),
        summary="Model definition, tar.gz",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_ARTIFACTS, "experiment", "experimentId"),
            task=TaskRule.READ,
        ),
    ),
    get(
        "/experiments/{experimentId}/file/download",
        download_file,
        produces=("application/octet-stream",),
        summary="One of its files",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_ARTIFACTS, "experiment", "experimentId"),
            task=TaskRule.READ,
        ),
    ),
)
