"""Measure the harness: imports, reports, the container's entry, checkpoints. Prints one JSON line for each figure.

`python bench/harness.py [imports] [reports] [entry] [small] [large]` measures the named parts, or all of them.
"""

import contextlib
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HARNESS = str(ROOT / "harness")
MIB = 1024 * 1024
DELAY_MS = 30

# Runs in a separate process. Prints wall and CPU seconds and peak MiB of an upload or a download of a checkpoint.
TRANSFER = """
import json, resource, sys, time
from determined.common import storage
manager = storage.from_config(json.loads(sys.argv[1]))
folder, direction = sys.argv[2], sys.argv[3]
began, cpu = time.perf_counter(), time.process_time()
if direction == "up":
    manager.write_checksums("bench", manager.upload(folder, "bench"))
else:
    manager.download("bench", folder)
print(json.dumps({
    "wall_s": time.perf_counter() - began,
    "cpu_s": time.process_time() - cpu,
    "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}))
"""

# The upload of stock Determined, which runs with its own interpreter.
STOCK = """
import json, resource, sys, time
from determined.common import storage
manager = storage.build(json.loads(sys.argv[1]), None)
began, cpu = time.perf_counter(), time.process_time()
manager.upload(sys.argv[2], "stock")
print(json.dumps({
    "wall_s": time.perf_counter() - began,
    "cpu_s": time.process_time() - cpu,
    "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}))
"""

# An upload of one file after another, the default of boto3.
BOTO3_DEFAULTS = """
import boto3, json, os, resource, sys, time
config, folder = json.loads(sys.argv[1]), sys.argv[2]
keys = {"aws_access_key_id": config["access_key"], "aws_secret_access_key": config["secret_key"]}
client = boto3.client("s3", endpoint_url=config["endpoint_url"], **keys)
began, cpu = time.perf_counter(), time.process_time()
for name in sorted(os.listdir(folder)):
    client.upload_file(os.path.join(folder, name), config["bucket"], "peer/" + name)
print(json.dumps({
    "wall_s": time.perf_counter() - began,
    "cpu_s": time.process_time() - cpu,
    "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}))
"""

# A server in another thread receives the reports, stores nothing, and answers immediately.
REPORTS = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from tests.support.fake_master import FakeMaster
import os
master = FakeMaster()
os.environ["DET_MASTER"] = master.url
from determined import core
context = core.init()
context.start()
spent = time.thread_time()
began = time.perf_counter()
for step in range(10_000):
    context.train.report_training_metrics(step, {"loss": step / 3, "accuracy": 0.5, "batches": step})
