"""Choose the checkpoints that an ended experiment keeps (docs/reference/experiment-config.md#checkpoint_storage)."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

_KINDS = ("cpu", "cuda", "rocm")
_COPIED_KEYS = ("image", "registry_auth", "force_pull_image", "det_token")
# Credentials, addresses, proxies and certificates that storage libraries read.
_STORAGE_VARIABLE = re.compile(
    r"(AWS|AZURE|GOOGLE|CLOUDSDK|GCS|S3)_\w+|(HTTPS?|NO|ALL)_PROXY|(REQUESTS|CURL|AWS)_CA_BUNDLE"
    r"|SSL_CERT_(FILE|DIR)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Policy:
    save_experiment_best: int = 0
    save_trial_best: int = 1
    save_trial_latest: int = 1

    def keeps_less_than(self, other: "Policy") -> bool:
        """Return whether this policy may delete a checkpoint that the other policy keeps."""
        return any(
            own < of_other for own, of_other in zip(astuple(self), astuple(other), strict=True)
        )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint. `metric` is the searcher metric of a validation at exactly this step, or None."""

    uuid: str
    trial_id: int
    steps_completed: int
    metric: float | None
    registered: bool = False  # it is a model version, or another trial starts from it


def policy_of(config: Mapping[str, Any]) -> Policy:
    """Return the policy of an experiment's configuration."""
    storage = config.get("checkpoint_storage") or {}
    return Policy(
        save_experiment_best=int(storage.get("save_experiment_best") or 0),
        save_trial_best=int(storage.get("save_trial_best", 1)),
        save_trial_latest=int(storage.get("save_trial_latest", 1)),
    )


def to_delete(
    checkpoints: Sequence[Checkpoint], policy: Policy, *, smaller_is_better: bool
) -> list[str]:
    """Return the checkpoints that no rule of the policy keeps, in the order of the input."""
    keep = {c.uuid for c in checkpoints if c.registered}
    best_first = _best_first(checkpoints, smaller_is_better)
    keep |= {c.uuid for c in best_first[: policy.save_experiment_best]}
    for of_trial in _by_trial(best_first).values():
        keep |= {c.uuid for c in of_trial[: policy.save_trial_best]}
    newest = sorted(checkpoints, key=lambda c: -c.steps_completed)
    for of_trial in _by_trial(newest).values():
        keep |= {c.uuid for c in of_trial[: policy.save_trial_latest]}
    return [c.uuid for c in checkpoints if c.uuid not in keep]


def _best_first(checkpoints: Iterable[Checkpoint], smaller_is_better: bool) -> list[Checkpoint]:
    sign = 1.0 if smaller_is_better else -1.0
    entries = [(sign * c.metric, c.steps_completed, c) for c in checkpoints if c.metric is not None]
    comparable = [entry for entry in entries if entry[0] == entry[0]]  # excludes NaN
    return [c for _, _, c in sorted(comparable, key=lambda entry: entry[:2])]


def _by_trial(checkpoints: Iterable[Checkpoint]) -> dict[int, list[Checkpoint]]:
    groups: dict[int, list[Checkpoint]] = defaultdict(list)
    for checkpoint in checkpoints:
        groups[checkpoint.trial_id].append(checkpoint)
    return groups


def environment(of_experiment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment of a task that deletes checkpoints: the image and the variables for the storage.

    Other variables, such as PYTHONPATH or LD_PRELOAD, could replace the program, which has the keys of the storage.
    The image is the experiment's: it contains the storage libraries, and the agents have already pulled it.
    """
    settings = {
        key: of_experiment[key] for key in _COPIED_KEYS if of_experiment.get(key) is not None
    }
    variables = of_experiment.get("environment_variables") or {}
    by_kind = variables if isinstance(variables, Mapping) else dict.fromkeys(_KINDS, variables)
    storage_variables = {kind: _of_storage(values) for kind, values in by_kind.items()}
    return {**settings, "environment_variables": storage_variables}


def _of_storage(variables: Sequence[str]) -> list[str]:
    return [v for v in variables if _STORAGE_VARIABLE.fullmatch(v.partition("=")[0])]
