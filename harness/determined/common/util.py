"""Utility functions of Determined's package that user scripts import."""

import datetime
import functools
import os
import pathlib
import random
import sys
import time
import warnings
from typing import IO, Any, Callable, Iterator, List, Optional, Sequence, Tuple, TypeVar, Union

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
_UNITS = ("", "K", "M", "G", "T", "P", "E", "Z")
_FALSE = frozenset({"n", "no", "f", "false", "off", "0", ""})


def chunks(
    lst: Union[str, Sequence[T]], chunk_size: int
) -> Union[Iterator[str], Iterator[Sequence[T]]]:
    """Yield parts of at most `chunk_size` elements."""
    for begin in range(0, len(lst), chunk_size):
        yield lst[begin : begin + chunk_size]


def sizeof_fmt(val: Union[int, float]) -> str:
    """Return a number of bytes with a unit, such as `1.5KB` for 1536."""
    size = float(val)
    for unit in _UNITS:
        if abs(size) < 1024.0:
            return f"{size:.1f}{unit}B"
        size /= 1024.0
    return f"{size:.1f}YB"


def debug_mode() -> bool:
    return os.environ.get("DET_DEBUG", "").lower() in ("true", "1", "yes")


def preserve_random_state(fn: F) -> F:
    """Decorate a function so that its random numbers do not change the numbers that are drawn after it."""

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        state = random.getstate()
        numpy = sys.modules.get("numpy")
        numpy_state = numpy.random.get_state() if numpy is not None else None
        try:
            return fn(*args, **kwargs)
        finally:
            random.setstate(state)
            if numpy is not None:
                numpy.random.set_state(numpy_state)

    return wrapped  # type: ignore[return-value]


def _yaml(default_flow_style: Optional[bool] = None) -> Any:
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = default_flow_style
    return yaml


def yaml_safe_load(f: Union[str, IO[str], IO[bytes]]) -> Any:
    """Load YAML 1.2 from a text or a file. In YAML 1.2 `yes` is a string."""
    return _yaml().load(f)


def yaml_safe_dump(
    data: Any, stream: Optional[IO[str]] = None, default_flow_style: Optional[bool] = None
) -> Any:
    """Write a value as YAML to a stream, or return it as text if `stream` is None."""
    import io

    target = io.StringIO() if stream is None else stream
    _yaml(default_flow_style).dump(data, target)
    return target.getvalue() if isinstance(target, io.StringIO) and stream is None else None


def safe_load_yaml_with_exceptions(yaml_file: Union[str, IO[str], IO[bytes]]) -> Any:
    """Load YAML from a text or a file. Print a message and exit with 1 if it is not valid."""
    from ruamel.yaml.error import YAMLError

    try:
        return yaml_safe_load(yaml_file)
    except YAMLError as e:
        print(f"Error: invalid experiment config file.\n{type(e).__name__}: {e}")
        sys.exit(1)


def get_config_path() -> pathlib.Path:
    """Return the directory of the user's settings for Determined."""
    override = os.environ.get("DET_DEBUG_CONFIG_PATH")
    if override:
        return pathlib.Path(override)
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return pathlib.Path(base) / "determined"


def parse_protobuf_timestamp(ts: str) -> datetime.datetime:
    """Parse a timestamp of the API. Fractions of a second are dropped."""
    text = ts[:-1] if ts.endswith("Z") else ts
    moment = datetime.datetime.fromisoformat(text.partition(".")[0])
    utc = datetime.timezone.utc
    aware = moment.replace(tzinfo=utc) if moment.tzinfo is None else moment.astimezone(utc)
    return aware.replace(microsecond=0)


def is_protobuf_timestamp(ts: str) -> bool:
    """Return whether a text is a timestamp that the API accepts: UTC with `Z`, and at most six fraction digits."""
    for form in ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%fZ"):
        try:
            datetime.datetime.strptime(ts, form)
            return True
        except ValueError:
            continue
    return False


def wait_for(
    predicate: Callable[[], Tuple[bool, T]], timeout: int = 60, interval: float = 0.1
) -> T:
    """Call `predicate` until it returns True and a value; return the value. Raises TimeoutError."""
    deadline = time.monotonic() + timeout
    while True:
        done, value = predicate()
        if done:
            return value
        if time.monotonic() >= deadline:
            raise TimeoutError("timed out waiting for predicate")
        time.sleep(interval)


def deprecated(message: Optional[str] = None) -> Callable[[F], F]:
    """Return a decorator that emits a DeprecationWarning at each call."""

    def decorate(fn: F) -> F:
        more = f" {message}." if message else ""
        text = f"{fn.__name__} is deprecated and will be removed in a future version.{more}"

        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            warnings.warn(text, category=DeprecationWarning, stacklevel=2)
            return fn(*args, **kwargs)

        return wrapped  # type: ignore[return-value]

    return decorate


def strtobool(val: str) -> bool:
    """Return False for `no`, `false`, `off`, `0` and similar texts, and True for every other text."""
    return val.lower() not in _FALSE


__all__: List[str] = [
    "chunks",
    "debug_mode",
    "deprecated",
    "get_config_path",
    "is_protobuf_timestamp",
    "parse_protobuf_timestamp",
    "preserve_random_state",
    "safe_load_yaml_with_exceptions",
    "sizeof_fmt",
    "strtobool",
    "wait_for",
    "yaml_safe_dump",
    "yaml_safe_load",
]
