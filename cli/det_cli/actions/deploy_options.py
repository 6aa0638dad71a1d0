"""Read the options of `det deploy aws up` and `gcp up`, also those of the last time, as a cluster's configuration."""

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from det_cli.deployment import stack_variables
from det_cli.deployment.cluster import Account, Deployment
from det_cli.deployment.terraform import stacks
from det_cli.errors import UsageError
from det_cli.render import say

# What `up` keeps of a cluster for the next time, beside its configuration and `--var`: what the pools are made of,
_POOLS = (
    "compute_agent_instance_type", "aux_agent_instance_type", "spot", "min_dynamic_agents", "max_dynamic_agents",
    "max_idle_agent_period", "max_agent_starting_period", "max_aux_containers_per_agent",
)  # fmt: skip
# and what is laid over a configuration.
_OVER_CONFIG = ("scheduler_type", "preemption_enabled", "cpu_env_image", "gpu_env_image")


# The options that set a path in the section of a pool.
_OF_BOTH_POOLS = {
    "region": "--region", "zone": "--zone", "min_instances": "--min-dynamic-agents",
    "max_instances": "--max-dynamic-agents", "max_idle_agent_period": "--max-idle-agent-period",
    "max_agent_starting_period": "--max-agent-starting-period", "spot_max_price": "--spot-max-price",
    "max_aux_containers_per_agent": "--max-aux-containers-per-agent", "boot_disk_size": "--disk-size",
    "boot_disk_type": "--disk-type", "instance_type.gpu_type": "--gpu-type", "instance_type.gpu_num": "--gpu-num",
}  # fmt: skip
_TYPES = ("--compute-agent-instance-type", "--aux-agent-instance-type")
_OF_A_POOL = re.compile(r"resource_pools\[(\d)\]\.(?:provider\.)?(.+)")


def alone(args: argparse.Namespace) -> argparse.Namespace:
    """Return the options of `up` as they are without those of the last time. Raises UsageError."""
    given = argparse.Namespace(**vars(args))
    given.config = _mapping(args.master_config_path) if args.master_config_path else None
    if given.max_dynamic_agents is None:
        given.min_dynamic_agents = None  # whether it is too large, the last time's limit says
    return given


def path_named(args: argparse.Namespace) -> Callable[[str], str]:
    """Return what names a path of the configuration as it was given: by its option, where pools come from options."""
    has_pools = (getattr(args, "config", None) or {}).get("resource_pools")
    return str if has_pools else _option_of


def _option_of(path: str) -> str:
    found = _OF_A_POOL.fullmatch(path)
    if not found:
        return path
    if found[2] in ("instance_type", "instance_type.machine_type"):
        return _TYPES[int(found[1])]
    return _OF_BOTH_POOLS.get(found[2], path)


def as_last_time(
    args: argparse.Namespace,
    config: dict[str, Any] | None,
    deployment: Deployment,
    pools: Sequence[str],
    more: Sequence[str],
) -> argparse.Namespace:
    """Return the options of `up`, and of its last time for this cluster those that are not given now.

    `pools` and `more` are the cloud's own: what pools are made of, and the rest. Raises UsageError.
    """
    given = argparse.Namespace(**{**vars(args), "config": config})
    of_pools = (*_POOLS, *pools)
    rest = (*_OVER_CONFIG, *more, "config")
    kept = {} if args.forget_options else deployment.account.options(args.cluster_id)
    config_now = kept.get("config") if given.config is None else given.config
    without = _replaced_now(given)
    if (config_now or {}).get("resource_pools"):
        _refuse_beside_pools(given, of_pools)
        without.update(of_pools)
    kept = {name: value for name, value in kept.items() if name not in without}
    names = [
        n for n in (*of_pools, *rest) if not _is_given(getattr(given, n)) and _is_given(kept.get(n))
    ]
    for name in names:
        setattr(given, name, kept[name])
    now = list(args.var or ())
    earlier = _still_declared(kept.get("var", ()), _names(now), stacks() / deployment.stack)
    given.var = earlier + now
    given.kept_vars = _names(earlier)
    told = [f"--{n.replace('_', '-')}" for n in names] + [f"--var {pair}" for pair in earlier]
    if told:
        say(f"As the last time: {', '.join(told)} (--forget-options goes back to the defaults)")
    given.kept = {n: getattr(given, n) for n in (*of_pools, *rest, "var")}
    return given


def _names(given: Sequence[str]) -> set[str]:
    return {pair.partition("=")[0] for pair in given}


def _still_declared(kept: Sequence[str], set_now: set[str], stack: Path) -> list[str]:
    """Return the `--var` pairs of the last time that are not given now and whose variables the stack still has."""
    declared = stack_variables.declared_in(stack)
    found = []
    for pair in kept:
        name = pair.partition("=")[0]
        if name in set_now:
            continue
        if name in declared:
            found.append(pair)
        else:
            say(f"Left out --var {pair} of the last time: the stack has no such variable")
    return found


def of_last_time(
    args: argparse.Namespace, account: Account, names: Sequence[str]
) -> argparse.Namespace:
    """Return the options of a command that changes a cluster as it was made, with what sets variables of its stack."""
    kept = account.options(args.cluster_id)
    found = {name: kept[name] for name in (*names, "var") if kept.get(name)}
    return argparse.Namespace(**{**vars(args), **found})


def _is_given(value: Any) -> bool:
    """Return whether an option has a value; 0 is one, and equal to False."""
    return value is not None and value is not False and value != []


