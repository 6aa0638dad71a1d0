"""Convert configurations for versions 0.12 to 0.38 to the current form.

See docs/reference/experiment-config.md#older-forms."""

from collections.abc import Callable, Mapping
from typing import Any

from det_controlplane.core.config.host_paths import device_of_text
from det_controlplane.core.config.layers import without_nulls

_STEP_BATCHES = 100
_SLOT_KINDS = ("cpu", "cuda", "rocm")
_IGNORED = {
    "data_layer": "is ignored since 0.19; load data in your code",
    "security": "is ignored; set up security in the cluster configuration",
    "tensorboard_storage": "is ignored; TensorBoard files go to checkpoint_storage",
}
_FOR_OTHER_SYSTEMS = {
    "environment.pod_spec": "has no effect: this cluster runs containers without Kubernetes. Use bind_mounts,"
    " environment.environment_variables and resources instead",
    "slurm": "has no effect: this cluster has its own scheduler. Use resources instead",
    "pbs": "has no effect: this cluster has its own scheduler. Use resources instead",
}
_STEPS_OF_SEARCHERS = (
    ("max_steps", "max_length"),
    ("target_trial_steps", "max_length"),
    ("steps_per_round", "length_per_round"),
)
_IGNORED_STORAGE = ("container_path", "checkpoint_path", "tensorboard_path")
_INSTEAD_OF_PATHS = {
    "shared_fs": "use host_path and storage_path",
    "directory": "use container_path",
    "azure": "checkpoints lie in the container by their UUID",
}

Section = dict[str, Any]


class _Shim:
    """A configuration that is being converted, and the warnings for its author."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.config: Section = dict(without_nulls(dict(raw)))
        self.warnings: list[str] = []
        step_size = self.config.get("batches_per_step", self.config.get("scheduling_unit"))
        self.step = _count(step_size) or _STEP_BATCHES

    def section(self, key: str, parent: Section | None = None) -> Section | None:
        """Replace the section with a copy and return the copy. Return None if the value is not an object."""
        holder = self.config if parent is None else parent
        if not isinstance(holder.get(key), dict):
            return None
        holder[key] = copy = dict(holder[key])
        return copy

    def warn(self, path: str, message: str) -> None:
        self.warnings.append(f"{path} {message}")

    def rename(self, holder: Section, old: str, new: str, where: str = "") -> None:
        if old in holder:
            value = holder.pop(old)
            holder.setdefault(new, value)
            self.warn(f"{where}{old}", f"is now called {new}")


def shim(raw: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the document in the current form without nulls, and warnings about deprecated parts."""
    work = _Shim(raw)
    for change in _CHANGES:
        change(work)
    return work.config, work.warnings


def _drop_ignored(work: _Shim) -> None:
    for key, message in _IGNORED.items():
        if work.config.pop(key, None) is not None:
            work.warn(key, message)
    resources = work.section("resources")
    if resources is not None and resources.pop("agent_label", None) is not None:
        work.warn("resources.agent_label", "is ignored since 0.20; use resources.resource_pool")


def _warn_about_other_systems(work: _Shim) -> None:
    """Warn about settings for Kubernetes and HPC schedulers. The configuration keeps them, as version 0.38.1 does."""
    for path, message in _FOR_OTHER_SYSTEMS.items():
        value: Any = work.config
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value:
            work.warn(path, message)


def _rename_steps(work: _Shim) -> None:
    work.rename(work.config, "batches_per_step", "scheduling_unit")


def _periods_in_steps(work: _Shim) -> None:
    for key in ("min_validation_period", "min_checkpoint_period"):
        steps = _count(work.config.get(key))
        if steps is not None:
            work.config[key] = {"batches": steps * work.step}
            work.warn(key, f"counts steps; now written {{batches: {steps * work.step}}}")


def _searcher_in_steps(work: _Shim) -> None:
    searcher = work.section("searcher")
    if searcher is None:
        return
    for old, new in _STEPS_OF_SEARCHERS:
        if old not in searcher:
            continue
        value = searcher.pop(old)
        steps = _count(value)
        batches = (
            value if steps is None else steps * work.step
        )  # `max_length` reports a wrong value
        searcher.setdefault(new, {"batches": batches})
        work.warn(f"searcher.{old}", f"is now searcher.{new}: {{batches: {batches}}}")
    if searcher.get("stop_once") is not None and "max_time" in searcher:
        work.warn("searcher.stop_once", "has no effect with time_metric and max_time")
    if "max_length" in searcher and "max_time" in searcher:
        work.warn("searcher.max_length", "does not decide anything with time_metric and max_time")


def _image(work: _Shim) -> None:
    environment = work.section("environment")
    if environment is None:
        return
    image = environment.get("image")
    if isinstance(image, str):
        environment["image"] = dict.fromkeys(_SLOT_KINDS, image)
    elif (images := work.section("image", environment)) is not None:
        work.rename(images, "gpu", "cuda", "environment.image.")


def _variables(work: _Shim) -> None:
    environment = work.section("environment")
    if environment is None:
        return
    entries = environment.get("environment_variables")
    if isinstance(entries, list | tuple):
        environment["environment_variables"] = {kind: list(entries) for kind in _SLOT_KINDS}
    elif (by_kind := work.section("environment_variables", environment)) is not None:
        work.rename(by_kind, "gpu", "cuda", "environment.environment_variables.")


def _storage(work: _Shim) -> None:
    storage = work.section("checkpoint_storage")
    if storage is None:
        return
    kind = storage.get("type")
    instead = _INSTEAD_OF_PATHS.get(kind, "use prefix") if isinstance(kind, str) else ""
    for key in _IGNORED_STORAGE if instead else ():
        if (kind, key) != ("directory", "container_path") and storage.pop(key, None) is not None:
            work.warn(f"checkpoint_storage.{key}", f"is ignored; {instead}")


def _devices(work: _Shim) -> None:
    """Convert devices from text to objects, so that they can be merged by path."""
    resources = work.section("resources")
    devices = resources.get("devices") if resources is not None else None
    if resources is not None and isinstance(devices, list | tuple):
        resources["devices"] = [_device(device) for device in devices]


def _device(device: Any) -> Any:
    try:
        return device_of_text(device) if isinstance(device, str) else device
    except ValueError:
        return device  # the check of `resources` reports the error


def _log_policies(work: _Shim) -> None:
    policies = work.config.get("log_policies")
    if not isinstance(policies, list | tuple):
        return
    work.config["log_policies"] = [_log_policy(policy) for policy in policies]


def _log_policy(policy: Any) -> Any:
    if not isinstance(policy, dict) or not isinstance(policy.get("action"), dict):
        return without_nulls(policy)
    action = policy["action"]
    return (
        without_nulls({**policy, "action": action["type"]}) if list(action) == ["type"] else policy
    )


def _optimizations(work: _Shim) -> None:
    if work.config.get("optimizations"):
        work.warn("optimizations", "is deprecated; configure these in your training code")


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None


_CHANGES: tuple[Callable[[_Shim], None], ...] = (
    _drop_ignored,
    _warn_about_other_systems,
    _periods_in_steps,
    _searcher_in_steps,
    _rename_steps,
    _image,
    _variables,
    _storage,
    _devices,
    _log_policies,
    _optimizations,
)
