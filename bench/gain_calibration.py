"""Compare the expected gain of `model_asha` with the gain that the next full training's worth of budget brought.

python -m bench.gain_calibration [--seeds 8] [--processes 1]

Prints one JSON line for each form of the search, part of the search and family of curves. A value of 1 is exact, and a
search with larger values ends too late.
"""

import argparse
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any, NamedTuple

from det_controlplane.core.search import SimulatedTrial, new, simulate

from bench.search_curves import FAMILIES, FULL, SPACE, Task

WORKERS = 4
PARTS = {"early": range(5, 15), "middle": range(15, 40), "late": range(40, 100)}  # full trainings
_LAST = 100

_MODEL = {
    "name": "model_asha",
    "metric": "loss",
    "divisor": 3,
    "max_trials": 1_000_000,
    "max_concurrent_trials": WORKERS,
}
FORMS: dict[str, Mapping[str, Any]] = {
    "promotion": {**_MODEL, "max_length": {"epochs": FULL}},
    "stopping": {**_MODEL, "time_metric": "epochs", "max_time": FULL},
}


class Mark(NamedTuple):
    """The state of a search after a number of full trainings."""

    expected: float | None  # the gain by another full training; None before the model is used
    best: float  # the best metric so far


class Run(NamedTuple):
    form: str
    family: str
    seed: int


def marks_of(run: Run) -> list[Mark]:
    """Return the state after 0, 1, 2, … full trainings."""
    searcher, task = FORMS[run.form], Task(run.family, run.seed)
    search = new(searcher, SPACE, run.seed)
    marks: list[Mark] = []
    best = math.inf

    def observe(work: float, trial: SimulatedTrial) -> None:
        nonlocal best
        while work > len(marks) * FULL:
            marks.append(Mark(search.method.expected_gain(), best))
        assert trial.metric is not None
        best = min(best, trial.metric)

    simulate(searcher, SPACE, run.seed, task.observed, WORKERS, (_LAST + 1) * FULL, observe, search)
    return marks


def figures(seeds: Sequence[int], processes: int) -> Iterable[dict[str, Any]]:
    runs = [Run(*run) for run in product(FORMS, FAMILIES, seeds)]
    with ProcessPoolExecutor(processes) as pool:
        marks = dict(zip(runs, pool.map(marks_of, runs), strict=True))
    for form, part in product(FORMS, PARTS):
        of_form = {run: of_run for run, of_run in marks.items() if run.form == form}
        yield _figure(f"{form}.{part}", list(of_form.values()), PARTS[part])
        for family in FAMILIES:
            of_family = [of_run for run, of_run in of_form.items() if run.family == family]
            yield _figure(f"{form}.{part}.{family}", of_family, PARTS[part])


def _figure(name: str, searches: Sequence[Sequence[Mark]], part: range) -> dict[str, Any]:
    """Return the ratio of the mean expected gain to the mean real gain by one full training in a part."""
    count = len(searches) * len(part)
    gains = [gain for marks in searches for at in part if (gain := marks[at].expected) is not None]
    if len(gains) < count:
        raise SystemExit(f"{name}: {count - len(gains)} of {count} states have no expected gain")
    expected = sum(gains) / count
    real = sum(marks[part.start].best - marks[part.stop].best for marks in searches) / count
    return {
        "name": f"search.expected_gain.{name}",
        "value": round(expected / real, 2) if real else None,
        "unit": "expected/real",
        "floor": None,
        "better": "lower",
        "peer": None,
        "expected": float(f"{expected:.3g}"),
        "real": float(f"{real:.3g}"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    # The constants were chosen with low seeds, so the figures use others.
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for figure in figures(seeds, options.processes):
        print(json.dumps(figure), flush=True)


if __name__ == "__main__":
    main()
