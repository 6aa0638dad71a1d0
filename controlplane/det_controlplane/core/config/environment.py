"""The environment of a task: image, variables, mounts and resources."""

import posixpath
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from det_controlplane.core.config.fields import (
    AbsolutePath,
    Bytes,
    CheckedModel,
    Hours,
    Moment,
    Name,
    Natural,
    Port,
    Positive,
    Priority,
    Propagation,
    StrictModel,
    TimeSpan,
    Weight,
    refuse,
)
from det_controlplane.core.config.host_paths import device_of_text
from det_controlplane.core.config.sizes import seconds_of
from det_controlplane.core.problems import Problem

SLOT_KINDS = ("cpu", "cuda", "rocm")
# Official images, pinned by digest because a tag may be moved (docs/adr/0038-default-images.md). This build of PyTorch
# supports every GPU from V100 to B200. PyTorch publishes no image without CUDA for x86-64.
# `scripts/default_images.py` compares the digests with the registries.
CUDA_IMAGE = (
    "pytorch/pytorch:2.10.0-cuda12.8-cudnn9-runtime"
    "@sha256:b85566342b86d13a67712e9315d40cdc2dad7f8d86df1aff3831f80835edbcca"
)
CPU_IMAGE = CUDA_IMAGE
ROCM_IMAGE = (
    "rocm/pytorch:rocm7.2.4_ubuntu24.04_py3.12_pytorch_release_2.10.0"
    "@sha256:4449f856653602317e4101a76fce599c7fcd58ccec2e539951fce5f73083179e"
)


class Image(StrictModel):
    cpu: Name = CPU_IMAGE
    cuda: Name = CUDA_IMAGE
    rocm: Name = ROCM_IMAGE


class EnvironmentVariables(StrictModel):
    """`NAME=value`, or `NAME` alone to copy the value from the agent's environment."""

    cpu: tuple[str, ...] = Field((), strict=False)
    cuda: tuple[str, ...] = Field((), strict=False)
    rocm: tuple[str, ...] = Field((), strict=False)

    @model_validator(mode="after")
    def _names_are_given(self) -> "EnvironmentVariables":
        refuse(
            Problem(f"{kind}[{index}]", f"must be NAME=value or NAME, not {entry!r}")
            for kind in SLOT_KINDS
            for index, entry in enumerate(getattr(self, kind))
            if not entry.partition("=")[0].strip()
        )
        return self


class ProxyPort(StrictModel):
    proxy_port: Port
    proxy_tcp: bool = False
    unauthenticated: bool = False
    default_service_id: bool = False


class RegistryAuth(StrictModel):
    username: str | None = None
    password: str | None = None
    auth: str | None = None
    email: str | None = None
    serveraddress: str | None = None
    identitytoken: str | None = None
    registrytoken: str | None = None


class Environment(StrictModel):
    image: Image = Image.model_construct()
    environment_variables: EnvironmentVariables = EnvironmentVariables.model_construct()
    proxy_ports: tuple[ProxyPort, ...] = Field((), strict=False)
    ports: dict[str, Port] = Field(default_factory=dict)
    force_pull_image: bool = False
    registry_auth: RegistryAuth | None = None
    add_capabilities: tuple[Name, ...] = Field((), strict=False)
    drop_capabilities: tuple[Name, ...] = Field((), strict=False)
    pod_spec: dict[str, Any] | None = None  # for Kubernetes; agents ignore it
    det_token: Literal["owner", "task"] | None = None  # None: owner

    @model_serializer(mode="wrap")
    def _without_unset_token(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit `det_token` if it is not set, because Determined's configurations do not have this key."""
        content: dict[str, Any] = write(self)
        if self.det_token is None:
            content.pop("det_token", None)
        return content


class BindMount(StrictModel):
    host_path: AbsolutePath
    container_path: Name
    read_only: bool = False
    propagation: Propagation = "rprivate"

    @model_validator(mode="after")
    def _mount_point_is_not_the_work_dir(self) -> "BindMount":
        if posixpath.normpath(self.container_path) == ".":
            message = f"must not be {self.container_path!r}, which would hide the work directory"
            refuse([Problem("container_path", message)])
        return self


class Device(StrictModel):
    host_path: AbsolutePath
    container_path: AbsolutePath
    mode: Name = "mrw"

    @model_validator(mode="before")
    @classmethod
    def _read_text(cls, value: Any) -> Any:
        return device_of_text(value) if isinstance(value, str) else value


_OWN_KEYS = (
    *("deadline", "finish_within", "expected_hours"),
    *("replica_memory", "replication_period"),
)
HangTimeout = Annotated[float, Field(le=7 * 86400), BeforeValidator(seconds_of)]
_SHORTEST_S = 60  # A shorter hang timeout would end trials that only load their data.


class Resources(CheckedModel):
    deadline: Moment | None = None
    devices: tuple[Device, ...] = Field((), strict=False)
    expected_hours: Hours | None = None
    # In seconds. It becomes a deadline when the experiment is created.
    finish_within: TimeSpan | None = None
    hang_timeout: HangTimeout | None = None
    is_single_node: bool | None = None
    max_slots: Natural | None = None
    min_slots_per_trial: Positive | None = None
    native_parallel: bool = False
    priority: Priority | None = None
    replica_memory: Bytes | None = None
    replication_period: Positive | None = None  # batches
    resource_pool: str = ""
    shm_size: Bytes | None = None
    slots: Natural | None = None
    slots_per_trial: Natural = 1
    topology: Literal["soft", "strict"] | None = None
    weight: Weight = 1

    @model_serializer(mode="wrap")
    def _without_unset_keys(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit some keys that are not set, because Determined's configurations do not have them."""
        content: dict[str, Any] = write(self)
        for key in _OWN_KEYS:
            if content.get(key) is None:
                content.pop(key, None)
        return content

    def problems(self) -> Iterator[Problem]:
        if self.deadline is not None and self.finish_within is not None:
            yield Problem("finish_within", "must not be set together with deadline; choose one")
        for key, seconds in (
            ("finish_within", self.finish_within),
            ("hang_timeout", self.hang_timeout),
        ):
            if isinstance(seconds, float) and seconds < _SHORTEST_S:
                message = f"is {seconds:g} seconds, and the shortest is a minute; add a unit, such as 20m or 20h"
                yield Problem(key, message)
        if self.slots is not None:
            yield Problem("slots", "is for notebooks, shells and commands; use slots_per_trial")
        if self.native_parallel:
            yield Problem("native_parallel", "was removed; set slots_per_trial and use a launcher")
        least, most = self.min_slots_per_trial, self.slots_per_trial
        if isinstance(least, int) and isinstance(most, int) and least > most:
            message = f"is {least}, and slots_per_trial is {most}; it must not be larger"
            yield Problem("min_slots_per_trial", message)

    @property
    def least_slots(self) -> int:
        """Return the smallest number of slots with which a trial starts."""
        return (
            self.slots_per_trial if self.min_slots_per_trial is None else self.min_slots_per_trial
        )
