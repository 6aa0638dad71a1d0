"""`det instance`, `det resource-pool`, and the commands of `det pool` about rented machines."""

import argparse
from collections.abc import Iterator
from typing import Any

from det_cli.connection import V1, connect, pages
from det_cli.prompts import confirm
from det_cli.render import Column, counted, local_time, print_object, say, show

_COLUMNS: tuple[Column, ...] = (
    ("ID", lambda i: i["id"]),
    ("Pool", lambda i: i["pool"]),
    ("State", lambda i: i["state"]),
    ("Offer", lambda i: _offer(i)),
    ("Slots", lambda i: i["slots"]),
    ("$/hour", lambda i: f"{i['priceUsdHour']:.3f}"),
    ("Cost $", lambda i: f"{i['costUsd']:.2f}"),
    ("Cloud ID", lambda i: i["cloudId"]),
    ("Agent ID", lambda i: i["agentId"]),
    ("Requested", lambda i: local_time(i["requestedAt"])),
    ("Reason", lambda i: i["reason"]),
)
# Codes of reasons that mean that a machine for the job is already being started.
_ON_THE_WAY = ("LAUNCHING", "MACHINE_STARTING")


def _offer(offer: dict[str, Any]) -> str:
    place = offer["zone"] or offer["region"]
    return f"{offer['provider']} {place} {offer['machineType']} {offer['capacity']}"


def list_(args: argparse.Namespace) -> None:
    params = {"all": "true" if args.all else None, "pool": args.pool or None}
    why = (
        "no machine is rented" if args.all else "no machine is rented now; --all shows earlier ones"
    )
    show(args, _COLUMNS, pages(connect(args), "/instances", "instances", params), empty=why)


def describe(args: argparse.Namespace) -> None:
    machine = connect(args).get(f"{V1}/instances/{args.instance_id}")["instance"]
    if args.format:
        print_object(args, machine)
        return
    console = machine.pop("console")
    print_object(args, machine)
    if console:
        # Print a readable YAML block. PyYAML would fold lines and escape line ends.
        print("console: |")
        for line in console.splitlines():
            print(f"  {line}".rstrip())
    elif not machine["agentId"]:
        say(
            "If a machine never joins, administrators and agent operators can see its console output."
        )


def terminate(args: argparse.Namespace) -> None:
    confirm(f"Terminate machine {args.instance_id}?", yes=args.yes)
    connect(args).post(f"{V1}/instances/{args.instance_id}/terminate")
    say(f"Terminating {args.instance_id}; `det instance list` shows its state.")


def hold(args: argparse.Namespace) -> None:
    path = f"{V1}/rented-pools/{args.pool_name}/hold"
    connect(args).post(path, {"reason": args.reason})
    say(f"Pool {args.pool_name} launches no machines until `det pool resume {args.pool_name}`.")


def resume(args: argparse.Namespace) -> None:
    pool = connect(args).post(f"{V1}/rented-pools/{args.pool_name}/resume", {})["pool"]
    problem = pool.get("spentBudget")
    if problem:
        say(f"Pool {args.pool_name} is no longer held, but launches no machines yet: {problem}")
    else:
        say(f"Pool {args.pool_name} launches machines again.")


def why(args: argparse.Namespace) -> None:
    pool = _pool(args)
    if args.format:
        print_object(args, pool)
        return
    lines = [*_limits(pool), *_refusals(pool), *_prices(pool)]
    for line in lines:
        print(line)
    if not lines and all(reason["code"] in _ON_THE_WAY for reason in pool["waiting"]):
        print(f"Pool {pool['name']} can launch machines.")
    if pool.get("warm"):
        print(f"Warm machines: {pool['warm']['reason']}.")
    if not pool["queued"]:
        print("No job waits for machines.")
    for reason in pool["waiting"]:
        subject = (
            "1 allocation" if reason["allocations"] == 1 else f"{reason['allocations']} allocations"
        )
        print(f"{subject} (slots: {reason['slots']}): {reason['sentence']}")


