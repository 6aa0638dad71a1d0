"""Print the results of the half-public modules of the installed package `determined`, as JSON."""

import io
import json
import logging
import os
import pathlib
import random
import tempfile
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

warnings.simplefilter("ignore")
os.environ["HOME"] = "/home/me"

from determined import gpu, load, workload  # noqa: E402
from determined.common import api, check, constants, set_logger, storage, util, yaml  # noqa: E402
from determined.common.api import authentication, bindings, certs  # noqa: E402
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


SMI = """#!/bin/sh
case "$*" in
*compute-apps*) echo "123, python, GPU-a, 300 MiB";;
*) echo "0, GPU-a, 10, 500, 1000"; echo "1, GPU-b, 0, 0, 1000";;
esac
"""


def of_gpus() -> object:
    """Return the GPUs without `nvidia-smi` and with one that reports two."""
    without = gpu.get_gpus(), gpu.get_gpu_uuids()
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "nvidia-smi")
        with open(program, "w") as file:
            file.write(SMI)
        os.chmod(program, 0o755)
        path = os.environ["PATH"]
        os.environ["PATH"] = f"{folder}:{path}"
        try:
            return without, gpu.get_gpus(), gpu.get_gpu_uuids(), gpu.get_gpu_processes()
        finally:
            os.environ["PATH"] = path


def of_workloads() -> object:
    workloads = [
        workload.train_workload(2, num_batches=5),
        workload.validation_workload(),
        workload.checkpoint_workload(3),
    ]
    workload.ignore_workload_response({"loss": 1})
    fields = {"kind": "RUN_STEP", "experiment_id": 1, "trial_id": 2, "step_id": 3, "num_batches": 4}
    workloads.append(workload.Workload.from_json({**fields, "total_batches_processed": 5}))
    is_equal = workloads[0] == workload.train_workload(2, num_batches=5)
    return workloads, [vars(w) for w in workloads], is_equal


def kept_tokens() -> object:
    with tempfile.TemporaryDirectory() as folder:
        store = authentication.TokenStore("http://one:8080", pathlib.Path(folder) / "auth.json")
        store.set_token("ada", "t1")
        store.set_token("bob", "t2")
        store.set_active("bob")
        users = store.get_active_user(), sorted(store.get_all_users()), store.get_token("ada")
        store.drop_user("ada")
        store.clear_active()
        return users, store.get_active_user(), store.get_all_users()


def kept_certificates() -> object:
    with tempfile.TemporaryDirectory() as folder:
        store = certs.CertStore(pathlib.Path(folder) / "certs.json")
        store.set_cert("https://one:443", "PEM")
        certificates = store.get_cert("https://one:443"), store.get_cert("https://two:443")
        store.delete_cert("https://one:443")
        return certificates, store.get_cert("https://one:443")


def of_certificates() -> object:
    cert = certs.Cert("PEM", name="n")
    with open(str(cert.bundle)) as file:
        text = file.read()
    plain, unchecked = certs.Cert(), certs.Cert(noverify=True)
    return text[-3:], cert.name, plain.bundle, plain.name, unchecked.bundle


def of_environment() -> object:
    names = ("DET_USER", "DET_PASS", "DET_USER_TOKEN", "DET_SESSION_TOKEN")
    os.environ.update({name: f"of {name}" for name in names})
    try:
        return (
            authentication.get_det_username_from_env(),
            authentication.get_det_password_from_env(),
            authentication.get_det_user_token_from_env(),
            authentication.get_det_session_token_from_env(),
        )
    finally:
        for name in names:
            del os.environ[name]


def no_trial() -> str:
    try:
        load.trial_class_from_entrypoint("json.decoder:JSONDecoder")
    except Exception as e:
        return type(e).__name__
    return "accepted"


def is_weak(password: str) -> bool:
    try:
        authentication.check_password_complexity(password)
    except ValueError:
        return True
    return False


@util.deprecated("use h")
def g() -> int:
    return 1


@util.preserve_random_state
def draw() -> float:
    return random.random()


def warned() -> list[tuple[str, str]]:
    with warnings.catch_warnings(record=True) as warnings_caught:
        warnings.simplefilter("always")
        g()
    return [(w.category.__name__, str(w.message)) for w in warnings_caught]


def dumped() -> tuple[Any, str]:
    stream = io.StringIO()
    return util.yaml_safe_dump(VALUE, stream), stream.getvalue()


def logged() -> int:
    set_logger(True)
    return logging.getLogger().level


def stored() -> list[str]:
    """Return the files of a checkpoint in a shared_fs that containers mount at another path."""
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
    "gpus": of_gpus,
    "workloads": of_workloads,
    "entrypoint": lambda: load.trial_class_from_entrypoint("determined:LegacyTrial").__name__,
    "no trial": no_trial,
    "no entrypoint": lambda: load.trial_class_from_entrypoint("nomodule:X"),
    "tokens": kept_tokens,
    "certificates": kept_certificates,
    "certificate": of_certificates,
    "certificate store": lambda: str(certs.default_store()),
    "no certificate": lambda: certs.default_load("https://one:443").bundle,
    "unchecked": lambda: certs.default_load("https://one:443", explicit_noverify=True).bundle,
    "environment": of_environment,
    "hash": lambda: (api.salt_and_hash("x"), authentication.salt_and_hash("")),
    "weak": lambda: [is_weak(p) for p in ("", "short1A", "Long enough 1")],
    "addresses": lambda: [
        api.canonicalize_master_url(u) for u in ("one", "https://two", "http://a:1/b")
    ],
    "session": lambda: api.Session("http://one:8080", "ada", "t", None).token,
    "bindings": lambda: bindings.__name__,
    "holds": lambda: check.not_eq(1, 2),
}
print(json.dumps({name: outcome(call) for name, call in calls.items()}))
