"""Turn the options of `det deploy aws up` and `gcp up`, and stored options, into a cluster configuration."""

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

# `up` stores the configuration, `--var` and these options for the next run. _POOLS configures the default pools.
_POOLS = (
    "compute_agent_instance_type", "aux_agent_instance_type", "spot", "min_dynamic_agents", "max_dynamic_agents",
    "max_idle_agent_period", "max_agent_starting_period", "max_aux_containers_per_agent",
)  # fmt: skip
# Options that override fields of a configuration.
_OVER_CONFIG = ("scheduler_type", "preemption_enabled", "cpu_env_image", "gpu_env_image")


# The option for each field of a pool's section.
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
    """Return the options of `up` without stored options. Raises UsageError."""
    options = argparse.Namespace(**vars(args))
    options.config = _read_mapping(args.master_config_path) if args.master_config_path else None
    if options.max_dynamic_agents is None:
        options.min_dynamic_agents = (
            None  # its maximum may be a stored option, so it is checked later
        )
    return options


def path_label(args: argparse.Namespace) -> Callable[[str], str]:
    """Return a function that names a configuration path as the user set it: by option for default pools."""
    has_pools = (getattr(args, "config", None) or {}).get("resource_pools")
    return str if has_pools else _option_of


def _option_of(path: str) -> str:
    match = _OF_A_POOL.fullmatch(path)
    if not match:
        return path
    if match[2] in ("instance_type", "instance_type.machine_type"):
        return _TYPES[int(match[1])]
    return _OF_BOTH_POOLS.get(match[2], path)


def with_stored(
    args: argparse.Namespace,
    config: dict[str, Any] | None,
    deployment: Deployment,
    pools: Sequence[str],
    more: Sequence[str],
) -> argparse.Namespace:
    """Return the options of `up`, completed with the options that the previous `up` of the cluster stored.

    `pools` names the cloud's options for the default pools, and `more` names its other options.
    Raises UsageError.
    """
    options = argparse.Namespace(**{**vars(args), "config": config})
    pool_options = (*_POOLS, *pools)
    rest = (*_OVER_CONFIG, *more, "config")
    stored = {} if args.forget_options else deployment.account.options(args.cluster_id)
    config_now = stored.get("config") if options.config is None else options.config
    ignored = _find_superseded_options(options)
    if (config_now or {}).get("resource_pools"):
        _check_pool_options(options, pool_options)
        ignored.update(pool_options)
    stored = {name: value for name, value in stored.items() if name not in ignored}
    names = [
        n
        for n in (*pool_options, *rest)
        if not _is_set(getattr(options, n)) and _is_set(stored.get(n))
    ]
    for name in names:
        setattr(options, name, stored[name])
    new_pairs = list(args.var or ())
    earlier = _still_declared(stored.get("var", ()), _names(new_pairs), stacks() / deployment.stack)
    options.var = earlier + new_pairs
    options.stored_vars = _names(earlier)
    reused = [f"--{n.replace('_', '-')}" for n in names] + [f"--var {pair}" for pair in earlier]
    if reused:
        say(
            f"Reusing options of the previous run: {', '.join(reused)} (--forget-options resets them)"
        )
    options.to_store = {n: getattr(options, n) for n in (*pool_options, *rest, "var")}
    return options


def _names(pairs: Sequence[str]) -> set[str]:
    return {pair.partition("=")[0] for pair in pairs}


def _still_declared(stored: Sequence[str], overrides: set[str], stack: Path) -> list[str]:
    """Return the stored `--var` pairs that are not overridden and that the stack still declares."""
    declared = stack_variables.declared_in(stack)
    pairs = []
    for pair in stored:
        name = pair.partition("=")[0]
        if name in overrides:
            continue
        if name in declared:
            pairs.append(pair)
        else:
            say(f"Ignored --var {pair} of the previous run: the stack has no such variable")
    return pairs


def with_stored_variables(
    args: argparse.Namespace, account: Account, names: Sequence[str]
) -> argparse.Namespace:
    """Return the options of a command, completed with the stored options that set stack variables."""
    stored = account.options(args.cluster_id)
    options = {name: stored[name] for name in (*names, "var") if stored.get(name)}
    return argparse.Namespace(**{**vars(args), **options})


