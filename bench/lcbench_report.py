"""Statistics of runs on LCBench: regrets, ranks and tests, as a table in Markdown."""

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.lcbench_curves import MARKS

SHOWN = (25, 100)  # full trainings
_CERTAIN = 1.96  # standard errors of a 95 % interval

Pair = tuple[int, int]  # data set and seed


@dataclass(frozen=True)
class Runs:
    """The regret of each run at each mark: the distance from the best accuracy of any run, in percent points.

    A method takes part when it has a run on every data set, because some data sets are much harder than others."""

    regrets: Mapping[str, Mapping[Pair, Sequence[float]]]
    versions: Mapping[str, str]
    cpu_s: Mapping[str, float]  # of one run

    @classmethod
    def read(cls, file: Path, methods: Sequence[str], datasets: Sequence[int]) -> "Runs":
        best: dict[int, float] = defaultdict(float)
        found: dict[str, dict[Pair, list[float]]] = {method: {} for method in methods}
        versions: dict[str, str] = {}
        seconds: dict[str, list[float]] = defaultdict(list)
        for row in map(json.loads, file.read_text().splitlines()):
            method, dataset = row["method"], row["dataset"]
            if method not in found or dataset not in datasets:
                continue
            best[dataset] = max(best[dataset], row["accuracies"][-1])
            found[method][dataset, row["seed"]] = row["accuracies"]
            versions[method] = ", ".join(f"{k} {v}" for k, v in row["versions"].items())
            seconds[method].append(row["cpu_s"])
        regrets = {
            method: {
                pair: [best[pair[0]] - accuracy for accuracy in accuracies]
                for pair, accuracies in pairs.items()
            }
            for method, pairs in found.items()
            if {dataset for dataset, _ in pairs} == set(datasets)
        }
        cpu_s = {method: statistics.fmean(values) for method, values in seconds.items()}
        return cls(regrets, versions, cpu_s)

    def mean(self, method: str, mark: int) -> tuple[float, float]:
        """Return the mean regret over data sets, and half of its 95 % interval over seeds."""
        by_dataset: dict[int, list[float]] = defaultdict(list)
        for (dataset, _), regrets in self.regrets[method].items():
            by_dataset[dataset].append(regrets[MARKS.index(mark)])
        means = [statistics.fmean(values) for values in by_dataset.values()]
        variances = [
            statistics.variance(values) / len(values)
            for values in by_dataset.values()
            if len(values) > 1
        ]
        error = math.sqrt(sum(variances)) / len(means)
        return statistics.fmean(means), _CERTAIN * error

    def ranks(self, mark: int) -> dict[str, float]:
        """Return the mean rank of each method over the runs that all methods have."""
        common = set.intersection(*(set(pairs) for pairs in self.regrets.values()))
        index = MARKS.index(mark)
        ranks: dict[str, list[float]] = defaultdict(list)
        for pair in common:
            found = {method: pairs[pair][index] for method, pairs in self.regrets.items()}
            for method, regret in found.items():
                better = sum(other < regret for other in found.values())
                equal = sum(other == regret for other in found.values())
                ranks[method].append(better + (equal + 1) / 2)
        return {method: statistics.fmean(values) for method, values in ranks.items()}

    def compared(self, reference: str, mark: int) -> dict[str, float]:
        """Return the p-value of each other method against the reference, corrected for their number by Holm."""
        index = MARKS.index(mark)
        found = {}
        for method, pairs in self.regrets.items():
            if method != reference:
                mine = self.regrets[reference]
                common = sorted(set(pairs) & set(mine))
                found[method] = wilcoxon([pairs[p][index] - mine[p][index] for p in common])
        return holm(found)


def wilcoxon(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of the signed-rank test, by its normal approximation with a correction for ties."""
    nonzero = sorted((d for d in differences if d), key=abs)
    count = len(nonzero)
    if count == 0:
        return 1.0
    positive, ties, start = 0.0, 0.0, 0
    while start < count:
        end = start
        while end < count and abs(nonzero[end]) == abs(nonzero[start]):
            end += 1
        size = end - start
        positive += (start + end + 1) / 2 * sum(d > 0 for d in nonzero[start:end])
        ties += size**3 - size
        start = end
    variance = count * (count + 1) * (2 * count + 1) / 24 - ties / 48
    distance = max(abs(positive - count * (count + 1) / 4) - 0.5, 0.0)
    return math.erfc(distance / math.sqrt(2 * variance))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Correct p-values for their number by the step-down method of Holm."""
    corrected, most = {}, 0.0
    for index, method in enumerate(sorted(p_values, key=p_values.__getitem__)):
        most = max(most, min(1.0, (len(p_values) - index) * p_values[method]))
        corrected[method] = most
    return corrected


def table(runs: Runs, reference: str) -> str:
    """Return the methods by their regret at the last mark. A p-value compares a method with the reference."""
    last = SHOWN[-1]
    methods = sorted(runs.regrets, key=lambda method: runs.mean(method, last)[0])
    columns = [_column(runs, methods, reference, mark) for mark in SHOWN]
    heads = [f"regret, {m}R | p, {m}R | rank, {m}R" for m in SHOWN]
    lines = [
        f"| method | runs | {' | '.join(heads)} | CPU s |",
        "|---|" + "---|" * (3 * len(SHOWN) + 2),
    ]
    for method in methods:
        version = runs.versions[method]
        name = f"{method} ({version})" if version else f"`{method}`"
        cells = " | ".join(column[method] for column in columns)
        count = len(runs.regrets[method])
        lines.append(f"| {name} | {count} | {cells} | {runs.cpu_s[method]:.0f} |")
    return "\n".join(lines) + "\n"


def _column(runs: Runs, methods: Sequence[str], reference: str, mark: int) -> dict[str, str]:
    means = {method: runs.mean(method, mark) for method in methods}
    p_values, ranks = runs.compared(reference, mark), runs.ranks(mark)
    cells = {}
    for method, (mean, half) in means.items():
        p = _p_text(p_values[method]) if method in p_values else "–"
        interval = f" ± {half:.2f}" if half else ""  # a single seed has none
        cells[method] = f"{mean:.2f}{interval} | {p} | {ranks[method]:.1f}"
    return cells


def _p_text(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
