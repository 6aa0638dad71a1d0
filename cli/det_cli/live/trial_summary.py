"""The summary of a trial: training, best value, curve, checkpoint, cost, reasons for waiting or failure, next steps."""

from collections.abc import Iterator, Mapping
from typing import Any

from det_cli.live import charts
from det_cli.live.charts import money, short
from det_cli.live.experiment import Experiment, Reason, Trial
from det_cli.live.experiment_screen import chosen
from det_cli.live.summary import field_rows, next_rows, thin_values
from det_cli.live.text import Line, Segment, fitted, line, state
from det_cli.render import counted, local_time

_CURVE = 32
_QUIET = ("RUNNING", "PULLING", "STARTING", "ASSIGNED", "COMPLETED", "TERMINATING")


def lines(
    experiment: Experiment, response: Mapping[str, Any], reasons: "tuple[Reason, ...]", room: int
) -> list[Line]:
    """Return the summary of the only trial of `experiment`. `response` is the trial in the API's JSON."""
    (trial,) = experiment.trials
    title = line(
        Segment(f"Trial {trial.id}", "bold"), "  ", state(trial.shown_state), "  ",
        f"of experiment {experiment.id}, {experiment.name}",
    )  # fmt: skip
    out = [title, line("")]
    for label, value, style in _rows(experiment, trial, response, reasons):
        out += field_rows(label, value, style, room)
    out += next_rows(list(_next_steps(trial, reasons)))
    return [fitted(one, room) for one in out]


def _rows(
    experiment: Experiment, trial: Trial, response: Mapping[str, Any], reasons: "tuple[Reason, ...]"
) -> Iterator[tuple[str, str, str]]:
    yield "ran", f"{_run_time(trial, response)}, in pool {experiment.pool}", ""
    if response.get("start"):
        yield "start", _start(response["start"]), ""
    restarts = f", {counted(trial.restarts, 'restart')}" if trial.restarts else ""
    yield "trained", f"{trial.batches} {'batch' if trial.batches == 1 else 'batches'}{restarts}", ""
    search = experiment.search
    if trial.hparams:
        yield "chosen", chosen(trial.hparams, search), ""
    if trial.best is not None:
        direction = "smaller" if search.smaller_is_better else "larger"
        at = f", after {trial.best_at} batches" if trial.best_at else ""
        yield "best", f"{search.metric} {short(trial.best)} ({direction} is better){at}", "good"
    if trial.curve:
        values = [value for _, value in trial.curve]
        drawn = charts.sparkline(thin_values(values), _CURVE)
        yield "curve", f"{short(values[0])} {drawn} {short(values[-1])}", ""
    if trial.checkpoint:
        yield "checkpoint", trial.checkpoint, ""
    if response.get("costUsd"):
        yield "cost", f"{money(response['costUsd'])} for {response['slotHours']:.2f} slot hours", ""
    for reason in reasons:
        if reason.state not in _QUIET or trial.stopped_early:
            yield "why", reason.sentence, "bad" if trial.state == "ERROR" else "warn"
        if reason.details:
            yield "details", reason.details, "dim"


def _run_time(trial: Trial, response: Mapping[str, Any]) -> str:
    """Return when the first run of a trial began, and the time that all its runs took."""
    created = response.get("startTime")
    # Unmanaged trials have no runs in the cluster, and older clusters do not send the time.
    first = response.get("firstRunTime") or (created if trial.batches else None)
    if first is None:
        return f"not yet, created {local_time(created)}"
    seconds = response.get("wallClockTime")
    return local_time(first) + (f", for {charts.span(float(seconds))}" if seconds else "")


def _start(start: Mapping[str, Any]) -> str:
    """Return the phases of the newest start that took time, with their costs, and the sums."""
    phases = start["phases"]
    total = sum(phase["seconds"] for phase in phases)
    cost = sum(phase["usd"] for phase in phases)
    parts = [
        f"{phase['name']} {charts.span(phase['seconds'])}"
        + (f" {money(phase['usd'])}" if phase["usd"] else "")
        for phase in phases
        if phase["seconds"] >= 1
    ]
    until = "" if start["isComplete"] else " so far"
    trace = f" (trace {start['traceId']})" if start.get("traceId") else ""
    price = f" and {money(cost)}" if cost else ""
    return f"{charts.span(total)}{price}{until}{': ' if parts else ''}{', '.join(parts)}{trace}"


def _next_steps(trial: Trial, reasons: "tuple[Reason, ...]") -> Iterator[tuple[str, str]]:
    follow = "" if trial.ended else " -f"
    yield f"det trial logs {trial.id}{follow}", "show the output of its code"
    for next_step in [reason.next_step for reason in reasons if reason.next_step][:1]:
        yield "det experiment create CONFIG MODEL", next_step
    if trial.checkpoint:
        yield f"det trial download {trial.id} --best", "download its best checkpoint"
    yield f"det trial describe {trial.id} --metrics", "list workloads with their metrics"
    yield f"det trial describe {trial.id} --json", "print everything as JSON"
