"""Rebuild the searches of experiments that have not ended."""

from collections.abc import Mapping, Sequence
from typing import Any

from det_controlplane.core.importing import experiments as convert
from det_controlplane.core.importing.remarks import Remarks
from det_controlplane.core.importing.replay import OldTrial, OldValidation, Replay, rebuild
from det_controlplane.db.importing import reading
from det_controlplane.db.importing.reading import Row
from det_controlplane.db.importing.source import Source


def rebuilt(
    source: Source, row: Row, old_trials: Sequence[Row], config: Mapping[str, Any]
) -> Replay:
    """Rebuild the search of an experiment that continues here. Return an empty replay for any other experiment."""
    state = convert.experiment_state(row)
    if not state.live:
        return Replay()
    reports = reading.validations(source, [t["id"] for t in old_trials])
    return rebuild(
        config,
        convert.seed_of(config),
        [OldTrial(t["id"], convert.trial_state(t, state), t["hparams"]) for t in old_trials],
        [OldValidation(trial_id, metrics) for trial_id, metrics in reports],
    )


def remark(replay: Replay) -> str:
    """Return the remark about an experiment with a search that cannot be rebuilt."""
    return (
        f"moves as canceled, because {replay.problem}; each trial can be continued with"
        " `det trial continue old:ID`"
    )


def foresee(source: Source, rows: Sequence[Row]) -> tuple[list[int], Remarks]:
    """Return the experiments that move paused, and remarks about the ones that move as canceled."""
    paused, remarks = [], Remarks()
    for row in rows:
        old_trials = reading.trials(source, [row["id"]])
        replay = rebuilt(source, row, old_trials, convert.readable_config(row["config"]))
        if replay.problem:
            remarks.add(f"experiment {row['id']}", remark(replay))
        else:
            paused.append(row["id"])
    return paused, remarks
