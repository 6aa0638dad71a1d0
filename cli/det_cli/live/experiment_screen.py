"""The screen of an experiment: progress, rungs, reasons for waiting, and trials with their curves."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from det_cli.live import charts
from det_cli.live.charts import short, span
from det_cli.live.experiment import Experiment, Reason, Search, Trial, best_first, in_view
from det_cli.live.text import Column, Line, Segment, apart, fitted, line, state, table, wrapped

_CURVE = 24
_TRIALS = 200  # maximum rows
_LIVE = ("RUNNING", "PULLING", "STARTING", "ASSIGNED")


def lines(experiment: Experiment, room: int, now: float) -> list[Line]:
    """Return all lines of the screen. The caller shows the part that fits."""
    out = [_title(experiment, room, now), _search_line(experiment)]
    out += _best_lines(experiment, room)
    out += _rung_lines(experiment, room)
    for reason in waiting(experiment):
        out += [line(Segment(text, "warn")) for text in wrapped(f"why: {reason}", room)[:4]]
    out.append(line(""))
    return [fitted(one, room) for one in [*out, *_trial_lines(experiment, room)]]


def _title(experiment: Experiment, room: int, now: float) -> Line:
    left_side = line(
        Segment(f"experiment {experiment.id}", "bold"), "  ", state(experiment.state), "  ",
        *_progress(experiment, room), Segment(experiment.name, "bold"),
    )  # fmt: skip
    return apart(left_side, line(*_cost_and_duration(experiment, now)), room)


def _progress(experiment: Experiment, room: int) -> Iterator["str | Segment"]:
    if experiment.progress is not None and not experiment.ended:
        if room >= 80:
            yield Segment(charts.bar(experiment.progress, 12), "busy")
            yield " "
        yield f"{experiment.progress:.0%}  "


def _cost_and_duration(experiment: Experiment, now: float) -> Iterator["str | Segment"]:
    if experiment.cost_usd:
        yield f"{charts.money(experiment.cost_usd)}  "
    yield duration(experiment, now)


def duration(experiment: Experiment, now: float) -> str:
    until = experiment.ended_at if experiment.ended_at is not None else now
    return "" if experiment.started is None else span(until - experiment.started)


def counts(trials: Sequence[Trial]) -> str:
    """Return the number of trials in each state, active states first."""
    by_state: dict[str, int] = {}
    for trial in in_view(trials, Search("", "", True, "")):
        name = trial.shown_state
        by_state[name] = by_state.get(name, 0) + 1
    return ", ".join(f"{count} {name.lower()}" for name, count in by_state.items())


def _search_line(experiment: Experiment) -> Line:
    search, by_state = experiment.search, counts(experiment.trials)
    limit = f" of {search.max_trials}" if search.max_trials else ""
    trials = trial_count(len(experiment.trials), limit) + (f": {by_state}" if by_state else "")
    return line(Segment(f"{search.name} in pool {experiment.pool} · {trials}", "dim"))


def trial_count(count: int, limit: str = "") -> str:
    return f"{count}{limit} {'trial' if count == 1 and not limit else 'trials'}"


def reached(best: Trial) -> str:
    """Return a trial's id and the length of training at its best validation."""
    noun = "batch" if best.best_at == 1 else "batches"
    return f"trial {best.id}" + (f" after {best.best_at} {noun}" if best.best_at else "")


def _best_lines(experiment: Experiment, room: int) -> list[Line]:
    best, search = experiment.best, experiment.search
    if best is None:
        return []
    best_line = line(
        Segment("best ", "dim"), f"{search.metric} ", Segment(short(best.best), "good"),
        f"  {reached(best)}  ",
    )  # fmt: skip
    hparams = chosen(best.hparams, search)
    if room >= 100:
        return [(*best_line, Segment(hparams, "dim"))]
    return [
        best_line,
        *(line(Segment(text, "dim")) for text in wrapped(hparams, room, "     ")[:3]),
    ]


def chosen(hparams: Mapping[str, Any], search: Search) -> str:
    """Return the hyperparameters that the search chose, or all of them if it chose none."""
    flat = dict(_flat(hparams))
    selected = {n: v for n, v in flat.items() if n in search.searched} or flat
    return " ".join(f"{name}={_value(value)}" for name, value in selected.items())


