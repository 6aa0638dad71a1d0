"""The `checkpoint_storage` section."""

from collections.abc import Iterator
from typing import Annotated, Literal

from det_controlplane.core.config.fields import (
    AbsolutePath,
    CheckedModel,
    Name,
    Natural,
    Propagation,
    discriminated_by,
    kind_tag,
)
from det_controlplane.core.config.storage_paths import escaping_paths
from det_controlplane.core.problems import Problem

KINDS = ("shared_fs", "directory", "s3", "gcs", "azure")


class _Storage(CheckedModel):
    save_experiment_best: Natural = 0
    save_trial_best: Natural = 1
    save_trial_latest: Natural = 1

    def problems(self) -> Iterator[Problem]:
        yield from escaping_paths({"prefix": getattr(self, "prefix", None)})


class SharedFS(_Storage):
    type: Literal["shared_fs"]
    host_path: AbsolutePath
    storage_path: Name | None = None
    propagation: Propagation = "rprivate"
    container_path: str | None = None  # this key and the next two have no effect
    checkpoint_path: str | None = None
    tensorboard_path: str | None = None

    def problems(self) -> Iterator[Problem]:
        yield from escaping_paths({"host_path": self.host_path, "storage_path": self.storage_path})


class Directory(_Storage):
    type: Literal["directory"]
    container_path: AbsolutePath


class S3(_Storage):
    type: Literal["s3"]
    bucket: Name
    access_key: str | None = None
    secret_key: str | None = None
    endpoint_url: str | None = None
    prefix: str | None = None

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if (self.access_key is None) != (self.secret_key is None):
            missing = "access_key" if self.access_key is None else "secret_key"
            yield Problem(missing, "is required: access_key and secret_key go together")


class GCS(_Storage):
    type: Literal["gcs"]
    bucket: Name
    prefix: str | None = None


class Azure(_Storage):
    type: Literal["azure"]
    container: Name
    connection_string: str | None = None
    account_url: str | None = None
    credential: str | None = None

    def problems(self) -> Iterator[Problem]:
        if (self.connection_string is None) == (self.account_url is None):
            yield Problem("", "needs exactly one of connection_string and account_url")
        elif self.credential is not None and self.account_url is None:
            yield Problem("credential", "is only used with account_url")


Storage = Annotated[
    Annotated[SharedFS, kind_tag("shared_fs")]
    | Annotated[Directory, kind_tag("directory")]
    | Annotated[S3, kind_tag("s3")]
    | Annotated[GCS, kind_tag("gcs")]
    | Annotated[Azure, kind_tag("azure")],
    discriminated_by("type"),
]
