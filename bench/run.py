"""Run the benchmarks beside this file: figures as JSON lines, what misses its floor on stderr.

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
# Not benchmarks: what others import, and what needs programs of peers.
SKIPPED = {
    "run.py",
    "cpu.py",
    "search_curves.py",
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
    """Run one file and pass its figures on as they come."""
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
    """Return the benchmarks that are named, or all of them. Ends the program where a name is unknown."""
    known = {path.stem: path for path in sorted(HERE.glob("*.py")) if path.name not in SKIPPED}
    parser = argparse.ArgumentParser(description="Run benchmarks; figures are JSON lines.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"all, or some of {', '.join(known)}"
    )
    names = parser.parse_args(words).names
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"no benchmark is named {', '.join(unknown)}; there are {', '.join(known)}")
    return [path for name, path in known.items() if name in (names or known)]


def main() -> int:
    failed: list[str] = []
    for path in chosen():
        print(f"# {path.stem}", file=sys.stderr)
        figures, code = figures_of(path)
        failed += [f"{path.name} ended with exit code {code}"] if code else []
        failed += [
            f"{f['name']}: {f['value']} {f['unit']}, floor {f['floor']}"
            for f in figures
            if misses(f)
        ]
    for line in failed:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
