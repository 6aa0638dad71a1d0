"""Rented machines, and the pools that rent them."""

import argparse
from collections.abc import Iterator
from typing import Any

from det_cli.connection import V1, connect, pages
from det_cli.prompts import confirm
from det_cli.render import Column, print_object, say, show
from det_cli.times import local

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
    ("Requested", lambda i: local(i["requestedAt"])),
    ("Reason", lambda i: i["reason"]),
)
_POOL_COLUMNS: tuple[Column, ...] = (
    ("Name", lambda p: p["name"]),
    ("Instances", lambda p: f"{p['instances']} ({p['minInstances']}-{p['maxInstances']})"),
    ("$/hour", lambda p: f"{p['priceUsdHour']:.2f}"),
    ("Queued", lambda p: p["queued"]),
    ("Queued Slots", lambda p: p["queuedSlots"]),
    ("Offers", lambda p: len(p["offers"])),
    ("Cheapest $/hour", lambda p: min((o["priceUsdHour"] for o in p["offers"]), default=None)),
    ("Held", lambda p: "; ".join(_causes(p)) or None),
)


# Why work waits although its machines are being rented, or were.
_ON_THE_WAY = ("LAUNCHING", "MACHINE_STARTING")


def _offer(offer: dict[str, Any]) -> str:
    place = offer["zone"] or offer["region"]
    return f"{offer['provider']} {place} {offer['machineType']} {offer['capacity']}"


def list_(args: argparse.Namespace) -> None:
    params = {"all": "true" if args.all else None, "pool": args.pool or None}
    show(args, _COLUMNS, pages(connect(args), "/instances", "instances", params))


def describe(args: argparse.Namespace) -> None:
    found = connect(args).get(f"{V1}/instances/{args.instance_id}")["instance"]
    if args.format:
        print_object(args, found)
        return
    console = found.pop("console")
    print_object(args, found)
    if console:
        # A block of YAML as people read it: PyYAML would fold the lines and escape their ends.
        print("console: |")
        for line in console.splitlines():
            print(f"  {line}".rstrip())
    elif not found["agentId"]:
        say(
            "What a machine printed that never joined is kept for administrators and agent operators."
        )


def terminate(args: argparse.Namespace) -> None:
    confirm(f"Give machine {args.instance_id} back?", yes=args.yes)
    connect(args).post(f"{V1}/instances/{args.instance_id}/terminate")
    say(f"Ordered the end of {args.instance_id}; `det instance list` shows when it is gone.")


def list_pools(args: argparse.Namespace) -> None:
    show(args, _POOL_COLUMNS, connect(args).get(f"{V1}/rented-pools")["pools"])


def describe_pool(args: argparse.Namespace) -> None:
    print_object(args, _pool(args))


def hold(args: argparse.Namespace) -> None:
    path = f"{V1}/rented-pools/{args.pool_name}/hold"
    connect(args).post(path, {"reason": args.reason})
    say(f"Pool {args.pool_name} launches nothing until `det pool resume {args.pool_name}`.")


def resume(args: argparse.Namespace) -> None:
    pool = connect(args).post(f"{V1}/rented-pools/{args.pool_name}/resume", {})["pool"]
    spent = pool.get("spentBudget")
    if spent:
        say(f"Pool {args.pool_name} is held no more, and launches nothing yet: {spent}")
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
        print(f"Nothing keeps pool {pool['name']} from launching.")
    if not pool["queued"]:
        print("Nothing waits for machines.")
    for reason in pool["waiting"]:
        subject = (
            "1 allocation" if reason["allocations"] == 1 else f"{reason['allocations']} allocations"
        )
        print(f"{subject} (slots: {reason['slots']}): {reason['sentence']}")


def _causes(pool: dict[str, Any]) -> list[str]:
    """Return why a pool launches nothing: its hold, and its budget when that is spent."""
    found = ((pool["hold"] or {}).get("sentence"), pool.get("spentBudget"))
    return [cause for cause in found if cause]


def _limits(pool: dict[str, Any]) -> Iterator[str]:
    name, cost, most = pool["name"], pool["priceUsdHour"], pool["maxHourlyCost"]
    if pool["hold"]:
        until = pool["hold"].get("until")
        again = f" (next try {local(until)})" if until else ""
        yield f"Pool {name} launches nothing: {pool['hold']['sentence']}{again}"
        yield f"`det pool resume {name}` lets it launch {'at once' if until else 'again'}."
    if pool.get("spentBudget"):
        yield f"Pool {name} launches nothing: {pool['spentBudget']}"
    if pool["instances"] >= pool["maxInstances"]:
        yield f"Pool {name} has all {pool['maxInstances']} machines that max_instances allows."
    cheapest = min((offer["priceUsdHour"] for offer in pool["offers"]), default=0)
    if most is not None and cost + cheapest > most:
        yield f"Pool {name} costs ${cost:.2f} of the ${most:.2f} an hour that max_hourly_cost allows."


def _refusals(pool: dict[str, Any]) -> Iterator[str]:
    for cooldown in pool["cooldowns"]:
        if cooldown["until"] is None:
            then = f"correct it, then `det pool resume {pool['name']}`"
        else:
            then = f"next try {local(cooldown['until'])}"
        yield f"{_scope(cooldown)}: {cooldown['sentence']} ({then})"


def _prices(pool: dict[str, Any]) -> Iterator[str]:
    for told in pool.get("priceProblems", ()):
        place = f"{told['provider']} {told['region']}"
        yield f"{place}: prices are those of {pool['priceListOf']}, as {told['problem']}"


def _scope(cooldown: dict[str, Any]) -> str:
    names = ("provider", "region", "zone", "machineType", "capacity")
    return " ".join(cooldown[name] for name in names if cooldown[name])


def _pool(args: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = connect(args).get(f"{V1}/rented-pools/{args.pool_name}")["pool"]
    return found
