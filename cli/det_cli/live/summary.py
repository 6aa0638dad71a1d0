"""Tell what came of an experiment: its best trial and curve, its cost, why it waits or failed, and what to do next."""

from collections.abc import Iterator
from datetime import datetime

from det_cli.live import pictures
from det_cli.live.experiment import Experiment, Trial
from det_cli.live.experiment_screen import chosen, counts, lasted, of_trials, reached, waiting
from det_cli.live.pictures import money, short
from det_cli.live.text import Line, Segment, fitted, line, pad, state, wrapped

_LABEL, _CURVE = 12, 32
_CONTINUABLE = ("single", "random", "grid")


def lines(experiment: Experiment, room: int, now: float) -> list[Line]:
    title = line(
        Segment(f"Experiment {experiment.id}", "bold"), "  ", state(experiment.state), "  ",
        Segment(experiment.name, "bold"),
    )  # fmt: skip
    out = [title, *(line(told) for told in wrapped(experiment.description, room) if told)]
    out.append(line(""))
    for label, value, style in _rows(experiment, now):
        out += _row(label, value, style, room)
    steps = list(_next_steps(experiment))
    width = max(len(command) for command, _ in steps)
    out += [line(""), line(Segment("next", "bold"))]
    out += [
        line(f"  {command.ljust(width)}  ", Segment(meaning, "dim")) for command, meaning in steps
    ]
    return [fitted(one, room) for one in out]


def _row(label: str, value: str, style: str, room: int) -> list[Line]:
    """Put a value beside its name; what is too long goes on below it."""
    texts = wrapped(value, max(room - _LABEL, 8))
    names = [label] + [""] * (len(texts) - 1)
    return [
        line(Segment(pad(name, _LABEL), "dim"), Segment(text, style))
        for name, text in zip(names, texts, strict=True)
    ]


def _rows(experiment: Experiment, now: float) -> Iterator[tuple[str, str, str]]:
    """Yield the known facts: names with values and their styles."""
    search, best = experiment.search, experiment.best
    yield "owner", f"{experiment.owner}, in {experiment.place}", ""
    if experiment.labels:
        yield "labels", ", ".join(experiment.labels), ""
    if experiment.started is not None:
        start = datetime.fromtimestamp(experiment.started).astimezone()
        how = "for" if experiment.ended else "since then"
        yield (
            "ran",
            f"{start:%Y-%m-%d %H:%M:%S%z}, {how} {lasted(experiment, now)}, in pool {experiment.pool}",
            "",
        )
    done = (
        "" if experiment.ended or experiment.progress is None else f"{experiment.progress:.0%} of "
    )
    of = f" of at most {search.max_trials}" if search.max_trials else ""
    told = f": {counts(experiment.trials)}" if experiment.trials else ""
    yield "search", f"{done}{search.name}, {of_trials(len(experiment.trials), of)}{told}", ""
    if best is not None:
        way = "smaller" if search.smaller_is_better else "larger"
        yield (
            "best",
            f"{search.metric} {short(best.best)} ({way} is better), {reached(best)}",
            "good",
        )
        yield "", chosen(best.hparams, search), ""
        yield from _of_best(best)
    elif experiment.state == "COMPLETED" and search.metric:
        yield "best", f"unknown: {_why_no_best(experiment)}, the searcher.metric", "warn"
    if experiment.cost_usd:
        hours = experiment.slot_hours
        yield "cost", f"{money(experiment.cost_usd)} for {hours:.2f} slot hours", ""
    for reason in waiting(experiment):
        yield "why", reason, "bad" if experiment.state == "ERROR" else "warn"


def _why_no_best(experiment: Experiment) -> str:
    metric = experiment.search.metric
    if any(trial.latest is not None for trial in experiment.trials):
        return f"what validations reported is not a number (NaN): {metric}"
    return f"no validation reported {metric}"


def _of_best(best: Trial) -> Iterator[tuple[str, str, str]]:
    if best.curve:
        values = [value for _, value in best.curve]
        drawn = pictures.sparkline(_thinned(values), _CURVE)
        yield "curve", f"{short(values[0])} {drawn} {short(values[-1])}", ""
    if best.checkpoint:
        yield "checkpoint", best.checkpoint, ""


def _thinned(values: list[float]) -> list[float]:
    """Keep at most as many values as a curve has columns, the first and the last among them."""
    if len(values) <= _CURVE:
        return values
    step = (len(values) - 1) / (_CURVE - 1)
    return [values[round(i * step)] for i in range(_CURVE)]


def _next_steps(experiment: Experiment) -> Iterator[tuple[str, str]]:
    id = experiment.id
    failed = [t.id for t in experiment.trials if t.state == "ERROR"]
    if experiment.state in ("ACTIVE", "RUNNING", "QUEUED", "PULLING", "STARTING"):
        yield f"det experiment watch {id}", "see it train"
        if experiment.state == "QUEUED":
            yield "det top", "see what it waits for"
        else:
            yield f"det experiment logs {id} -f", "follow the logs of its first trial"
    if experiment.state == "PAUSED":
        yield f"det experiment activate {id}", "let it go on"
    if failed:
        yield f"det trial logs {failed[0]}", "read what its code printed before it failed"
    if experiment.state in ("ERROR", "CANCELED"):
        if experiment.search.name in _CONTINUABLE:
            yield f"det experiment continue {id}", "try again from where it stopped"
        else:
            yield f"det experiment config {id}", "print its configuration, for a new experiment"
    if experiment.ended and experiment.best is not None and experiment.best.checkpoint:
        yield f"det experiment download {id}", "download its best checkpoint"
    yield f"det experiment describe {id} --format table", "list trials and workloads"
