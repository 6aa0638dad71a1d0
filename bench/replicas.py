"""Measure replicas: `$(scripts/ml-venv ml) bench/replicas.py [--mib 100] [--machines 4]` prints times of `replicate`.

Each machine is a process with one rank and a directory in /dev/shm. It needs no cluster. scripts/ml-venv creates an
environment with torch and prints its interpreter.
"""

import argparse
import multiprocessing
import socket
import statistics
import tempfile
import time

import torch
from determined.core import DistributedContext
from determined.replicas._replicator import Replicator, Reports, Settings

REPEATS = 12
WARM_UP = 3  # the first replicas allocate the memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=100, help="size of the state")
    parser.add_argument("--machines", type=int, default=4)
    arguments = parser.parse_args()
    for own in (False, True):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
            ranks = [
                multiprocessing.get_context("spawn").Process(
                    target=measure, args=(rank, arguments, own, port, memory)
                )
                for rank in range(arguments.machines)
            ]
            for process in ranks:
                process.start()
            for process in ranks:
                process.join()


def measure(rank: int, arguments: argparse.Namespace, own: bool, port: int, memory: str) -> None:
    torch.set_num_threads(1)
    directory = tempfile.mkdtemp(dir=memory)
    distributed = DistributedContext(
        rank=rank, size=arguments.machines, local_rank=0, local_size=1, cross_rank=rank,
        cross_size=arguments.machines, chief_ip="127.0.0.1", pub_port=port,
    )  # fmt: skip
    replicator = Replicator(distributed, Settings(directory, 1 << 40, 1), Reports())
    tensors = [torch.rand(256, 1024) for _ in range(arguments.mib)]
    stops, completions = [], []
    for step in range(REPEATS):
        distributed.allgather(None)
        started = time.monotonic()
        replicator.replicate(*((None, step, tensors) if own else (tensors, step)))
        stops.append(time.monotonic() - started)
        replicator.wait()
        completions.append(time.monotonic() - started)
    if rank == 0:
        kind = "own state, also sent to the next machine" if own else "state equal on all ranks"
        print(
            f"{kind}, {arguments.mib} MiB: training stops for {_ms(stops)} ms, complete after {_ms(completions)} ms",
            flush=True,
        )
    distributed.allgather(None)
    replicator.close()
    distributed.close()


def _ms(seconds: list[float]) -> str:
    measured = sorted(seconds[WARM_UP:])
    return f"{statistics.median(measured) * 1000:.0f} ({measured[0] * 1000:.0f} - {measured[-1] * 1000:.0f})"


if __name__ == "__main__":
    main()
