"""Run kinds of outages a number of times, and print a line for each outcome."""

import argparse
import pprint
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.outages.claims import problems_of
from tests.support.outages.kinds import KINDS, NAMES, kinds_named
from tests.support.outages.outcome import Outcome
from tests.support.outages.play import LENGTH_S, Outage, play_sites

MAX_PROBLEM = 300  # characters


def line(outcome: Outcome) -> str:
    """Return an outcome in one line."""
    trials = outcome.trials
    points = sum(trial.points for trial in trials)
    expected = sum(len(points) for trial in trials for points in trial.expected)
    states = Counter(trial.state for trial in trials)
    return (
        f"{outcome.kind.name:<16} {outcome.length_s:g} s: {points} of {expected} points,"
        f" {sum(trial.repeated_steps for trial in trials)} repeated steps;"
        f" trials {', '.join(f'{count} {state}' for state, count in sorted(states.items()))},"
        f" runs {max(trial.runs for trial in trials)},"
        f" restarts {max(trial.restarts for trial in trials)},"
        f" {sum(len(trial.errors) for trial in trials)} errors in logs;"
        f" {len(problems_of(outcome))} problems"
    )


def _meanings() -> str:
    return "kinds:\n" + "\n".join(f"  {kind.name:<16}  {kind.meaning}" for kind in KINDS)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.outages",
        description=__doc__,
        epilog=_meanings(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--times", type=int, default=1, help="how often to play every kind")
    parser.add_argument("--length", type=float, default=LENGTH_S, help="seconds of each outage")
    parser.add_argument("--pairs", type=int, default=2, help="pairs of trials for each agent")
    parser.add_argument("--runtime", choices=("process", "docker"), default="process")
    parser.add_argument("--folder", type=Path, help="keep the clusters' files and logs there")
    parser.add_argument("--details", action="store_true", help="print all of each outcome")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"{', '.join(NAMES)} (all)")
    options = parser.parse_args(argv)
    kinds = kinds_named(options.kinds or NAMES)
    outage = Outage(options.length, options.pairs, options.runtime)
    has_failed = False
    for number in range(1, options.times + 1):
        with _folder(options.folder, number) as folder:
            for site in play_sites(folder, kinds, outage):
                if (error := site.exception()) is not None:
                    has_failed = True
                    print(f"{number}/{options.times} not played: {error}", flush=True)
                    continue
                for outcome in site.result():
                    print(f"{number}/{options.times} {line(outcome)}", flush=True)
                    has_failed = bool(_print_problems(outcome)) or has_failed
                    if options.details:
                        pprint.pprint(outcome, width=200)
    return 1 if has_failed else 0


def _print_problems(outcome: Outcome) -> int:
    problems = problems_of(outcome)
    for problem in problems:
        print(f"      {problem[:MAX_PROBLEM]}", flush=True)
    return len(problems)


@contextmanager
def _folder(kept_folder: Path | None, number: int) -> Iterator[Path]:
    if kept_folder is not None:
        (kept_folder / str(number)).mkdir(parents=True)
        yield kept_folder.absolute() / str(number)
    else:
        with tempfile.TemporaryDirectory(prefix="outages-") as folder:
            yield Path(folder)


if __name__ == "__main__":
    sys.exit(main())
