"""The models of bodies and queries about experiments."""

from dataclasses import dataclass, field
from typing import Any

from det_controlplane.api.listing import ListQuery, OwnerQuery, filters_of, known_states
from det_controlplane.api.model_definitions import FileBody
from det_controlplane.core.filters import WORK_STATES
from det_controlplane.services.experiments.editing import Changes


@dataclass(frozen=True)
class NewExperiment:
    config: str
    model_definition: list[FileBody] = field(default_factory=list)
    context_id: str = ""
    activate: bool = False
    template: str = ""
    project_id: int = 0
    parent_id: int = 0
    unmanaged: bool = False
    validate_only: bool = False


@dataclass(frozen=True)
class ResourcesBody:
    priority: int | None = None
    max_slots: int | None = None
    weight: float | None = None
    deadline: str | None = None

    def values(self) -> dict[str, Any]:
        columns = {
            "priority": self.priority,
            "max_slots": self.max_slots,
            "weight": self.weight,
            "deadline": self.deadline,
        }
        return {name: value for name, value in columns.items() if value is not None}


@dataclass(frozen=True)
class RetentionBody:
    save_experiment_best: int | None = None
    save_trial_best: int | None = None
    save_trial_latest: int | None = None

    def values(self) -> dict[str, int]:
        policy = {
            "save_experiment_best": self.save_experiment_best,
            "save_trial_best": self.save_trial_best,
            "save_trial_latest": self.save_trial_latest,
        }
        return {name: value for name, value in policy.items() if value is not None}


@dataclass(frozen=True)
class ExperimentBody:
    name: str | None = None
    description: str | None = None
    notes: str | None = None
    labels: list[str] | None = field(default=None, metadata={"null": []})
    resources: ResourcesBody = ResourcesBody()
    checkpoint_storage: RetentionBody = RetentionBody()

    def changes(self) -> Changes:
        texts = {"name": self.name, "description": self.description, "notes": self.notes}
        return Changes(
            {name: text for name, text in texts.items() if text is not None},
            self.labels,
            self.resources.values(),
            self.checkpoint_storage.values(),
        )


@dataclass(frozen=True)
class Continuation:
    id: int = 0
    override_config: str = ""
    validate_only: bool = False


@dataclass(frozen=True)
class ExperimentMove:
    destination_project_id: int = 0


@dataclass(frozen=True)
class ExperimentQuery(OwnerQuery):
    description: str = ""
    labels: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    project_id: int = 0
    ids: list[int] = field(default_factory=list, metadata={"name": "experimentIdFilter.incl"})
    other_ids: list[int] = field(
        default_factory=list, metadata={"name": "experimentIdFilter.notIn"}
    )
    id_lt: int = field(default=0, metadata={"name": "experimentIdFilter.lt"})
    id_lte: int = field(default=0, metadata={"name": "experimentIdFilter.lte"})
    id_gt: int = field(default=0, metadata={"name": "experimentIdFilter.gt"})
    id_gte: int = field(default=0, metadata={"name": "experimentIdFilter.gte"})

    def filters(self) -> dict[str, Any]:
        own = filters_of(
            description=self.description,
            labels=self.labels,
            states=known_states(self.states, WORK_STATES),
            project_id=self.project_id or None,
            id_in=self.ids,
            id_not_in=self.other_ids,
            id_lt=self.id_lt or None,
            id_lte=self.id_lte or None,
            id_gt=self.id_gt or None,
            id_gte=self.id_gte or None,
        )
        return super().filters() | own


@dataclass(frozen=True)
class SearchQuery:
    whole: bool = False


@dataclass(frozen=True)
class TrialQuery(ListQuery):
    states: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class LabelQuery:
    project_id: int = 0