print(json.dumps([time.thread_time() - spent, time.perf_counter() - began]), flush=True)
os._exit(0)
"""

ENTRY = """
import base64, io, json, os, subprocess, sys, tarfile, time
sys.path.insert(0, sys.argv[1])
from tests.support.fake_master import FakeMaster
master = FakeMaster()
buffer = io.BytesIO()
tarfile.open(fileobj=buffer, mode="w:gz").close()
context = base64.b64encode(buffer.getvalue()).decode()
master.on("GET", ".*/context_directory", (200, {"b64Tgz": context}))
peers = {"rendezvousInfo": {"addresses": ["127.0.0.1"], "rank": 0, "slots": [1]}}
master.on("GET", ".*/rendezvous", (200, peers))
os.environ["DET_MASTER"] = master.url
began = time.perf_counter()
process = subprocess.Popen([sys.executable, "-m", "determined.exec.entry"], stdout=subprocess.PIPE)
process.stdout.readline()
seen = time.perf_counter() - began
master.wait_for("POST", "/api/v1/task/logs")
print(json.dumps([seen, time.perf_counter() - began]))
process.wait()
"""


# The cipher suite that S3 chooses.
S3_TLS = """
openssl_conf = start
[start]
ssl_conf = tls
[tls]
system_default = as_s3
[as_s3]
Ciphersuites = TLS_AES_128_GCM_SHA256
"""


def figure(
    name: str, value: float, unit: str, floor: float | None, peer: float | None = None
) -> None:
    better = "higher" if unit in ("ratio", "MiB/s") else "lower"
    line: dict[str, Any] = {"name": name, "value": round(value, 3), "unit": unit, "floor": floor}
    print(json.dumps({**line, "better": better, "peer": peer and round(peer, 3)}), flush=True)


def environment(run_dir: str, **extra: str) -> dict[str, str]:
    """Return the minimal environment of a trial."""
    config = {
        "entrypoint": ["echo", "first line"],
        "checkpoint_storage": {"type": "shared_fs", "host_path": run_dir},
    }
    path_map = {"/run/determined": run_dir, "/determined_shared_fs": run_dir}
    return {
        **os.environ,
        "PYTHONPATH": HARNESS,
        "DET_TASK_ID": "1.bench",
        "DET_ALLOCATION_ID": "1.bench.1",
        "DET_RESOURCES_ID": "r",
        "DET_TASK_TYPE": "TRIAL",
        "DET_TRIAL_ID": "1",
        "DET_EXPERIMENT_ID": "1",
        "DET_TRIAL_RUN_ID": "1",
        "DET_SLOT_IDS": "[0]",
        "DET_RUN_DIR": run_dir,
        "DET_PATH_MAP": json.dumps(path_map),
        "DET_EXPERIMENT_CONFIG": json.dumps(config),
        **extra,
    }


def cpu_ms(code: str) -> float:
    """Return the CPU time of a fresh interpreter, the minimum of seven runs. The other runs were disturbed."""
    env = {**os.environ, "PYTHONPATH": HARNESS}
    least = float("inf")
    for _ in range(7):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-S", "-c", code], env=env, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        least = min(least, 1000 * seconds)
    return least


def imports() -> None:
    figure("import_determined_cpu", cpu_ms("import determined"), "ms", 60, 530)


def reports() -> None:
    with tempfile.TemporaryDirectory() as folder:
        env = environment(folder)
        result = subprocess.run(
            [sys.executable, "-c", REPORTS, str(ROOT)], env=env, capture_output=True, check=True
        )
    thread_s, wall_s = json.loads(result.stdout)
    figure("report_10000_metrics_training_thread_cpu", thread_s, "s", 1)
    figure("report_10000_metrics_wall", wall_s, "s", 3)


def entry() -> None:
    first_line_ms, shipped = [], []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(
                [sys.executable, "-c", ENTRY, str(ROOT)],
                env=environment(folder),
                capture_output=True,
                check=True,
            )
        seen_s, shipped_s = json.loads(result.stdout)
        first_line_ms.append(seen_s * 1000)
        shipped.append(shipped_s * 1000)
    figure("entry_start_to_first_user_line", min(first_line_ms), "ms", 300)
    figure("entry_start_to_first_line_shipped", min(shipped), "ms", 400)


@contextlib.contextmanager
def null_s3(
    folder: str, delay_ms: float, what: str = "keep"
) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """Run a server process, and yield the storage configuration and environment for its clients."""
    cert, key = f"{folder}/cert.pem", f"{folder}/key.pem"
    subprocess.run(
        (
            "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost "
            f"-addext subjectAltName=DNS:localhost -keyout {key} -out {cert}"
        ).split(),
        check=True,
        capture_output=True,
    )
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    settings = Path(folder, "openssl.cnf")
    settings.write_text(S3_TLS)
    server = subprocess.Popen(
        [sys.executable, str(ROOT / "bench/null_s3.py"), str(port), str(delay_ms), cert, key, what],
        stdout=subprocess.PIPE,
        env={**os.environ, "OPENSSL_CONF": str(settings)},
    )
    assert server.stdout is not None
    server.stdout.readline()
    config = {
        "type": "s3",
        "bucket": "bench",
        "endpoint_url": f"https://localhost:{port}",
        "access_key": "a",
        "secret_key": "s",
    }
    try:
        yield config, {**os.environ, "PYTHONPATH": HARNESS, "AWS_CA_BUNDLE": cert}
    finally:
        server.kill()
        server.wait()


def stock_python() -> str | None:
    """Return the interpreter with stock Determined, or None after printing the reason that it cannot be installed."""
    result = subprocess.run([ROOT / "scripts/stock-client"], capture_output=True, text=True)
    if result.returncode:
        reason = result.stderr.strip()[-300:]
        print(
            f"not compared with stock Determined, as it cannot be installed: {reason}",
            file=sys.stderr,
        )
        return None
    return result.stdout.strip()


def stock_upload(
    python: str, config: dict[str, Any], env: dict[str, str], folder: str
) -> dict[str, float]:
    """Upload with stock Determined. One of its clients reads the path of certificates from another variable."""
    variables = {**env, "PYTHONPATH": "", "REQUESTS_CA_BUNDLE": env["AWS_CA_BUNDLE"]}
    return transfer(config, variables, folder, "up", STOCK, python)


def transfer(
    config: dict[str, Any],
    env: dict[str, str],
    folder: str,
    direction: str,
    code: str = TRANSFER,
    python: str = sys.executable,
) -> dict[str, float]:
    result = subprocess.run(
        [python, "-c", code, json.dumps(config), folder, direction],
        env=env,
        capture_output=True,
        check=True,
    )
    figures: dict[str, float] = json.loads(result.stdout)
    return figures


def least(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the lowest value of each figure. Other work of the machine caused the differences."""
    return {name: min(run[name] for run in runs) for name in runs[0]}


