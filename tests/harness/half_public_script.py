"""Print what the half-public modules of the installed package `determined` do, as JSON."""

import io
import json
import logging
import os
import random
import tempfile
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

warnings.simplefilter("ignore")
os.environ["HOME"] = "/home/me"

from determined.common import check, constants, set_logger, storage, util, yaml  # noqa: E402
from determined.common.experimental import Determined, ExperimentReference  # noqa: E402

EXPERIMENTAL = "determined.common.experimental"
CLASSES = (
    Determined,
    ExperimentReference,
    import_module(f"{EXPERIMENTAL}.checkpoint").Checkpoint,
    import_module(f"{EXPERIMENTAL}.experiment").Experiment,
    import_module(f"{EXPERIMENTAL}.trial").TrialReference,
)
TEXT = "a: yes\nb: 1e3\nc: 010\ne: [1, {f: null}]\n"
VALUE = {"b": 1, "a": [1, {"x": None}], "on": "yes", "t": True}


def outcome(call: Callable[[], Any]) -> str:
    try:
        return repr(call())
    except BaseException as e:
        return f"{type(e).__name__}: {e}"


@util.deprecated("use h")
def g() -> int:
    return 1


@util.preserve_random_state
def draw() -> float:
    return random.random()


def warned() -> list[tuple[str, str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        g()
    return [(w.category.__name__, str(w.message)) for w in caught]


def dumped() -> tuple[Any, str]:
    stream = io.StringIO()
    return util.yaml_safe_dump(VALUE, stream), stream.getvalue()


def logged() -> int:
    set_logger(True)
    return logging.getLogger().level


def stored() -> list[str]:
    """Return the files of a checkpoint in a shared_fs that is seen at another path."""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(f"{folder}/below/uuid")
        with open(f"{folder}/below/uuid/weights", "w") as f:
            f.write("12345")
        config = {"type": "shared_fs", "host_path": "/elsewhere", "storage_path": "below"}
        manager = storage.build(config, container_path=folder)
        with manager.restore_path("uuid") as path:
            return sorted(os.listdir(path))


def repeated() -> bool:
    random.seed(1)
    return draw() == random.random()


calls: dict[str, Callable[[], Any]] = {
    "chunks": lambda: [list(util.chunks("ABCDEFG", 3)), list(util.chunks([1, 2, 3], 2))],
    "sizes": lambda: [util.sizeof_fmt(n) for n in (0, 1023, 1536, 10**9, 5 * 2**40, -2048, 2**90)],
    "load": lambda: util.yaml_safe_load(TEXT),
    "load a file": lambda: util.safe_load_yaml_with_exceptions(io.StringIO(TEXT)),
    "load nothing valid": lambda: util.safe_load_yaml_with_exceptions("a: ["),
    "dump": lambda: [util.yaml_safe_dump(VALUE, default_flow_style=f) for f in (None, True, False)],
    "dump to a stream": dumped,
    "bools": lambda: [util.strtobool(t) for t in ("yes", "Y", "off", "0", "no", "", "foo", "F")],
    "times": lambda: [
        util.is_protobuf_timestamp(t)
        for t in (
            "2020-01-02T03:04:05Z",
            "2020-01-02T03:04:05.123Z",
            "2020-01-02T03:04:05.123456789Z",
            "2020-01-02T03:04:05+00:00",
            "x",
        )
    ],
    "a time": lambda: util.parse_protobuf_timestamp("2020-01-02T03:04:05.123456789Z"),
    "no time": lambda: util.parse_protobuf_timestamp("x"),
    "folder": lambda: str(util.get_config_path()),
    "debug": util.debug_mode,
    "waits": lambda: util.wait_for(lambda: (True, 7)),
    "waits too long": lambda: util.wait_for(lambda: (False, None), timeout=0),
    "warns": warned,
    "random": repeated,
    "constants": lambda: sorted(
        (n, v) for n, v in vars(constants).items() if n.isupper() and n != "DEFAULT_DETIGNORE"
    ),
    "classes": lambda: [isinstance(c, type) for c in CLASSES],
    "older yaml": lambda: yaml.YAML(typ="safe").load("a: yes"),
    "logger": logged,
    "storage": stored,
    "storages": lambda: [
        isinstance(getattr(storage, f"{kind}StorageManager"), type)
        for kind in ("S3", "SharedFS", "Directory")
    ],
    "true": lambda: check.true(False, "r"),
    "false": lambda: check.check_false(True),
    "eq": lambda: check.check_eq(1, 2, "r"),
    "gt": lambda: check.gt(1, 2),
    "gt_eq": lambda: check.gt_eq(1, 2),
    "lt": lambda: check.lt(2, 2),
    "lt_eq": lambda: check.lt_eq(3, 2),
    "in": lambda: check.is_in(1, [2]),
    "instance": lambda: check.is_instance(1, str),
    "len": lambda: check.len_eq([1], 2),
    "none": lambda: check.is_none(1),
    "not none": lambda: check.is_not_none(None),
    "lengths": lambda: check.equal_lengths([1], []),
    "subclass": lambda: check.is_subclass(int, str),
    "type": lambda: check.is_type(1, str),
    "holds": lambda: check.not_eq(1, 2),
}
print(json.dumps({name: outcome(call) for name, call in calls.items()}))
