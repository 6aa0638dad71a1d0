"""`det agent join`: make machines that SSH reaches agents of the cluster, or remove them."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from det_cli.connection import V1, address, connect
from det_cli.errors import CommandError, UsageError
from det_cli.fleet import joining
from det_cli.fleet.facts import Cluster, Finding
from det_cli.fleet.hosts import Host, checked, read_hosts
from det_cli.fleet.joining import Fleet, Outcome
from det_cli.fleet.machine import Machine
from det_cli.fleet.software import fetch_software, trust_of
from det_cli.fleet.ssh import Ssh
from det_cli.render import Column, counted, say, show

_COLUMNS: tuple[Column, ...] = (
    ("Host", lambda o: o.host),
    ("Agent ID", lambda o: o.agent_id),
    ("Resource Pool", lambda o: o.pool),
    ("Result", lambda o: o.result),
    ("Detail", lambda o: o.detail),
)
_CHECK_COLUMNS: tuple[Column, ...] = (
    ("Host", lambda row: row[0]),
    ("Check", lambda row: row[1].check),
    ("Verdict", lambda row: row[1].verdict),
    ("Finding", lambda row: row[1].cause),
)


def join(args: argparse.Namespace) -> None:
    if args.now and not args.remove:
        raise UsageError("--now belongs to --remove")
    session = connect(args)
    session.get(f"{V1}/agent-tokens")  # refuses callers without the right before any host is asked
    fleet = _fleet(args, session)
    hosts = _hosts(args, session)
    if args.check:
        _check(args, fleet, hosts)
    elif args.remove:
        machines = list(joining.probed(fleet, hosts, ""))
        _report(args, fleet.each(lambda m: joining.remove(fleet, m, now=args.now), machines))
    else:
        software = fetch_software(session)
        machines = joining.check_all(fleet, hosts)
        _report(args, fleet.each(lambda m: joining.join(fleet, software, m), machines))


def _fleet(args: argparse.Namespace, session: Any) -> Fleet:
    url = args.master_url or address(args)
    pools = [pool["name"] for pool in session.get(f"{V1}/resource-pools")["resourcePools"]]
    cluster = Cluster(session.get("/info")["cluster_id"], url, tuple(pools))
    return Fleet(
        session,
        Ssh(args.ssh_option, accept_new=args.accept_new_host_keys),
        cluster,
        trust_of(session),
        say,
        parallel=args.parallel,
        take_over=args.take_over,
        join_timeout_s=args.timeout,
        drain_timeout_s=args.drain_timeout,
    )


def _hosts(args: argparse.Namespace, session: Any) -> list[Host]:
    defaults = Host(
        "", user=args.ssh_user or "", port=str(args.ssh_port or ""), key=args.ssh_key or "",
        pool=args.pool or _default_pool(session), slots=args.slots or "", runtime=args.container_runtime or "",
    )  # fmt: skip
    return read_hosts(Path(args.ssh), checked(defaults, "the options"))


def _default_pool(session: Any) -> str:
    pools = session.get(f"{V1}/resource-pools")["resourcePools"]
    return next((str(pool["name"]) for pool in pools if pool["defaultComputePool"]), "default")


def _check(args: argparse.Namespace, fleet: Fleet, hosts: Sequence[Host]) -> None:
    """Print the checks of each host, without changing anything."""
    found = list(joining.probed(fleet, hosts, fleet.cluster.url))
    names = [m.agent_id for m in found if isinstance(m, Machine)]
    rows: list[tuple[str, Finding]] = []
    for machine in found:
        if isinstance(machine, Machine):
            rows += [(machine.host.name, f) for f in joining.findings_of(fleet, machine, names)]
        else:
            rows.append((machine.host, Finding("SSH", "failed", machine.cause, machine.fix)))
    show(args, _CHECK_COLUMNS, rows, [{"host": host, **asdict(f)} for host, f in rows])
    for host, finding in rows:
        if finding.fix:
            say(f"{host}: {finding.check}: {finding.fix}")
    failed = {host for host, finding in rows if finding.verdict == "failed"}
    if failed:
        raise CommandError(f"{len(failed)} of {counted(len(hosts), 'host')} cannot join")


def _report(args: argparse.Namespace, outcomes: Sequence[Outcome]) -> None:
    outcomes = [replace(o, detail=o.detail or o.cause) for o in outcomes]
    show(args, _COLUMNS, outcomes, [asdict(o) for o in outcomes])
    failed = [o for o in outcomes if o.result == joining.FAILED]
    for outcome in failed:
        say(f"{outcome.host}: {outcome.cause}" + (f"\n  {outcome.fix}" if outcome.fix else ""))
    if failed:
        raise CommandError(
            f"{len(failed)} of {counted(len(outcomes), 'host')} failed",
            "fix them and run the command again: it changes only what is missing",
        )