def small() -> None:
    """Upload and download 2,000 files of 10 kB with 30 ms for each answer; report the best of three runs."""
    with tempfile.TemporaryDirectory() as scratch, null_s3(scratch, DELAY_MS) as (config, env):
        source = Path(scratch) / "source"
        source.mkdir()
        for n in range(2000):
            (source / f"{n:04d}").write_bytes(os.urandom(10_000))
        up = least([transfer(config, env, str(source), "up") for _ in range(3)])
        down = least([transfer(config, env, f"{scratch}/out-{n}", "down") for n in range(3)])
    figure("checkpoint_2000_small_files_up", up["wall_s"], "s", 4, 73.4)
    figure("checkpoint_2000_small_files_down", down["wall_s"], "s", 4, 139.5)
    figure("checkpoint_2000_small_files_up_cpu", up["cpu_s"], "s", 3.1, 4.2)
    figure("checkpoint_2000_small_files_down_cpu", down["cpu_s"], "s", 3.0, 6.5)


def large() -> None:
    """Upload and download 2 GiB in 4 files over TLS with 30 ms for each answer, alternating with peers.

    Report the best of three runs. The server discards uploads, because its memory use is not a cost of the client.
    """
    python = stock_python()
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "source"
        write_large(source)
        stocks, plains, ups = [], [], []
        with null_s3(scratch, DELAY_MS, "drop") as (config, env):
            for _ in range(3):
                if python:
                    stocks.append(stock_upload(python, config, env, str(source)))
                plains.append(transfer(config, env, str(source), "up", BOTO3_DEFAULTS))
                ups.append(transfer(config, env, str(source), "up"))
        with null_s3(scratch, DELAY_MS) as (config, env):
            transfer(config, env, str(source), "up")
            shutil.rmtree(source)
            down = transfer(config, env, f"{scratch}/out", "down")
    plain, up = least(plains), least(ups)
    peer = least(stocks) if stocks else plain
    if stocks:
        figure("checkpoint_2gib_up_over_stock", peer["wall_s"] / up["wall_s"], "ratio", 3)
        figure("checkpoint_2gib_up_cpu_over_stock", peer["cpu_s"] / up["cpu_s"], "ratio", None)
    figure("checkpoint_2gib_up_over_boto3", plain["wall_s"] / up["wall_s"], "ratio", None)
    figure("checkpoint_2gib_up", 2048 / up["wall_s"], "MiB/s", 3 * 225, 2048 / peer["wall_s"])
    figure("checkpoint_2gib_down", 2048 / down["wall_s"], "MiB/s", 262, 262)
    figure("checkpoint_2gib_up_cpu", up["cpu_s"], "s", 4.2, peer["cpu_s"])
    figure("checkpoint_2gib_up_peak_memory", up["peak_mib"], "MiB", 150, peer["peak_mib"])
    figure("checkpoint_2gib_down_peak_memory", down["peak_mib"], "MiB", 150, 164)


def write_large(folder: Path) -> None:
    folder.mkdir()
    block = os.urandom(16 * MIB)
    for n in range(4):
        with (folder / f"{n}").open("wb") as f:
            for _ in range(32):
                f.write(block)


if __name__ == "__main__":
    benches = {f.__name__: f for f in (imports, reports, entry, small, large)}
    for name in sys.argv[1:] or list(benches):
        benches[name]()