def _replaced_now(given: argparse.Namespace) -> set[str]:
    """Return the options of the last time that mean nothing beside one that is given now."""
    found: set[str] = set()
    if given.scheduler_type not in (None, "priority"):
        found.add("preemption_enabled")
    if _is_given(getattr(given, "preemptible", None)):
        found.add("spot")
    machine_type = given.compute_agent_instance_type
    if machine_type and not machine_type.startswith("n1-"):
        found.update(("gpu_type", "gpu_num"))
    return found


def _refuse_beside_pools(args: argparse.Namespace, of_pools: Sequence[str]) -> None:
    given = [f"--{name.replace('_', '-')}" for name in of_pools if _is_given(getattr(args, name))]
    if not given:
        return
    options = ", ".join(given)
    if args.config is None:
        raise UsageError(
            f"the configuration of the last time has pools of its own: {options} cannot change them",
            "leave the options out, give --config with other resource_pools or none, or --forget-options",
        )
    raise UsageError(
        f"the configuration {args.master_config_path} has pools of its own: {options} cannot change them",
        "leave the options out and write it into resource_pools, or leave resource_pools out",
    )


def variables(args: argparse.Namespace) -> dict[str, Any]:
    """Return the variables that `--var` sets."""
    found = pairs(getattr(args, "var", None), "--var", "NAME=VALUE")
    return {name: _value(name, text) for name, text in found.items()}


def _value(name: str, text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as e:
        raise UsageError(
            f"--var {name}={text} is no YAML: {' '.join(str(e).split())}",
            "put quotes around a text with brackets, braces or colons",
        ) from e


def pairs(given: Sequence[str] | None, option: str, form: str) -> dict[str, str]:
    """Return the pairs of a repeated option KEY=VALUE. Raises UsageError."""
    split = [pair.partition("=") for pair in given or ()]
    for name, equals, _ in split:
        if not (name and equals):
            raise UsageError(f"{option} {name} has no value", f"give {option} {form}")
    return {name: value for name, _, value in split}


def config(args: argparse.Namespace, pools: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the cluster's configuration, with these pools where it has none."""
    found = dict(getattr(args, "config", None) or {})
    manager = dict(found.get("resource_manager") or {"type": "agent"})
    if not found.get("resource_pools"):
        found["resource_pools"] = pools
        manager["default_compute_resource_pool"] = "compute-pool"
        manager["default_aux_resource_pool"] = "aux-pool"
        found["resource_manager"] = manager
    scheduler = _scheduler(args)
    if scheduler:
        manager["scheduler"] = {**_scheduler_of(found, manager), **scheduler}
        found["resource_manager"] = manager
    images = _images(args)
    if images:
        defaults = dict(found.get("task_container_defaults") or {})
        found["task_container_defaults"] = {**defaults, "image": images}
    timeout_s = getattr(args, "notebook_timeout", None)
    if timeout_s == 0:
        found.pop("notebook_timeout", None)
    elif timeout_s is not None:
        found["notebook_timeout"] = timeout_s
    return found


def _scheduler_of(config: dict[str, Any], manager: dict[str, Any]) -> dict[str, Any]:
    """Take the scheduler out of a configuration, also where it stands at the top or in its short form."""
    at_top = config.pop("scheduler", None) or {}
    short = {name: config[name] for name in ("preemption", "default_priority") if name in config}
    return dict(manager.get("scheduler") or at_top or short)


def _scheduler(args: argparse.Namespace) -> dict[str, Any]:
    kind, preempts = (
        getattr(args, "scheduler_type", None),
        getattr(args, "preemption_enabled", None),
    )
    if preempts == "true" and kind not in (None, "priority"):
        raise UsageError(
            f"--preemption-enabled has no meaning for --scheduler-type {kind}",
            "leave it out, or give --scheduler-type priority",
        )
    if preempts == "true":
        return {"type": "priority", "preemption": True}
    found = {"type": kind} if kind else {}
    return {**found, "preemption": False} if preempts == "false" else found


def _images(args: argparse.Namespace) -> dict[str, str]:
    cpu, gpu = getattr(args, "cpu_env_image", None), getattr(args, "gpu_env_image", None)
    return {**({"cpu": cpu} if cpu else {}), **({"cuda": gpu} if gpu else {})}


def pools(
    args: argparse.Namespace, compute: dict[str, Any], aux: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the pools that Determined's commands make: one for work with slots, one for work without."""
    limits = {
        "min_instances": getattr(args, "min_dynamic_agents", None) or 0,
        "max_instances": _or(getattr(args, "max_dynamic_agents", None), 5),
        "max_idle_agent_period": getattr(args, "max_idle_agent_period", None) or "10m",
        "max_agent_starting_period": getattr(args, "max_agent_starting_period", None) or "20m",
    }
    return [
        {
            "pool_name": "compute-pool",
            "max_aux_containers_per_agent": 0,
            "provider": {**compute, **limits},
        },
        {
            "pool_name": "aux-pool",
            "max_aux_containers_per_agent": _or(
                getattr(args, "max_aux_containers_per_agent", None), 16
            ),
            "provider": {**aux, **limits},
        },
    ]


def _or(given: int | None, default: int) -> int:
    return default if given is None else given


def _mapping(path: str) -> dict[str, Any]:
    try:
        read = yaml.safe_load(Path(path).read_text("utf-8"))
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror}", "--config names a file") from e
    except (UnicodeDecodeError, yaml.YAMLError) as e:
        raise UsageError(f"{path} is no YAML: {' '.join(str(e).split())}") from e
    if not isinstance(read, dict):
        raise UsageError(f"{path} must hold the configuration of a cluster, as master.yaml does")
    return read
