"""Rented machines, and the pools that rent them."""

import argparse
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
    ("Held", lambda p: (p["hold"] or {}).get("sentence")),
)


def _offer(offer: dict[str, Any]) -> str:
    place = offer["zone"] or offer["region"]
    return f"{offer['provider']} {place} {offer['machineType']} {offer['capacity']}"


def list_(args: argparse.Namespace) -> None:
    params = {"all": "true" if args.all else None, "pool": args.pool or None}
    show(args, _COLUMNS, pages(connect(args), "/instances", "instances", params))


def describe(args: argparse.Namespace) -> None:
    found = connect(args).get(f"{V1}/instances/{args.instance_id}")["instance"]
    print_object(args, found)


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
    connect(args).post(f"{V1}/rented-pools/{args.pool_name}/resume", {})
    say(f"Pool {args.pool_name} launches machines again.")


def why(args: argparse.Namespace) -> None:
    pool = _pool(args)
    name = pool["name"]
    if pool["hold"]:
        print(f"Pool {name} launches nothing: {pool['hold']['sentence']}")
        print(f"`det pool resume {name}` lets it launch again.")
    if pool["instances"] >= pool["maxInstances"]:
        print(f"Pool {name} has all {pool['maxInstances']} machines that max_instances allows.")
    for cooldown in pool["cooldowns"]:
        print(f"{_scope(cooldown)}: {cooldown['sentence']} (next try {local(cooldown['until'])})")
    if not (pool["hold"] or pool["cooldowns"] or pool["instances"] >= pool["maxInstances"]):
        waiting = f"{pool['queued']} allocations wait" if pool["queued"] else "nothing waits"
        print(f"Nothing keeps pool {name} from launching; {waiting}.")


def _scope(cooldown: dict[str, Any]) -> str:
    names = ("provider", "region", "zone", "machineType", "capacity")
    return " ".join(cooldown[name] for name in names if cooldown[name])


def _pool(args: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = connect(args).get(f"{V1}/rented-pools/{args.pool_name}")["pool"]
    return found