def _limits(pool: dict[str, Any]) -> Iterator[str]:
    name, cost, max_cost = pool["name"], pool["priceUsdHour"], pool["maxHourlyCost"]
    if pool["hold"]:
        until = pool["hold"].get("until")
        retry = f" (next try {local_time(until)})" if until else ""
        yield f"Pool {name} launches no machines: {pool['hold']['sentence']}{retry}"
        yield f"`det pool resume {name}` resumes launches{' now' if until else ''}."
    if pool.get("spentBudget"):
        yield f"Pool {name} launches no machines: {pool['spentBudget']}"
    if pool["instances"] >= pool["maxInstances"]:
        yield f"Pool {name} has reached its max_instances of {counted(pool['maxInstances'], 'machine')}."
    cheapest = min((offer["priceUsdHour"] for offer in pool["offers"]), default=0)
    if max_cost is not None and cost + cheapest > max_cost:
        yield f"Pool {name} costs ${cost:.2f} per hour; its max_hourly_cost is ${max_cost:.2f}."


def _refusals(pool: dict[str, Any]) -> Iterator[str]:
    for cooldown in pool["cooldowns"]:
        if cooldown["until"] is None:
            next_step = f"correct it, then `det pool resume {pool['name']}`"
        else:
            next_step = f"next try {local_time(cooldown['until'])}"
        yield f"{_scope(cooldown)}: {cooldown['sentence']} ({next_step})"


def _prices(pool: dict[str, Any]) -> Iterator[str]:
    for problem in pool.get("priceProblems", ()):
        place = f"{problem['provider']} {problem['region']}"
        yield f"{place}: using the price list of {pool['priceListOf']}, because {problem['problem']}"


def _scope(cooldown: dict[str, Any]) -> str:
    names = ("provider", "region", "zone", "machineType", "capacity")
    return " ".join(cooldown[name] for name in names if cooldown[name])


def _pool(args: argparse.Namespace) -> dict[str, Any]:
    pool: dict[str, Any] = connect(args).get(f"{V1}/rented-pools/{args.pool_name}")["pool"]
    return pool


_RESOURCE_POOL_COLUMNS: tuple[Column, ...] = (
    ("Name", lambda p: p["name"]),
    ("Type", lambda p: (p.get("type") or "").removeprefix("RESOURCE_POOL_TYPE_").lower()),
    ("Scheduler", lambda p: (p.get("schedulerType") or "").removeprefix("SCHEDULER_TYPE_").lower()),
    ("Agents", lambda p: p["numAgents"]),
    ("Slots (used/available)", lambda p: f"{p['slotsUsed']}/{p['slotsAvailable']}"),
    ("Slot Type", lambda p: (p.get("slotType") or "").removeprefix("TYPE_").lower()),
    ("Max Agents", lambda p: p.get("maxAgents")),
    ("Default Compute", lambda p: p.get("defaultComputePool")),
    ("Default Aux", lambda p: p.get("defaultAuxPool")),
    ("Access", lambda p: access_text(p.get("access"))),
)


def list_resource_pools(args: argparse.Namespace) -> None:
    show(args, _RESOURCE_POOL_COLUMNS, pages(connect(args), "/resource-pools", "resourcePools"))


def access_text(access: "dict[str, Any] | None") -> str:
    """Return the access to a pool in a few words."""
    if not access or not access["restricted"]:
        return "open"
    names = [*(f"@{group}" for group in access["groups"]), *access["users"]]
    return "restricted: " + (", ".join(names) or "administrators")


def change_bindings(args: argparse.Namespace) -> None:
    path = f"{V1}/resource-pools/{args.pool_name}/workspace-bindings"
    body = {"resourcePoolName": args.pool_name, "workspaceNames": args.workspace_names}
    connect(args).request(args.method, path, body=body)
    print(f"{args.done} bindings of resource pool '{args.pool_name}'")


def list_pool_workspaces(args: argparse.Namespace) -> None:
    session = connect(args)
    path = f"/resource-pools/{args.pool_name}/workspace-bindings"
    ids = set(pages(session, path, "workspaceIds"))
    spaces = [w for w in pages(session, "/workspaces", "workspaces") if w["id"] in ids]
    show(args, (("ID", lambda w: w["id"]), ("Workspace", lambda w: w["name"])), spaces)
