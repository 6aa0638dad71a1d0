"""Run the benchmarks of this folder: figures as JSON lines, figures beyond their floors on stderr.

python bench/run.py [NAME …]
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# Modules that are not benchmarks, and benchmarks that need programs of peers.
SKIPPED = {
    "run.py",
    "gpu.py",  # for a machine with a GPU and torch
    "cpu.py",
    "lazy_pulls.py",
    "lcbench_curves.py",
    "lcbench_optuna.py",
    "lcbench_peers.py",
    "lcbench_plot.py",
    "lcbench_ray.py",
    "lcbench_report.py",
    "lcbench_run.py",
    "lcbench_syne_tune.py",
    "pulls.py",  # as root: network namespaces and an engine of its own
    "pull_image.py",
    "pull_registry.py",
    "search_curves.py",
    "search_lcbench.py",  # with the data of LCBench and environments of peers
    "search_packages.py",
    "search_peers.py",
    "search_quality.py",
    "null_s3.py",
    "bare.py",
    "senders.py",
    "gateways.py",
    "scale_fill.py",
}


def figures_of(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Run one file, and print its figures while it runs."""
    figures = []
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    command = [sys.executable, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith("{"):
                sys.stderr.write(line)
                continue
            print(line, end="", flush=True)
            figures.append(json.loads(line))
    return figures, process.returncode


def misses(figure: dict[str, Any]) -> bool:
    if figure.get("floor") is None:
        return False
    value, floor = float(figure["value"]), float(figure["floor"])
    return value > floor if figure["better"] == "lower" else value < floor


def chosen(words: Sequence[str] | None = None) -> list[Path]:
    """Return the named benchmarks, or all of them. Exit if a name is unknown."""
    benchmarks = {path.stem: path for path in sorted(HERE.glob("*.py")) if path.name not in SKIPPED}
    parser = argparse.ArgumentParser(description="Run benchmarks; figures are JSON lines.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"all, or some of {', '.join(benchmarks)}"
    )
    names = parser.parse_args(words).names
    unknown = [name for name in names if name not in benchmarks]
    if unknown:
        parser.error(
            f"no benchmark is named {', '.join(unknown)}; there are {', '.join(benchmarks)}"
        )
    return [path for name, path in benchmarks.items() if name in (names or benchmarks)]


def main() -> int:
    failures: list[str] = []
    for path in chosen():
        print(f"# {path.stem}", file=sys.stderr)
        figures, code = figures_of(path)
        failures += [f"{path.name} ended with exit code {code}"] if code else []
        failures += [
            f"{f['name']}: {f['value']} {f['unit']}, floor {f['floor']}"
            for f in figures
            if misses(f)
        ]
    for line in failures:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
