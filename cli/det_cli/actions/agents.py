"""`det agent`: list, enable and disable agents, and manage the tokens that they use to join."""

import argparse
from functools import partial
from typing import Any

from determined.common.http import Session

from det_cli.connection import V1, connect
from det_cli.errors import UsageError
from det_cli.render import Column, local_time, say, show, size_text

_COLUMNS: tuple[Column, ...] = (
    ("Agent ID", lambda a: a["id"]),
    ("Version", lambda a: a["version"]),
    ("Registered Time", lambda a: a["registered_time"]),
    ("Slots", lambda a: a["num_slots"]),
    ("Containers", lambda a: a["num_containers"]),
    ("Resource Pool", lambda a: a["resource_pools"]),
    ("Enabled", lambda a: a["enabled"]),
    ("Draining", lambda a: f"moves to {a['moves_to']}" if a["moves_to"] else a["draining"]),
    ("Addresses", lambda a: a["addresses"]),
    ("Product Version", lambda a: a["product_version"]),
)


def _row(agent: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": agent["id"],
        "version": agent.get("version"),
        "registered_time": local_time(agent.get("registeredTime")),
        "num_slots": len(agent.get("slots") or {}),
        "num_containers": len(agent.get("containers") or {}),
        "resource_pools": ", ".join(agent.get("resourcePools") or []),
        "enabled": agent.get("enabled", True),
        "draining": agent.get("draining", False),
        "moves_to": agent.get("movesTo"),
        "addresses": ", ".join(agent.get("addresses") or []),
        "product_version": agent.get("productVersion"),
    }


def list_(args: argparse.Namespace) -> None:
    agents = connect(args).get(V1 + "/agents")["agents"]
    show(args, _COLUMNS, [_row(a) for a in agents], empty="no agent has joined the cluster")
    for agent in agents:
        if agent.get("outOfService"):
            say(f"Agent {agent['id']} is out of service: {agent['outOfService']}")


def describe(args: argparse.Namespace) -> None:
    """Print the slots of an agent, each with its link to every other slot as `nvidia-smi topo -m` names it."""
    agent = connect(args).get(f"{V1}/agents/{args.agent_id}")["agent"]
    slots = sorted((agent.get("slots") or {}).values(), key=lambda slot: int(slot["id"]))
    kinds = {(a, b): kind for a, b, kind in agent.get("links") or []}
    columns: list[Column] = [
        ("Slot", lambda s: s["id"]),
        ("Device", lambda s: s["device"].get("brand")),
        ("UUID", lambda s: s["device"].get("uuid")),
        ("State", _slot_state),
        ("NUMA Node", lambda s: s.get("numaNode")),
    ]
    if kinds:
        columns += [(f"To {slot['id']}", partial(_link, kinds, int(slot["id"]))) for slot in slots]
    show(args, columns, slots, agent, empty=f"agent {args.agent_id} has no slots")
    _say_data_cache(agent.get("dataCache"))
    if slots and not kinds:
        say("The links between its slots are not known: agents read them from nvidia-smi.")


def _say_data_cache(cache: dict[str, Any] | None) -> None:
    """Print the size of the agent's cache, and the data sets in it, the last used first."""
    if not cache:
        return
    used, size = size_text(cache["usedBytes"]), size_text(cache["sizeBytes"])
    say(f"Data cache: {used} of {size} used.")
    for held in cache["sets"]:
        part = size_text(held["bytes"])
        if held["bytes"] < held["total"]:
            part += f" of {size_text(held['total'])}"
        say(f"  {held['source']}: {part}{', in use' if held.get('in_use') else ''}")


def _slot_state(slot: dict[str, Any]) -> str:
    if slot.get("container"):
        return "occupied"
    return "free" if slot.get("enabled", True) else "disabled"


def _link(kinds: dict[tuple[int, int], str], other: int, slot: dict[str, Any]) -> str:
    own = int(slot["id"])
    return "X" if own == other else kinds.get((min(own, other), max(own, other)), "")


def enable(args: argparse.Namespace) -> None:
    session = connect(args)
    for id in _agent_ids(session, args):
        session.post(f"{V1}/agents/{id}/enable")
        say(f"Enabled agent {id}.")


def disable(args: argparse.Namespace) -> None:
    session = connect(args)
    agents = []
    for id in _agent_ids(session, args):
        body = {"agentId": id, "drain": args.drain}
        response = session.post(f"{V1}/agents/{id}/disable", body) or {}
        agents.append(response.get("agent"))
        say(f"{'Draining' if args.drain else 'Disabled'} agent {id}.")
    if args.format:
        show(args, _COLUMNS, [_row(a) for a in agents if a])


def move(args: argparse.Namespace) -> None:
    body = {"pool": args.pool_name, "preempt": args.preempt}
    agent = connect(args).post(f"{V1}/agents/{args.agent_id}/move", body)["agent"]
    if agent["movesTo"]:
        say(
            f"Agent {args.agent_id} takes no new work, and moves to pool {agent['movesTo']} after its work."
        )
        say(f"`det agent enable {args.agent_id}` calls the move off.")
    else:
        say(f"Agent {args.agent_id} is in pool {args.pool_name}.")
    if agent.get("disabled"):
        after = " after the move" if agent["movesTo"] else ""
        say(f"It stays disabled: `det agent enable {args.agent_id}`{after} lets it take work.")


def _agent_ids(session: Session, args: argparse.Namespace) -> list[str]:
    if bool(args.agent_id) == args.all:
        raise UsageError("name one agent, or give --all", "`det agent list` shows them")
    if args.agent_id:
        return [args.agent_id]
    return [a["id"] for a in session.get(V1 + "/agents")["agents"]]


_TOKEN_COLUMNS: tuple[Column, ...] = (
    ("ID", lambda t: t["id"]),
    ("Description", lambda t: t["description"]),
    ("Made by", lambda t: t["username"]),
    ("Agents", lambda t: _uses(t)),
    ("Ends", lambda t: local_time(t.get("expiresAt"))),
    ("Revoked", lambda t: local_time(t.get("revokedAt"))),
)


def _uses(token: dict[str, Any]) -> str:
    max_uses = token.get("maxUses")
    return f"{token['uses']} of {max_uses}" if max_uses else str(token["uses"])


def create_token(args: argparse.Namespace) -> None:
    body = {
        "description": args.description,
        "lifespan": args.expiration,
        "maxUses": args.agents,
    }
    token = connect(args).post(V1 + "/agent-tokens", body)["agentToken"]
    say(
        f"Created token {token['id']}. It is not shown again and expires {local_time(token['expiresAt'])}."
        " Write it to the token_file of det-agent."
    )
    print(token["token"])


def list_tokens(args: argparse.Namespace) -> None:
    show(args, _TOKEN_COLUMNS, connect(args).get(V1 + "/agent-tokens")["agentTokens"])


def revoke_token(args: argparse.Namespace) -> None:
    connect(args).request("DELETE", f"{V1}/agent-tokens/{args.token_id}")
    say(f"Revoked agent token {args.token_id}: agents can no longer join with it.")