def _flat(hparams: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in hparams.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _value(value: Any) -> str:
    return short(value) if isinstance(value, float) else str(value)


def _rung_lines(experiment: Experiment, room: int) -> list[Line]:
    """Draw the number of trials that reached each rung."""
    search, trials = experiment.search, experiment.trials
    if not search.rungs or not trials:
        return []
    share = max((room - 20) // len(search.rungs) - 12, 3)
    parts: list[str | Segment] = [Segment(f"rungs ({search.time_metric})", "dim")]
    for rung in search.rungs:
        drawn = "█" * math.ceil(rung.arrived / len(trials) * min(share, 16))
        count = f" {rung.arrived}" if drawn else "0"
        parts += [f"  {rung.length:.0f} ", Segment(drawn, "busy"), count]
    return [line(*parts)]


def waiting(experiment: Experiment) -> list[str]:
    """Return the reasons why an experiment or its trials wait, failed or are paused, without duplicates."""
    groups: dict[str, list[Reason]] = {}
    for reason in experiment.reasons:
        if reason.state not in (*_LIVE, "COMPLETED", "ENDED", "ACTIVE", "TERMINATING"):
            groups.setdefault(reason.sentence, []).append(reason)
    out = [_subject(same) + sentence for sentence, same in groups.items()]
    if not out and experiment.state == "QUEUED" and experiment.jobs_ahead is not None:
        out.append(f"waits in the queue of pool {experiment.pool}, {ahead(experiment.jobs_ahead)}")
    return out


def ahead(jobs: int) -> str:
    return "first in line" if jobs <= 0 else f"{jobs} {'job' if jobs == 1 else 'jobs'} ahead"


def _subject(reasons: Sequence[Reason]) -> str:
    ids = sorted({r.trial_id for r in reasons if r.trial_id is not None})
    if not ids:
        return ""
    names = ", ".join(map(str, ids[:6])) + (f" and {len(ids) - 6} more" if len(ids) > 6 else "")
    return f"{'trial' if len(ids) == 1 else 'trials'} {names}: "


def _trial_lines(experiment: Experiment, room: int) -> list[Line]:
    search = experiment.search
    trials = in_view(experiment.trials, search)[:_TRIALS]
    between = charts.bounds(value for t in trials for _, value in t.curve)
    longest = max((at for t in trials for at, _ in t.curve), default=0.0)
    width = _CURVE if room >= 80 else 12
    best = experiment.best

    def curve(trial: Trial) -> Segment:
        drawn = charts.curve(trial.curve, longest, between, width)
        return Segment(drawn, "good" if trial is best else "busy" if not trial.ended else "")

    columns = (
        Column("trial", lambda t: str(t.id), right=True),
        Column("state", lambda t: state(t.shown_state), least=7),
        Column("batches", lambda t: str(t.batches), least=7, right=True),
        Column("last", lambda t: short(t.latest), least=9, drop=1, right=True),
        Column("best", lambda t: short(t.best), least=9, right=True),
        Column(search.metric or "curve", curve, least=width, most=width),
        Column("restarts", lambda t: str(t.restarts or ""), drop=4, right=True),
        Column("hyperparameters", lambda t: chosen(t.hparams, search), drop=2, least=24, most=70),
        Column("", lambda t: Segment(t.reason, "dim"), drop=3, least=24, most=60),
    )  # fmt: skip
    rest = len(experiment.trials) - len(trials)
    command = f"`det experiment list-trials {experiment.id}`"
    more = [line(Segment(f"… and {rest} more trials: {command}", "dim"))] if rest > 0 else []
    return table(columns, trials, room) + more


def one_line(experiment: Experiment) -> str:
    """Return the state in one line, for output that is not a terminal."""
    best, search = experiment.best, experiment.search
    done = "" if experiment.progress is None else f" {experiment.progress:.0%}"
    parts = [f"{experiment.state}{done}"]
    if experiment.trials:
        parts.append(f"{trial_count(len(experiment.trials))} ({counts(experiment.trials)})")
    if best is not None:
        parts.append(f"best {search.metric} {short(best.best)} (trial {best.id})")
    return "; ".join([*parts, *waiting(experiment)])


def as_data(experiment: Experiment) -> dict[str, Any]:
    """Return the state for JSON output."""
    search = experiment.search
    return {
        "id": experiment.id, "name": experiment.name, "state": experiment.state,
        "progress": experiment.progress, "metric": search.metric, "costUsd": experiment.cost_usd,
        "rungs": [rung.length for rung in search.rungs], "waiting": waiting(experiment),
        "trials": [
            {
                "id": t.id, "state": t.state, "batches": t.batches, "latest": t.latest, "best": t.best,
                "restarts": t.restarts, "hparams": dict(t.hparams), "curve": [list(p) for p in t.curve],
            }
            for t in best_first(experiment.trials, search)
        ],
    }  # fmt: skip
