"""Measure how fast an agent loads a data set and how fast a program reads it: JSON lines.

A server process on loopback sends files from its own disk. The first epoch loads the data set into an empty cache and
reads it. The second epoch starts as the next task does and reads the data set from the disk, without the page cache.
`disk` reads a copy of the same files in the same way, for comparison.

    python -m bench.data_cache --gb 2 --objects 32 --folder /mnt/disk
"""

import argparse
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from det_agent.data_cache import DataCache
from det_agent.data_sets import DataSets
from det_agent.data_stores import StoreDependencies
from det_agent.data_web import Web
from det_agent.runtime import ContainerKey
from det_controlplane.core.agent_protocol import DataSetMount

BLOCK = 4 * 2**20


def serve(folder: str) -> None:
    """Answer GET and HEAD with ranges, one thread for each connection, by sendfile."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_serve_connection, args=(connection, folder), daemon=True).start()


def _serve_connection(connection: socket.socket, folder: str) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    lines = connection.makefile("rb")
    while request := lines.readline():
        method, target, _ = request.decode().split()
        headers = {}
        while (line := lines.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        with open(folder + target, "rb") as f:
            size = os.fstat(f.fileno()).st_size
            first, _, last = headers.get("range", "=0-").partition("=")[2].partition("-")
            start, end = int(first), int(last or size - 1)
            status = "206 Partial Content" if "range" in headers else "200 OK"
            head = (
                f'HTTP/1.1 {status}\r\nContent-Length: {end - start + 1}\r\nETag: "{size}"\r\n\r\n'
            )
            connection.sendall(head.encode())
            while method == "GET" and start <= end:
                start += os.sendfile(connection.fileno(), f.fileno(), start, end + 1 - start)


def make_files(folder: Path, size: int, objects: int) -> None:
    """Write files of random bytes, and their manifest."""
    folder.mkdir()
    entries = []
    for number in range(objects):
        digest, left = hashlib.sha256(), size // objects
        with open(folder / f"{number:05}", "wb") as f:
            while left:
                block = os.urandom(min(left, BLOCK))
                f.write(block)
                digest.update(block)
                left -= len(block)
        entry = {"path": f"{number:05}", "size": size // objects, "sha256": digest.hexdigest()}
        entries.append(entry)
    (folder / "manifest.json").write_text(json.dumps({"files": entries}))


def read_all(folder: Path) -> int:
    buffer, total = memoryview(bytearray(BLOCK)), 0
    for path in files(folder):
        with open(path, "rb", buffering=0) as f:
            while count := f.readinto(buffer):
                total += count
    return total


def drop_from_memory(folder: Path) -> None:
    """Write the files to the disk, and drop them from the page cache."""
    for path in files(folder):
        fd = os.open(path, os.O_RDONLY)
        os.fdatasync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def line(what: str, size: int, seconds: float, cpu_s: float) -> None:
    result = {
        "bench": f"data_cache/{what}",
        "gb": round(size / 1e9, 2),
        "seconds": round(seconds, 2),
        "mb_s": round(size / 1e6 / seconds),
        "cpu_s": round(cpu_s, 2),
    }
    print(json.dumps(result), flush=True)


class Timer:
    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def stop(self) -> tuple[float, float]:
        return time.perf_counter() - self._wall, time.process_time() - self._cpu


def measure(folder: Path, address: str, size: int) -> None:
    cache = DataCache(folder / "cache", 4 * size)
    stores = StoreDependencies(Web(may_use_loopback=True), {})
    sets = DataSets(cache, stores, lambda: None)
    mounts = [DataSetMount(f"{address}/manifest.json", "/data")]
    for number, what in enumerate(("first epoch", "second epoch")):
        key = ContainerKey(str(number), 1, "allocation", "task")
        timer = Timer()
        prepared = sets.prepare(key, mounts, lambda text: None, lambda: False)
        seconds, cpu_s = timer.stop()
        line(f"{what}: start", size, seconds, cpu_s)
        assert read_all(Path(prepared.folders["/data"])) == size
        line(what, size, *timer.stop())
        drop_from_memory(Path(prepared.folders["/data"]))
        sets.release(key)
    sets.close()
    cache.close()


def measure_disk(source: Path, copy: Path, size: int) -> None:
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("manifest.json"))
    drop_from_memory(copy)
    timer = Timer()
    assert read_all(copy) == size
    line("disk", size, *timer.stop())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gb", type=float, default=2.0)
    parser.add_argument("--objects", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--serve", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve)
    size = int(options.gb * 1e9) // options.objects * options.objects
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="data-cache-") as folder:
        source = Path(folder) / "source"
        make_files(source, size, options.objects)
        command = [sys.executable, __file__, "--serve", str(source)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = f"http://127.0.0.1:{server.stdout.readline().strip()}"
            for number in range(options.rounds):
                measure(Path(folder) / str(number), address, size)
                measure_disk(source, Path(folder) / f"copy-{number}", size)
                shutil.rmtree(Path(folder) / str(number))
                shutil.rmtree(Path(folder) / f"copy-{number}")
            server.kill()
    return None


if __name__ == "__main__":
    main()
