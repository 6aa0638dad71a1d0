"""Print the classes of Determined's errors that the installed package `determined` raises, as JSON."""

import json
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from determined import errors as det_errors
from determined.common.api import errors
from determined.experimental import client

NAMES = (
    "APIException", "BadRequestException", "BadResponseException", "CorruptCertificateCacheException",
    "CorruptTokenCacheException", "DeleteFailedException", "EmptyResultException", "ForbiddenException",
    "InvalidCredentialsException", "MasterNotFoundException", "NotFoundException", "UnauthenticatedException",
)  # fmt: skip
CHECKPOINT_NAMES = (
    "CheckpointStateException", "MultipleDownloadsFailed", "NoDirectStorageAccess", "ProxiedDownloadFailed",
)  # fmt: skip


def classes_of(call: Callable[[], Any]) -> list[str]:
    try:
        call()
    except BaseException as e:
        names = [n for n in NAMES if isinstance(e, getattr(errors, n))]
        return names + [n for n in CHECKPOINT_NAMES if isinstance(e, getattr(det_errors, n))]
    return ["no error"]


url, password, deleted, absent = sys.argv[1:5]
signed_in = client.Determined(url, "determined", password)
folder = tempfile.mkdtemp()


def download(uuid: str, mode: client.DownloadMode) -> None:
    signed_in.get_checkpoint(uuid).download(folder, mode)


calls: dict[str, Callable[[], Any]] = {
    "wrong password": lambda: client.Determined(url, "nobody", "wrong"),
    "unreachable": lambda: client.Determined("http://127.0.0.1:9", "determined", password),
    "no experiment": lambda: signed_in.get_experiment(999),
    "no checkpoint": lambda: signed_in.get_checkpoint("00000000-0000-0000-0000-000000000000"),
    "no model": lambda: signed_in.get_model("absent"),
    "not allowed": lambda: signed_in.create_user("eve", False, "Long enough 1"),
    "no configuration": lambda: signed_in.create_experiment({"entrypoint": 5}, folder),
    "deleted checkpoint": lambda: download(deleted, client.DownloadMode.AUTO),
    "no storage": lambda: download(absent, client.DownloadMode.DIRECT),
    "no storage through the cluster": lambda: download(absent, client.DownloadMode.MASTER),
    "no storage either way": lambda: download(absent, client.DownloadMode.AUTO),
}
print(json.dumps({name: classes_of(call) for name, call in calls.items()}))
