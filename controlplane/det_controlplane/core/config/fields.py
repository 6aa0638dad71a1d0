"""The bricks of the typed configuration: closed models, numbers, and errors with several causes."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, PlainValidator

from det_controlplane.core.config import sizes
from det_controlplane.core.config.lengths import Length, length_json, parse_length, parse_period
from det_controlplane.core.problems import Problem

_INT32 = 2**31 - 1


class Closed(BaseModel):
    """An object with exactly these keys. Built when first used, so that importing it is cheap."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class Broken(ValueError):
    """Several problems of one object, with paths relative to it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(p) for p in self.problems))


def refuse(problems: Iterable[Problem]) -> None:
    found = tuple(problems)
    if found:
        raise Broken(found)


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _shm_size(value: Any) -> Any:
    return sizes.parse_bytes(value) if isinstance(value, str) else value


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(f"must be an absolute path, not {value!r}")
    return value


Natural = Annotated[int, Field(ge=0, le=_INT32), BeforeValidator(_whole)]
Positive = Annotated[int, Field(ge=1, le=_INT32), BeforeValidator(_whole)]
Priority = Annotated[int, Field(ge=1, le=99), BeforeValidator(_whole)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1), BeforeValidator(_whole)]
RetentionDays = Annotated[int, Field(ge=-1, le=32767), BeforeValidator(_whole)]
Port = Annotated[int, Field(ge=1, le=65535), BeforeValidator(_whole)]
Bytes = Annotated[int, Field(ge=1, le=2**53), BeforeValidator(_whole), BeforeValidator(_shm_size)]
Identifier = Annotated[int, Field(ge=1, le=2**53), BeforeValidator(_whole)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(gt=0, le=1e9)]
Name = Annotated[str, Field(min_length=1)]
AbsolutePath = Annotated[
    str, Field(min_length=1), BeforeValidator(lambda v: _absolute(v) if isinstance(v, str) else v)
]
Propagation = Literal["rprivate", "private", "rshared", "shared", "rslave", "slave"]

MaxLength = Annotated[Length, PlainValidator(parse_length), PlainSerializer(length_json)]
Period = Annotated[Length, PlainValidator(parse_period), PlainSerializer(length_json)]
