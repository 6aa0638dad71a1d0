"""Base models and field types of the configuration: models without unknown keys, numbers, unions, combined errors."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    ModelWrapValidatorHandler,
    PlainSerializer,
    PlainValidator,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails

from det_controlplane.core.config import sizes
from det_controlplane.core.config.lengths import (
    Length,
    WrongUnits,
    length_json,
    parse_length,
    parse_period,
)
from det_controlplane.core.config.moments import format_moment, parse_moment
from det_controlplane.core.problems import Problem
from det_controlplane.core.schedule.job_settings import (
    HIGHEST_PRIORITY,
    LARGEST_WEIGHT,
    LOWEST_PRIORITY,
)

_INT32 = 2**31 - 1

_KIND_MARK = "·"  # distinguishes a kind from a key in error paths


class StrictModel(BaseModel):
    """A model that rejects unknown keys. Its schema is built at first use, so that imports are fast."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class ModelProblems(ValueError):
    """Several problems of one object. Their paths are relative to the object."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(p) for p in self.problems))


def refuse(problems: Iterable[Problem]) -> None:
    all_problems = tuple(problems)
    if all_problems:
        raise ModelProblems(all_problems)


class CheckedModel(StrictModel):
    """A model that checks the object as a whole, even if some of its fields are invalid."""

    def problems(self) -> Iterator[Problem]:
        """Yield problems with paths relative to the object. Invalid fields have their raw values."""
        yield from ()

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, raw: Any, handler: ModelWrapValidatorHandler[Any]) -> Any:
        try:
            model = handler(raw)
        except ValidationError as error:
            raise _with_problems(error, cls, raw) from error
        refuse(model.problems())
        return model


def _with_problems(error: ValidationError, model: type[CheckedModel], raw: Any) -> ValidationError:
    if not isinstance(raw, dict):
        return error
    fields = model.model_fields
    errors = [_as_init_error(details) for details in error.errors(include_url=False)]
    wrong = {details["loc"][0] for details in errors if details["loc"]}
    values = {name: raw.get(name) for name, f in fields.items() if name in raw or f.is_required()}
    more = [p for p in model.model_construct(**values).problems() if p.path not in wrong]
    if more:
        context = {"error": ModelProblems(more)}
        errors.append(InitErrorDetails(type="value_error", loc=(), input=raw, ctx=context))
    return ValidationError.from_exception_data(error.title, errors)


def _as_init_error(details: ErrorDetails) -> InitErrorDetails:
    return InitErrorDetails(
        type=details["type"], loc=details["loc"], input=details["input"], ctx=details.get("ctx", {})
    )


def _convert_whole_float(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _shm_size(value: Any) -> Any:
    return sizes.parse_bytes(value) if isinstance(value, str) else value


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(f"must be an absolute path, not {value!r}")
    return value


def _moment(value: Any) -> Any:
    return format_moment(parse_moment(value)) if isinstance(value, str) else value


def _seconds(value: Any) -> Any:
    seconds = sizes.parse_duration_s(value) if isinstance(value, str) else _float(value)
    if isinstance(seconds, float) and not 0 < seconds < math.inf:
        raise ValueError(f"must be a time span such as 20h, longer than zero, not {value!r}")
    return seconds


def _float(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _length(raw: Any) -> Length:
    return _with_unit_path(parse_length, raw)


def _period(raw: Any) -> Length:
    return _with_unit_path(parse_period, raw)


def _with_unit_path(parse: Callable[[Any], Length], raw: Any) -> Length:
    try:
        return parse(raw)
    except WrongUnits as error:
        raise ModelProblems([Problem(error.unit, str(error))]) from error


Natural = Annotated[int, Field(ge=0, le=_INT32), BeforeValidator(_convert_whole_float)]
Positive = Annotated[int, Field(ge=1, le=_INT32), BeforeValidator(_convert_whole_float)]
Priority = Annotated[
    int, Field(ge=HIGHEST_PRIORITY, le=LOWEST_PRIORITY), BeforeValidator(_convert_whole_float)
]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1), BeforeValidator(_convert_whole_float)]
RetentionDays = Annotated[int, Field(ge=-1, le=32767), BeforeValidator(_convert_whole_float)]
Port = Annotated[int, Field(ge=1, le=65535), BeforeValidator(_convert_whole_float)]
Bytes = Annotated[
    int, Field(ge=1, le=2**53), BeforeValidator(_convert_whole_float), BeforeValidator(_shm_size)
]
Identifier = Annotated[int, Field(ge=1, le=2**53), BeforeValidator(_convert_whole_float)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Moment = Annotated[str, BeforeValidator(_moment)]
TimeSpan = Annotated[float, Field(le=10 * 365 * 86400), BeforeValidator(_seconds)]
Hours = Annotated[float, Field(gt=0, le=100_000), BeforeValidator(_float)]
Weight = Annotated[float, Field(gt=0, le=LARGEST_WEIGHT)]
Name = Annotated[str, Field(min_length=1)]
AbsolutePath = Annotated[
    str, Field(min_length=1), BeforeValidator(lambda v: _absolute(v) if isinstance(v, str) else v)
]
Propagation = Literal["rprivate", "private", "rshared", "shared", "rslave", "slave"]

MaxLength = Annotated[Length, PlainValidator(_length), PlainSerializer(length_json)]
Period = Annotated[Length, PlainValidator(_period), PlainSerializer(length_json)]


def kind_tag(kind: str) -> Tag:
    return Tag(_KIND_MARK + kind)


def is_kind_tag(part: str | int) -> bool:
    return isinstance(part, str) and part.startswith(_KIND_MARK)


def bare_kind(part: str) -> str:
    return part.removeprefix(_KIND_MARK)


def discriminated_by(key: str) -> Discriminator:
    return Discriminator(
        _reader(key),
        custom_error_type="wrong_kind",
        custom_error_message="must say its kind",
        custom_error_context={"key": key},
    )


def _reader(key: str) -> Callable[[Any], str | None]:
    def kind(raw: Any) -> str | None:
        value = raw.get(key) if isinstance(raw, dict) else getattr(raw, key, None)
        return None if value is None else f"{_KIND_MARK}{value}"

    return kind
