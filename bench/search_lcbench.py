"""Compare search methods on LCBench, with Optuna, Ray Tune and Syne Tune. Prints a table, and draws a picture.

python -m bench.search_lcbench --data DIR --results FILE [--seeds 30] [--datasets 3945,7593] [--methods "a;b"]

DIR has model.onnx and encoding.json of YAHPO Gym's "lcbench". Each method has four workers. The result is the best
accuracy that any trial reported at any epoch, after up to 100 times the 52 epochs of one full training.
The runs are appended to FILE, and those in it are not repeated. `scripts/search-venv` makes the environments.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.lcbench_plot import draw
from bench.lcbench_report import Runs, table
from bench.lcbench_run import METHODS, environment_of

ROOT = Path(__file__).resolve().parent.parent
# Half of the data sets that the constants of `model_asha` were not chosen with.
DATASETS = (3945, 34539, 126026, 146212, 167149, 167161, 167181, 167185, 167200)


def run_all(options: argparse.Namespace, methods: Sequence[str], datasets: Sequence[int]) -> None:
    """Run the methods of each environment with its interpreter."""
    path = os.pathsep.join([str(ROOT / "controlplane"), str(ROOT)])
    for name in sorted({environment_of(method) for method in methods}):
        script = [str(ROOT / "scripts/search-venv"), name]
        python = subprocess.run(
            script, check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()
        chosen = [method for method in methods if environment_of(method) == name]
        command = [
            python, "-m", "bench.lcbench_run", "--data", options.data, "--results", options.results,
            "--methods", ";".join(chosen), "--datasets", ",".join(map(str, datasets)),
            "--seeds", str(options.seeds), "--processes", str(options.processes),
        ]  # fmt: skip
        # Each process has one processor, so more threads would only compete for it.
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        subprocess.run(command, check=True, env={**os.environ, **threads, "PYTHONPATH": path})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, help="without it, only the table and the picture are made"
    )
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--datasets", default=",".join(map(str, DATASETS)))
    parser.add_argument("--methods", default=";".join(METHODS), help="separated by ;")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--against", default="model_asha", help="p-values compare with this method")
    parser.add_argument("--plot", type=Path, help="an SVG file")
    options = parser.parse_args()
    methods = options.methods.split(";")
    unknown = [method for method in methods if method not in METHODS]
    if unknown:
        parser.error(f"no method is named {', '.join(unknown)}; there are {'; '.join(METHODS)}")
    datasets = [int(dataset) for dataset in options.datasets.split(",")]
    if options.data is not None:
        run_all(options, methods, datasets)
    runs = Runs.read(options.results, methods, datasets)
    sys.stdout.write(table(runs, options.against))
    if options.plot is not None:
        options.plot.write_text(draw(runs))


if __name__ == "__main__":
    main()
