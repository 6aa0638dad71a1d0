"""`det pool`: pools that are changed without a restart, and the access to them."""

import argparse
from typing import Any
from urllib.parse import quote

from det_cli import config_file
from det_cli.actions.machines import access_text
from det_cli.connection import V1, connect
from det_cli.errors import UsageError, require_change
from det_cli.prompts import confirm
from det_cli.render import Column, counted, print_object, print_yaml, say, show

_COLUMNS: tuple[Column, ...] = (
    ("Name", lambda p: p["name"]),
    ("Source", lambda p: p["source"]),
    ("Agents", lambda p: p["agents"]),
    ("Slots (used/total)", lambda p: f"{p['usedSlots']}/{p['slots']}"),
    ("Queued Jobs", lambda p: p["queuedJobs"]),
    ("Machines", lambda p: _machines(p)),
    ("$/hour", lambda p: f"{p['priceUsdHour']:.2f}" if "priceUsdHour" in p else None),
    ("Access", lambda p: access_text(p["access"])),
    ("State", lambda p: _state(p)),
)
_ACCESS: tuple[Column, ...] = (("Kind", lambda row: row[0]), ("Name", lambda row: row[1]))
# Options that are keys of the provider section.
_PROVIDER_OPTIONS = {
    "provider": "type", "region": "regions", "zone": "zones", "instance_type": "instance_types",
    "min_instances": "min_instances", "max_instances": "max_instances", "max_idle": "max_idle_agent_period",
}  # fmt: skip
_SIZES = ("min_instances", "max_instances", "max_idle_agent_period")


def list_(args: argparse.Namespace) -> None:
    session = connect(args)
    rented = {pool["name"]: pool for pool in session.get(f"{V1}/rented-pools")["pools"]}
    pools = [{**rented.get(p["name"], {}), **p} for p in session.get(f"{V1}/pools")["pools"]]
    show(args, _COLUMNS, pools)
    for pool in pools:
        if pool["problem"]:
            say(f"Pool {pool['name']} rents no machines: {pool['problem']}")
        if pool["ignoresEntry"] and not args.format:
            say(
                f"Pool {pool['name']} is in the database; its entry in the cluster configuration is ignored."
            )


def _machines(pool: dict[str, Any]) -> str | None:
    if pool["kind"] != "rented":
        return None
    return f"{pool.get('instances', 0)} ({pool['minInstances']}-{pool['maxInstances']})"


def _state(pool: dict[str, Any]) -> str:
    """Return whether a pool takes work and rents machines, with the causes why not."""
    causes = [(pool.get("hold") or {}).get("sentence"), pool.get("spentBudget")]
    if pool["problem"]:
        causes.append("its settings cannot be read")
    if pool["state"] == "leaving":
        causes.append("is deleted when its work has ended")
        if pool["agents"] and pool["kind"] == "static" and not pool.get("agentsTo"):
            causes.append(
                f"its agents need a pool: `det pool delete {pool['name']} --drain --agents-to POOL`"
            )
    return "; ".join(cause for cause in causes if cause) or "ready"


def describe(args: argparse.Namespace) -> None:
    pool = connect(args).get(_path(args.pool_name))["pool"]
    rented = pool.pop("rented") or {}
    print_object(args, {**rented, **pool})


def create(args: argparse.Namespace) -> None:
    settings = _settings(args)
    if args.pool_name:
        settings = {"pool_name": args.pool_name, **settings}
        if settings["pool_name"] != args.pool_name:
            raise UsageError(
                f"the file is about pool {settings['pool_name']}, not {args.pool_name}",
                "leave one of the names away",
            )
    if not settings.get("pool_name"):
        raise UsageError(
            "a pool needs a name", "give it as the argument or as pool_name in the file"
        )
    body = {"settings": settings, "validateOnly": args.dry_run}
    pool = connect(args).post(f"{V1}/pools", body)["pool"]
    if not _previewed(args, pool):
        say(f"Created pool {pool['name']}: {_summary(pool)}.")


def update(args: argparse.Namespace) -> None:
    session = connect(args)
    current = session.get(_path(args.pool_name))["pool"]["settings"] or {}
    changes = _settings(args, has_offers="offers" in current)
    earlier = dict(changes) if args.config else current
    for key in args.unset:
        _require_set(earlier, key)
        _put(changes, key, None)
    require_change(changes or args.replace_machines)
    body = {
        "settings": changes, "validateOnly": args.dry_run, "replaceMachines": args.replace_machines,
    }  # fmt: skip
    method = "PUT" if args.config else "PATCH"
    pool = session.request(method, _path(args.pool_name), body=body)["pool"]
    if _previewed(args, pool):
        return
    say(f"Changed pool {pool['name']}: {_summary(pool)}.")
    rented = (pool.get("rented") or {}).get("instances", 0)
    if rented and args.replace_machines:
        say(f"{counted(rented, 'machine')}: idle ones end now, busy ones after their work.")
    elif rented:
        say(
            f"{counted(rented, 'machine')} with the earlier settings: limits apply to them at once; new types,"
            " places and scripts apply to new machines (--replace-machines replaces them)."
        )


