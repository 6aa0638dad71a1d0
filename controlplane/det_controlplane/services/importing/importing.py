"""Import a Determined cluster: people first, then experiments in batches, then models.

Each step and each batch is one transaction, which also notes how far the import is. An import that was interrupted
continues after its last transaction when it is started again."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from det_controlplane.core.importing.ids import Ids, is_name
from det_controlplane.core.importing.options import Options, parse_logs
from det_controlplane.core.importing.remarks import Remarks
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.errors import Unstorable, Violated
from det_controlplane.db.importing import dictionary, reading, target
from det_controlplane.db.importing.source import Source
from det_controlplane.db.importing.target import Target
from det_controlplane.services.errors import Invalid
from det_controlplane.services.importing import plan
from det_controlplane.services.importing.cluster import ClusterImport, choose_ids
from det_controlplane.services.importing.experiments import Counts, ExperimentImport

# A batch has at most as many trials, unless one experiment has more.
_TRIALS, _EXPERIMENTS = 500, 100
UNKNOWN = "unknown to this version, does not move"
# Without an index on metrics by trial, each batch reads all metrics: there are few batches then.
_BATCHES_WITHOUT_INDEX = 10


@dataclass(frozen=True, slots=True)
class Report:
    """The progress of an import."""

    done: int  # experiments, also of earlier runs
    all: int
    counts: Counts


@dataclass(slots=True)
class Result:
    ids: Ids
    title: str  # of the import, in references such as old:NAME/17
    counts: Counts = field(default_factory=Counts)
    remarks: Remarks = field(default_factory=Remarks)
    was_complete: bool = False  # an earlier run had imported everything
    remaining: int = 0  # experiments, if the run was stopped


def run(
    source: Source,
    cluster: Target,
    options: Options,
    now: Callable[[], datetime],
    report: Callable[[Report], None],
    may_continue: Callable[[], bool] = lambda: True,
) -> Result:
    """Import a cluster, or continue its import. Raises Invalid if rows do not fit, and errors of either database.

    `may_continue` is called between batches. If it returns False, the result has remaining experiments."""
    name = source.cluster_id
    progress = _begin(source, cluster, name, options)
    result = Result(progress.ids, progress.title, remarks=Remarks.from_json(progress.remarks))
    if progress.ended:
        result.was_complete = True
        return result
    options = replace(options, logs=parse_logs(progress.logs))
    if not progress.people:
        with cluster.begin() as tx:
            for name in dictionary.unknown(source.catalog):
                result.remarks.add(name, UNKNOWN)
            for text in plan.absent(source):
                result.remarks.add("", text)
            ClusterImport(source, tx, result.ids, result.remarks, now()).import_people()
            target.advance(tx, progress.id, people=True, remarks=result.remarks.to_json())
    _import_experiments(source, cluster, progress, options, now, report, may_continue, result)
    if result.remaining:
        return result
    with cluster.begin() as tx:
        ClusterImport(source, tx, result.ids, result.remarks, now()).import_models()
        target.end(tx, progress.id, remarks=result.remarks.to_json())
    return result


def _begin(source: Source, cluster: Target, name: str, options: Options) -> target.Progress:
    """Find the import of a cluster, or begin it."""
    with cluster.begin() as tx:
        progress = target.find(tx, name)
        if progress is None:
            _check_name(options.name, target.every(tx))
            ids = choose_ids(source, tx, options)
            last = reading.largest_ids(source)
            target.begin(tx, name, ids, last, str(options.logs), options.name)
        else:
            _continue(tx, progress, options)
        progress = target.find(tx, name)
    assert progress is not None
    return progress


def _continue(tx: Tx, progress: target.Progress, options: Options) -> None:
    """Set a new name. Raises Invalid if the ids would have to change."""
    offset = progress.offsets["experiments"]
    if options.id_offset > offset:
        raise Invalid(
            f"--id-offset {options.id_offset}: this import has begun with {offset}, which cannot change; leave it out"
        )
    if options.name and options.name != progress.name:
        _check_name(options.name, target.every(tx))
        target.advance(tx, progress.id, name=options.name)


def _check_name(name: str, imports: Sequence[target.Progress]) -> None:
    if name and not is_name(name):
        raise Invalid(f"--name {name}: give letters, digits, '.', '_' and '-', and not only digits")
    if name and name in {each.name for each in imports}:
        raise Invalid(f"--name {name}: another import has this name")


def _import_experiments(
    source: Source, cluster: Target, progress: target.Progress, options: Options, now: Callable[[], datetime],
    report: Callable[[Report], None], may_continue: Callable[[], bool], result: Result,
) -> None:  # fmt: skip
    everything = reading.experiment_ids(source, 0)
    pending = [each for each in everything if each[0] > progress.experiment]
    step = ExperimentImport(source, result.ids, options, result.remarks, now(), result.counts)
    done = len(everything) - len(pending)
    report(Report(done, len(everything), result.counts))
    last = progress.experiment
    for ids in _batches(pending, indexed=source.finds_metrics_by_trial()):
        try:
            with cluster.begin() as tx:
                target.require_progress(tx, progress, last)
                step.run(tx, ids)
                target.advance(
                    tx, progress.id, experiment=ids[-1], remarks=result.remarks.to_json()
                )
        except (Violated, Unstorable) as e:
            raise Invalid(
                f"one of the experiments {ids[0]} to {ids[-1]} cannot be stored: {e}; none of them was imported,"
                " the experiments before them were; correct the row in a copy of the database and start again"
            ) from e
        last = ids[-1]
        done += len(ids)
        report(Report(done, len(everything), result.counts))
        if done < len(everything) and not may_continue():
            result.remaining = len(everything) - done
            return


def _batches(experiments: Sequence[tuple[int, int]], *, indexed: bool) -> Iterator[list[int]]:
    trials = _TRIALS
    most = _EXPERIMENTS
    if not indexed:
        trials = max(trials, sum(count for _, count in experiments) // _BATCHES_WITHOUT_INDEX)
        most = max(most, len(experiments) // _BATCHES_WITHOUT_INDEX)
    batch: list[int] = []
    size = 0
    for id, count in experiments:
        if batch and (size + count > trials or len(batch) >= most):
            yield batch
            batch, size = [], 0
        batch.append(id)
        size += count
    if batch:
        yield batch
