"""Templates: keys that no configuration accepts are refused, and the problem names the template."""

from typing import Any

import pytest
from det_controlplane.core.config import fragment_problems, with_template_name
from det_controlplane.core.problems import Problem


@pytest.mark.parametrize(
    "template",
    [
        {},
        {"resources": {"slots": 2, "slots_per_trial": 8, "shm_size": "1g"}},
        {"searcher": {"metric": "loss"}, "checkpoint_storage": {"bucket": "of a storage of any type"}},
        {"idle_timeout": "1h", "tensorboard_args": ["--x"], "max_restarts": 1},
        {"environment": {"image": {"gpu": "of old"}}, "batches_per_step": 7},
        {"hyperparameters": {"any": {"key": 1}}, "data": {"any": 1}},
    ],
)  # fmt: skip
def test_template_accepts_parts_of_any_kind_of_configuration(template: dict[str, Any]) -> None:
    assert fragment_problems(template) == []


@pytest.mark.parametrize(
    ("template", "path", "said"),
    [
        ({"resurces": {"slots": 1}}, "resurces", "is unknown; did you mean 'resources'?"),
        ({"resources": {"slotz": 1}}, "resources.slotz", "did you mean 'slots'?"),
        (
            {"resources": {"slot_per_trial": 1}},
            "resources.slot_per_trial",
            "mean 'slots_per_trial'?",
        ),
        ({"notebook_idle_typ": "activity"}, "notebook_idle_typ", "mean 'notebook_idle_type'?"),
        (
            {"searcher": {"name": "random", "max_trails": 1}},
            "searcher.max_trails",
            "mean 'max_trials'?",
        ),
        ({"searcher": {"name": "randon"}}, "searcher.name", "must be one of"),
        (
            {"environment": {"environment_variables": [5]}},
            "environment.environment_variables[0]",
            "",
        ),
        ({"bind_mounts": [{"host": "/a"}]}, "bind_mounts[0].host", "mean 'host_path'?"),
        ({"a key.with dots": 1}, "a key.with dots", "is unknown"),
        ({"resources.slots": 1}, "resources.slots", "is unknown"),
        ({"max_restarts": "many"}, "max_restarts", "must be a whole number"),
    ],
)
def test_template_rejects_keys_that_no_configuration_accepts(
    template: dict[str, Any], path: str, said: str
) -> None:
    (problem,) = fragment_problems(template)
    assert problem.path == path
    assert said in problem.message


def test_problem_caused_only_by_the_template_names_it() -> None:
    template = {"resurces": {}, "resources": {"slots": -1, "weight": 0}, "batches_per_step": 0}
    config = {"resources": {"weight": 0}}
    paths = (
        "resurces",
        "resources.slots",
        "scheduling_unit",
        "resources.weight",
        "entrypoint",
        "",
    )
    told = with_template_name([Problem(p, "is wrong") for p in paths], config, template, "ours")
    of_template = [p.path for p in told if p.message == "is wrong (template 'ours' says so)"]
    assert of_template == ["resurces", "resources.slots", "scheduling_unit"]