def delete(args: argparse.Namespace) -> None:
    session, name = connect(args), args.pool_name
    if args.cancel:
        session.post(f"{_path(name)}/keep")
        say(f"Pool {name} stays, and takes work again.")
        return
    confirm(f"Delete pool {name}?", yes=args.yes)
    params = {"drain": "true" if args.drain else None, "agentsTo": args.agents_to or None}
    is_gone = session.request("DELETE", _path(name), params=params)["completed"]
    if is_gone:
        say(f"Deleted pool {name}.")
    else:
        say(
            f"Pool {name} takes no new work. It is deleted when its queued and running work has ended."
        )
        say(f"`det pool delete {name} --cancel` keeps it.")


def adopt(args: argparse.Namespace) -> None:
    connect(args).post(f"{_path(args.pool_name)}/adopt")
    say(
        f"Pool {args.pool_name} is in the database now: `det pool update {args.pool_name}` changes it."
    )
    say(
        "Its entry in the cluster configuration is ignored from now on, also when the entry changes."
    )


def release(args: argparse.Namespace) -> None:
    connect(args).post(f"{_path(args.pool_name)}/release")
    say(f"Pool {args.pool_name} is as the cluster configuration has it.")


def set_default(args: argparse.Namespace) -> None:
    if not (args.compute or args.aux):
        raise UsageError("give --compute, --aux or both")
    body = {"compute": args.compute, "aux": args.aux}
    connect(args).request("PUT", f"{_path(args.pool_name)}/default", body=body)
    uses = " and ".join(use for use, is_meant in body.items() if is_meant)
    say(f"Pool {args.pool_name} is the default {uses} pool.")


def grant(args: argparse.Namespace) -> None:
    path = f"{_path(args.pool_name)}/access"
    access = connect(args).post(path, {"users": args.users, "groups": args.groups})["access"]
    say(f"Pool {args.pool_name} is {access_text(access)}.")


def revoke(args: argparse.Namespace) -> None:
    path = f"{_path(args.pool_name)}/access/revoke"
    access = connect(args).post(path, {"users": args.users, "groups": args.groups})["access"]
    say(f"Pool {args.pool_name} is {access_text(access)}. Queued and running work stays.")
    if not (access["users"] or access["groups"]):
        say(f"`det pool access open {args.pool_name}` opens it to everybody.")


def open_to_all(args: argparse.Namespace) -> None:
    connect(args).request("DELETE", f"{_path(args.pool_name)}/access")
    say(f"Everybody may use pool {args.pool_name}.")


def list_access(args: argparse.Namespace) -> None:
    access = connect(args).get(f"{_path(args.pool_name)}/access")["access"]
    rows = [
        *(("group", name) for name in access["groups"]),
        *(("user", name) for name in access["users"]),
    ]
    empty = (
        "only administrators may use this pool"
        if access["restricted"]
        else "everybody may use this pool"
    )
    show(args, _ACCESS, rows, access, empty=empty)


def _path(name: str) -> str:
    return f"{V1}/pools/{quote(name, safe='')}"


def _settings(args: argparse.Namespace, *, has_offers: bool = False) -> dict[str, Any]:
    """Return the settings of the file. Options replace its values.

    The sizes of a pool with offers stand beside the offers, and otherwise in the provider section."""
    text = config_file.read(args.config) if args.config else ""
    text = config_file.apply_changes(text, args.set, option="--set") if args.set else text
    settings = config_file.load(text, args.config or "the settings")
    if args.description is not None:
        settings["description"] = args.description
    has_offers = "offers" in settings or (has_offers and not args.config)
    for option, key in _PROVIDER_OPTIONS.items():
        value = getattr(args, option)
        if value is not None:
            _put(settings, key if has_offers and key in _SIZES else f"provider.{key}", value)
    if args.spot:
        _put(settings, "provider.spot", True)
    return settings


def _put(settings: dict[str, Any], dotted: str, value: Any) -> None:
    *parents, last = dotted.split(".")
    for part in parents:
        inner = settings.setdefault(part, {})
        if not isinstance(inner, dict):
            raise UsageError(f"{part} is not a mapping of fields, so {dotted} cannot be set")
        settings = inner
    settings[last] = value


def _require_set(settings: dict[str, Any], dotted: str) -> None:
    value: Any = settings
    for part in dotted.split("."):
        if not isinstance(value, dict) or part not in value:
            keys = ", ".join(key for key in settings if key != "pool_name") or "none"
            raise UsageError(f"--unset {dotted}: the pool has no such key", f"its keys are: {keys}")
        value = value[part]


def _previewed(args: argparse.Namespace, pool: dict[str, Any]) -> bool:
    """Print what --dry-run found, and the notices of the cluster. Return whether this was a dry run."""
    for notice in pool["notices"]:
        say(f"note: {notice}")
    if args.dry_run:
        print_yaml(pool["settings"])
        say("The settings are valid. Nothing was changed.")
    return bool(args.dry_run)


def _summary(pool: dict[str, Any]) -> str:
    if not pool["rented"]:
        return "agents join it with `--resource-pool`, or by `det agent move`"
    offers = counted(len(pool["rented"]["offers"]), "offer")
    return f"it rents up to {counted(pool['maxInstances'], 'machine')} from {offers}"