def _is_set(value: Any) -> bool:
    """Return True if an option has a value. 0 is a value, although 0 == False."""
    return value is not None and value is not False and value != []


def _find_superseded_options(options: argparse.Namespace) -> set[str]:
    """Return the stored options that the given options make meaningless."""
    names: set[str] = set()
    if options.scheduler_type not in (None, "priority"):
        names.add("preemption_enabled")
    if _is_set(getattr(options, "preemptible", None)):
        names.add("spot")
    machine_type = options.compute_agent_instance_type
    if machine_type and not machine_type.startswith("n1-"):
        names.update(("gpu_type", "gpu_num"))
    return names


def _check_pool_options(args: argparse.Namespace, pool_options: Sequence[str]) -> None:
    options = [
        f"--{name.replace('_', '-')}" for name in pool_options if _is_set(getattr(args, name))
    ]
    if not options:
        return
    names = ", ".join(options)
    if args.config is None:
        raise UsageError(
            f"the stored configuration has its own pools: {names} cannot change them",
            "leave the options out, give --config with other resource_pools or none, or --forget-options",
        )
    raise UsageError(
        f"the configuration {args.master_config_path} has its own pools: {names} cannot change them",
        "set the values in resource_pools instead, or leave resource_pools out",
    )


def variables(args: argparse.Namespace) -> dict[str, Any]:
    """Return the stack variables from `--var`."""
    texts = pairs(getattr(args, "var", None), "--var", "NAME=VALUE")
    return {name: _value(name, text) for name, text in texts.items()}


def _value(name: str, text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as e:
        raise UsageError(
            f"--var {name}={text} is not valid YAML: {' '.join(str(e).split())}",
            "put quotes around text with brackets, braces or colons",
        ) from e


def pairs(words: Sequence[str] | None, option: str, form: str) -> dict[str, str]:
    """Return the pairs of a repeated KEY=VALUE option. Raises UsageError."""
    split = [pair.partition("=") for pair in words or ()]
    for name, equals, _ in split:
        if not (name and equals):
            raise UsageError(f"{option} {name} has no value", f"give {option} {form}")
    return {name: value for name, _, value in split}


def config(args: argparse.Namespace, pools: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the cluster's configuration. The pools are used if it has none."""
    result = dict(getattr(args, "config", None) or {})
    manager = dict(result.get("resource_manager") or {"type": "agent"})
    if not result.get("resource_pools"):
        result["resource_pools"] = pools
        manager["default_compute_resource_pool"] = "compute-pool"
        manager["default_aux_resource_pool"] = "aux-pool"
        result["resource_manager"] = manager
    scheduler = _scheduler(args)
    if scheduler:
        manager["scheduler"] = {**_scheduler_of(result, manager), **scheduler}
        result["resource_manager"] = manager
    images = _images(args)
    if images:
        defaults = dict(result.get("task_container_defaults") or {})
        result["task_container_defaults"] = {**defaults, "image": images}
    timeout_s = getattr(args, "notebook_timeout", None)
    if timeout_s == 0:
        result.pop("notebook_timeout", None)
    elif timeout_s is not None:
        result["notebook_timeout"] = timeout_s
    return result


def _scheduler_of(config: dict[str, Any], manager: dict[str, Any]) -> dict[str, Any]:
    """Return the scheduler section. Remove it from the top level and support its short form."""
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
    scheduler = {"type": kind} if kind else {}
    return {**scheduler, "preemption": False} if preempts == "false" else scheduler


def _images(args: argparse.Namespace) -> dict[str, str]:
    cpu, gpu = getattr(args, "cpu_env_image", None), getattr(args, "gpu_env_image", None)
    return {**({"cpu": cpu} if cpu else {}), **({"cuda": gpu} if gpu else {})}


def pools(
    args: argparse.Namespace, compute: dict[str, Any], aux: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the default pools of Determined: one for jobs with slots, one for zero-slot tasks."""
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


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _read_mapping(path: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(Path(path).read_text("utf-8"))
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror}", "--config names a file") from e
    except (UnicodeDecodeError, yaml.YAMLError) as e:
        raise UsageError(f"{path} is not valid YAML: {' '.join(str(e).split())}") from e
    if not isinstance(content, dict):
        raise UsageError(f"{path} must contain a cluster configuration, like master.yaml")
    return content
