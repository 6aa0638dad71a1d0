"""Compare an imported cluster with its source: counts, sums and samples."""

from collections.abc import Iterator
from dataclasses import dataclass

from det_controlplane.core.importing.ids import Ids
from det_controlplane.core.importing.options import parse_logs
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.importing import comparing, reading, target
from det_controlplane.db.importing.source import Source
from det_controlplane.db.importing.target import Target
from det_controlplane.services.errors import Invalid, Missing

_SAMPLES = 200


@dataclass(frozen=True, slots=True)
class Comparison:
    what: str
    there: str
    here: str
    equal: bool


def compare(source: Source, cluster: Target) -> list[Comparison]:
    """Compare all figures. Raises Missing if the source was never imported, Invalid if its import is not complete."""
    with cluster.read() as tx:
        name = source.cluster_id
        progress = target.find(tx, name)
        if progress is None:
            raise Missing(
                f"cluster {name} was not imported here: run `det import determined` first"
            )
        if not progress.ended:
            raise Invalid(
                f"the import of cluster {name} is not complete: run `det import determined` again to continue it"
            )
        ids = progress.ids
        with_logs = parse_logs(progress.logs).kind == "all"
        figures = list(_figures(source, tx, ids, with_logs))
        figures.append(_sample(source, tx, ids))
    return figures


def _figures(source: Source, tx: Tx, ids: Ids, with_logs: bool) -> Iterator[Comparison]:
    last = reading.largest_ids(source)
    for figure in comparing.FIGURES:
        if figure.of_logs and not with_logs:
            continue
        if figure.table and not source.has(figure.table):
            continue
        there = comparing.value_there(source, figure)
        here = comparing.value_here(tx, figure, ids, last)
        yield Comparison(figure.name, there, here, there == here)


def _sample(source: Source, tx: Tx, ids: Ids) -> Comparison:
    """Compare single reports of metrics, spread over all of them."""
    reports = comparing.sample_there(source, _SAMPLES)
    same = sum(comparing.is_stored(tx, ids, report) for report in reports)
    return Comparison("sampled reports", str(len(reports)), str(same), same == len(reports))
