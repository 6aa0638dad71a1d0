"""Read the rows of an export from the cluster, one page or stream at a time."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import quote

from determined.common.http import Session
from determined.experimental.client._metrics import reports

from det_cli.actions.experiment_settings import project_of
from det_cli.connection import pages
from det_cli.errors import MissingError, UsageError
from det_cli.exporting import rows
from det_cli.exporting.rows import Row

_TRIALS_A_STREAM = 100  # their ids are in the URL


@dataclass(frozen=True)
class Selection:
    """The experiments of an export: filters of the API, and the ids that the user named."""

    filters: dict[str, Any]
    ids: frozenset[int] = frozenset()

    @property
    def is_whole(self) -> bool:
        return not self.filters


def words_of(args: argparse.Namespace) -> str:
    """Return the options that select experiments, in the form that the manifest stores."""
    if args.all:
        return "--all"
    if args.project:
        return f"--project {args.project}"
    if not args.experiments:
        raise UsageError(
            "the export has no experiments",
            "give --all, --project WORKSPACE/PROJECT or --experiment ID",
        )
    words = ",".join(args.experiments).split(",")
    wrong = next((word for word in words if not (word.isascii() and word.isdigit())), None)
    if wrong is not None:
        raise UsageError(f"'{wrong}' is not the id of an experiment")
    return f"--experiment {','.join(map(str, sorted(set(map(int, words)))))}"


def select(session: Session, words: str) -> Selection:
    """Return the selection of these options. Raise an error if its project or an experiment does not exist."""
    option, _, value = words.partition(" ")
    if option == "--all":
        return Selection({})
    if option == "--project":
        workspace, _, name = value.partition("/")
        if not (workspace and name):
            raise UsageError(f"'{value}' is not a project: write WORKSPACE/PROJECT")
        return Selection({"projectId": project_of(session, workspace, name)["id"]})
    ids = [int(word) for word in value.split(",")]
    return Selection({"experimentIdFilter.incl": ids}, frozenset(ids))


def experiments(session: Session, selection: Selection, after: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the selected experiments with ids above `after`, by id, as the API returns them.

    Each page begins behind the last id, because an offset would skip experiments after a deletion."""
    while True:
        params = {
            **selection.filters,
            "sortBy": "SORT_BY_ID",
            "experimentIdFilter.gt": after or None,
        }
        page = list(pages(session, "/experiments", "experiments", params, one_page=True))
        if not page:
            return
        yield from page
        after = page[-1]["id"]


def require_all(session: Session, selection: Selection) -> None:
    """Raise MissingError if the user named an experiment that does not exist or is not visible."""
    if selection.ids:
        found = {e["id"] for e in experiments(session, selection)}
        if missing := sorted(selection.ids - found):
            raise MissingError(
                f"experiment {missing[0]} not found",
                "`det experiment list --all` lists the existing ones",
            )


def rows_of(session: Session, experiment: dict[str, Any]) -> Iterator[Row]:
    """Yield the rows of an experiment: itself, its trials, their checkpoints, and the metrics by trial and step."""
    yield rows.experiment(experiment)
    path = f"/experiments/{experiment['id']}"
    trial_ids = []
    for trial in pages(session, f"{path}/trials", "trials", {"sortBy": "SORT_BY_ID"}):
        trial_ids.append(trial["id"])
        yield rows.trial(trial)
    for checkpoint in pages(session, f"{path}/checkpoints", "checkpoints"):
        yield rows.checkpoint(checkpoint)
    ids = iter(trial_ids)
    while some := list(islice(ids, _TRIALS_A_STREAM)):
        for report in reports(session, some):
            yield from rows.metrics(experiment["id"], report)


def models(session: Session, selection: Selection, exported: Sequence[int]) -> Iterator[Row]:
    """Yield the models and versions. Without --all, these are the versions of the exported experiments."""
    experiment_ids = frozenset(exported)
    for model in pages(session, "/models", "models", {"sortBy": "SORT_BY_NAME"}):
        path = f"/models/{quote(model['name'], safe='')}/versions"
        versions = map(rows.model_version, pages(session, path, "modelVersions"))
        chosen = [v for v in versions if selection.is_whole or v.experiment_id in experiment_ids]
        if chosen or selection.is_whole:
            yield rows.model(model)
            yield from chosen
