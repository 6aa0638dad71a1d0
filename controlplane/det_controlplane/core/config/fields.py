"""Base models and field types of the configuration: closed objects, numbers, errors with several causes."""

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PlainSerializer,
    PlainValidator,
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
from det_controlplane.core.problems import Problem
from det_controlplane.core.schedule.job_settings import (
    HIGHEST_PRIORITY,
    LARGEST_WEIGHT,
    LOWEST_PRIORITY,
)

_INT32 = 2**31 - 1


class StrictModel(BaseModel):
    """An object with exactly these keys. Built when first used, so that importing it is cheap."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class ModelProblems(ValueError):
    """Several problems of one object, with paths relative to it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(p) for p in self.problems))


def refuse(problems: Iterable[Problem]) -> None:
    found = tuple(problems)
    if found:
        raise ModelProblems(found)


class CheckedModel(StrictModel):
    """Checks an object as a whole, also when some of its fields are wrong by themselves."""

    def problems(self) -> Iterator[Problem]:
        """Return problems with paths relative to it. Fields that are wrong have the values that were given for them."""
        yield from ()

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, given: Any, handler: ModelWrapValidatorHandler[Any]) -> Any:
        try:
            made = handler(given)
        except ValidationError as error:
            raise _with_problems(error, cls, given) from error
        refuse(made.problems())
        return made


def _with_problems(
    error: ValidationError, model: type[CheckedModel], given: Any
) -> ValidationError:
    if not isinstance(given, dict):
        return error
    fields = model.model_fields
    found = [_as_raised(details) for details in error.errors(include_url=False)]
    wrong = {details["loc"][0] for details in found if details["loc"]}
    values = {
        name: given.get(name) for name, f in fields.items() if name in given or f.is_required()
    }
    more = [p for p in model.model_construct(**values).problems() if p.path not in wrong]
    if more:
        context = {"error": ModelProblems(more)}
        found.append(InitErrorDetails(type="value_error", loc=(), input=given, ctx=context))
    return ValidationError.from_exception_data(error.title, found)


def _as_raised(details: ErrorDetails) -> InitErrorDetails:
    return InitErrorDetails(
        type=details["type"], loc=details["loc"], input=details["input"], ctx=details.get("ctx", {})
    )


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _shm_size(value: Any) -> Any:
    return sizes.parse_bytes(value) if isinstance(value, str) else value


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(f"must be an absolute path, not {value!r}")
    return value


def _length(raw: Any) -> Length:
    return _told_at_its_unit(parse_length, raw)


def _period(raw: Any) -> Length:
    return _told_at_its_unit(parse_period, raw)


def _told_at_its_unit(parse: Callable[[Any], Length], raw: Any) -> Length:
    try:
        return parse(raw)
    except WrongUnits as error:
        raise ModelProblems([Problem(error.unit, str(error))]) from error


Natural = Annotated[int, Field(ge=0, le=_INT32), BeforeValidator(_whole)]
Positive = Annotated[int, Field(ge=1, le=_INT32), BeforeValidator(_whole)]
Priority = Annotated[int, Field(ge=HIGHEST_PRIORITY, le=LOWEST_PRIORITY), BeforeValidator(_whole)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1), BeforeValidator(_whole)]
RetentionDays = Annotated[int, Field(ge=-1, le=32767), BeforeValidator(_whole)]
Port = Annotated[int, Field(ge=1, le=65535), BeforeValidator(_whole)]
Bytes = Annotated[int, Field(ge=1, le=2**53), BeforeValidator(_whole), BeforeValidator(_shm_size)]
Identifier = Annotated[int, Field(ge=1, le=2**53), BeforeValidator(_whole)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(gt=0, le=LARGEST_WEIGHT)]
Name = Annotated[str, Field(min_length=1)]
AbsolutePath = Annotated[
    str, Field(min_length=1), BeforeValidator(lambda v: _absolute(v) if isinstance(v, str) else v)
]
Propagation = Literal["rprivate", "private", "rshared", "shared", "rslave", "slave"]

MaxLength = Annotated[Length, PlainValidator(_length), PlainSerializer(length_json)]
Period = Annotated[Length, PlainValidator(_period), PlainSerializer(length_json)]
