"""The summary of an experiment: best trial, curve, cost, reasons for waiting or failure, and next steps."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from det_cli import deadlines, outlooks
from det_cli.live import charts
from det_cli.live.charts import money, short
from det_cli.live.experiment import Experiment, Trial
from det_cli.live.experiment_screen import chosen, counts, duration, reached, trial_count, waiting
from det_cli.live.text import Line, Segment, fitted, line, pad, state, wrapped

_LABEL, _CURVE = 12, 32
_CONTINUABLE = ("single", "random", "grid")


def lines(experiment: Experiment, room: int, now: float) -> list[Line]:
    title = line(
        Segment(f"Experiment {experiment.id}", "bold"), "  ", state(experiment.state), "  ",
        Segment(experiment.name, "bold"),
    )  # fmt: skip
    out = [title, *(line(text) for text in wrapped(experiment.description, room) if text)]
    out.append(line(""))
    for label, value, style in _rows(experiment, now):
        out += field_rows(label, value, style, room)
    out += next_rows(list(_next_steps(experiment)))
    return [fitted(one, room) for one in out]


def next_rows(steps: Sequence[tuple[str, str]]) -> list[Line]:
    """Return the lines of the next steps, each a command and its meaning."""
    width = max(len(command) for command, _ in steps)
    rows = [
        line(f"  {command.ljust(width)}  ", Segment(meaning, "dim")) for command, meaning in steps
    ]
    return [line(""), line(Segment("next", "bold")), *rows]


def field_rows(label: str, value: str, style: str, room: int) -> list[Line]:
    """Return the lines of a label and its value. Long values wrap."""
    texts = wrapped(value, max(room - _LABEL, 8))
    names = [label] + [""] * (len(texts) - 1)
    return [
        line(Segment(pad(name, _LABEL), "dim"), Segment(text, style))
        for name, text in zip(names, texts, strict=True)
    ]


def _rows(experiment: Experiment, now: float) -> Iterator[tuple[str, str, str]]:
    """Yield the label, value and style of each row."""
    search, best = experiment.search, experiment.best
    yield "owner", f"{experiment.owner}, in {experiment.place}", ""
    if experiment.labels:
        yield "labels", ", ".join(experiment.labels), ""
    if experiment.started is not None:
        start = datetime.fromtimestamp(experiment.started).astimezone()
        preposition = "for" if experiment.ended else "since then"
        yield (
            "ran",
            f"{start:%Y-%m-%d %H:%M:%S%z}, {preposition} {duration(experiment, now)}, in pool {experiment.pool}",
            "",
        )
    done = (
        "" if experiment.ended or experiment.progress is None else f"{experiment.progress:.0%} of "
    )
    limit = f" of at most {search.max_trials}" if search.max_trials else ""
    by_state = f": {counts(experiment.trials)}" if experiment.trials else ""
    yield (
        "search",
        f"{done}{search.name}, {trial_count(len(experiment.trials), limit)}{by_state}",
        "",
    )
    if search.ending:
        yield "", search.ending, "warn"
    elif search.gain is not None and not experiment.ended:
        yield "", outlooks.sentence(search.gain, search.metric), ""
    if best is not None:
        direction = "smaller" if search.smaller_is_better else "larger"
        yield (
            "best",
            f"{search.metric} {short(best.best)} ({direction} is better), {reached(best)}",
            "good",
        )
        yield "", chosen(best.hparams, search), ""
        yield from _best_rows(best)
    elif experiment.state == "COMPLETED" and search.metric:
        yield "best", f"unknown: {_why_no_best(experiment)} (searcher.metric)", "warn"
    if experiment.cost_usd:
        hours = experiment.slot_hours
        yield "cost", f"{money(experiment.cost_usd)} for {hours:.2f} slot hours", ""
    if experiment.deadline is not None:
        yield from _deadline_rows(experiment, experiment.deadline)
    for reason in waiting(experiment):
        yield "why", reason, "bad" if experiment.state == "ERROR" else "warn"
    for detailed in experiment.reasons:
        if detailed.details:
            yield "details", detailed.details, "dim"


def _deadline_rows(
    experiment: Experiment, deadline: Mapping[str, Any]
) -> Iterator[tuple[str, str, str]]:
    """Yield the deadline and the reason of its last decision, unless a reason for waiting contains it."""
    yield "deadline", deadlines.sentence(deadline), deadlines.style(deadline)
    reason = str(deadline.get("reason") or "")
    if reason and not any(reason in other for other in waiting(experiment)):
        yield "", reason, ""


def _why_no_best(experiment: Experiment) -> str:
    metric = experiment.search.metric
    if any(trial.latest is not None for trial in experiment.trials):
        return f"validations reported NaN for {metric}"
    return f"no validation reported {metric}"


def _best_rows(best: Trial) -> Iterator[tuple[str, str, str]]:
    if best.curve:
        values = [value for _, value in best.curve]
        drawn = charts.sparkline(thin_values(values), _CURVE)
        yield "curve", f"{short(values[0])} {drawn} {short(values[-1])}", ""
    if best.checkpoint:
        yield "checkpoint", best.checkpoint, ""


def thin_values(values: list[float]) -> list[float]:
    """Return at most as many values as a curve has columns, including the first and the last value."""
    if len(values) <= _CURVE:
        return values
    step = (len(values) - 1) / (_CURVE - 1)
    return [values[round(i * step)] for i in range(_CURVE)]


def _next_steps(experiment: Experiment) -> Iterator[tuple[str, str]]:
    id = experiment.id
    failed = [r.failed_trial_id for r in experiment.reasons if r.failed_trial_id is not None]
    failed += [t.id for t in experiment.trials if t.state == "ERROR"]
    if experiment.state in ("ACTIVE", "RUNNING", "QUEUED", "PULLING", "STARTING"):
        yield f"det experiment watch {id}", "watch its trials"
        if experiment.state == "QUEUED":
            yield "det top", "show the queue"
        else:
            yield f"det experiment logs {id} -f", "follow the logs of its first trial"
    if experiment.state == "PAUSED":
        yield f"det experiment activate {id}", "resume it"
    if failed:
        yield f"det trial logs {failed[0]}", "show the output of its code before the failure"
    steps = [reason.next_step for reason in experiment.reasons if reason.next_step]
    if steps:
        yield "det experiment create CONFIG MODEL", steps[0]
    elif experiment.state in ("ERROR", "CANCELED"):
        if experiment.search.name in _CONTINUABLE:
            yield f"det experiment continue {id}", "continue from the last checkpoint"
        else:
            yield f"det experiment config {id}", "print its configuration for a new experiment"
    if experiment.ended and experiment.best is not None and experiment.best.checkpoint:
        yield f"det experiment download {id}", "download its best checkpoint"
    yield f"det experiment describe {id} --format table", "list trials and workloads"
