"""Rehearse a cluster in a cloud: print the plan, ask, run the steps, and write the report."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from det_cli import product_version, prompts
from det_cli.actions import deploy_cloud, deploy_options
from det_cli.deployment import stack_variables
from det_cli.deployment.terraform import stacks
from det_cli.errors import FAILED, INTERRUPTED, OK, UsageError
from det_cli.render import say

if TYPE_CHECKING:
    from det_cli.declare import Group
    from det_cli.deployment.cluster import Deployment
    from det_cli.deployment.rehearsal.plan import Plan
    from det_cli.deployment.rehearsal.pools import ChosenPool
    from det_cli.deployment.rehearsal.records import Report, Step
    from det_cli.deployment.rehearsal.stage import Cloud, Stage


# Options that would change a cluster which exists.
_OF_NEW_CLUSTERS = {
    "master_config_path": "--config",
    "compute_agent_instance_type": "--compute-agent-instance-type",
    "aux_agent_instance_type": "--aux-agent-instance-type",
    "spot": "--spot",
    "google_credentials": "--google-credentials",
    "var": "--var",
}


def with_options_of_up(args: argparse.Namespace, group: "Group") -> argparse.Namespace:
    """Return the options of a rehearsal, completed by the defaults of `up`. Raises UsageError.

    The options of the rehearsal itself are checked here, before the account is asked.
    """
    from det_cli.declare import Command
    from det_cli.deployment.rehearsal import plan, report
    from det_cli.parse import parser_for

    plan.chosen(args.steps)
    if args.idle_minutes < 0:
        raise UsageError("--idle-minutes must be 0 or more")
    if args.max_cost <= 0:
        raise UsageError("--max-cost must be more than 0", "give an amount in US dollars")
    report.check_writable(_report_path(args))
    command = group.member("up")
    assert isinstance(command, Command)
    of_up = parser_for([], command).parse_args(["--cluster-id", args.cluster_id])
    given = [name for name in _OF_NEW_CLUSTERS if getattr(args, name, None)]
    return argparse.Namespace(**{**vars(of_up), **vars(args), "of_new_cluster": given})


def run(args: argparse.Namespace, deployment: "Deployment", cloud: "Cloud", place: str) -> int:
    """Rehearse; return 0 only if no step failed and no machine is left."""
    from det_cli.deployment.rehearsal import plan, pools, report
    from det_cli.deployment.rehearsal.deployed import DeployedCluster
    from det_cli.deployment.rehearsal.runner import Rehearsal
    from det_cli.deployment.rehearsal.stage import Stage

    stack_variables.check(
        stacks() / deployment.stack, deploy_options.variables(args), args.kept_vars
    )
    exists = args.cluster_id in deployment.account.clusters()
    if exists:
        _refuse_changes(args, deployment.stack)
    removes = args.remove or not (exists or args.keep)
    steps = _steps(args, exists=exists, removes=removes)
    pool = pools.choose(
        deployment.config(), deployment.stack, args.pool or "", deployment.usd_hour()
    )
    _check_pool(args, steps, pool)
    planned = plan.make(steps, pool.rates, args.idle_minutes)
    plan.check_budget(planned, args.max_cost)
    _show(args, planned, pool, exists=exists, removes=removes)
    prompts.confirm(f"Rehearse cluster {args.cluster_id} in {place}?", yes=args.yes)
    deployed = DeployedCluster(
        deployment, args.cluster_id, lambda: deploy_cloud.deploy(deployment, args.kept),
        args.max_cost, keeps_data=args.keep_data,
    )  # fmt: skip
    stage = Stage(
        deployed, cloud, pool.name, pool.slots, args.idle_minutes, removes=removes, say=say
    )
    path = _report_path(args)
    rehearsal = Rehearsal(
        planned, stage, place, args.max_cost, {"det": product_version()},
        lambda result: report.write(path, result),
    )  # fmt: skip
    result = rehearsal.run()
    return _end(args, deployment.stack, stage, result, path, interrupted=rehearsal.is_interrupted)


def _refuse_changes(args: argparse.Namespace, stack: str) -> None:
    given = [_OF_NEW_CLUSTERS[name] for name in args.of_new_cluster if name != "google_credentials"]
    if given:
        raise UsageError(
            f"the cluster {args.cluster_id} exists, and {', '.join(given)} would change it",
            f"give them to `det deploy {stack} up`, then rehearse without them",
        )


def _check_pool(args: argparse.Namespace, steps: "list[Step]", pool: "ChosenPool") -> None:
    if not pool.rents_spot and any(step.name == "spot" for step in steps):
        raise UsageError(
            f"pool {pool.name} rents no spot machines, which the step spot needs",
            "give --spot if the cluster is new, name another --pool, or leave spot out of --steps",
        )


def _report_path(args: argparse.Namespace) -> Path:
    return Path(args.report or f"rehearsal-{args.cluster_id}.md")


def _steps(args: argparse.Namespace, *, exists: bool, removes: bool) -> "list[Step]":
    """Return the steps; a cluster is removed exactly if the rehearsal creates it, or --down is given."""
    from det_cli.deployment.rehearsal import plan

    wanted = plan.chosen(args.steps)
    if args.steps and not removes and any(step.name == "down" for step in wanted):
        reason = "the cluster existed before the rehearsal" if exists else "--keep is given"
        raise UsageError(
            f"--steps names down, and {reason}",
            "give --down to remove the cluster, or leave down out",
        )
    rest = [step for step in wanted if step.name != "down"]
    return [*rest, *(step for step in plan.STEPS if step.name == "down" and removes)]


def _show(
    args: argparse.Namespace,
    planned: "Plan",
    pool: "ChosenPool",
    *,
    exists: bool,
    removes: bool,
) -> None:
    from det_cli.deployment.rehearsal import plan

    for line in plan.lines(planned):
        print(line)
    print(f"Jobs run in pool {pool.name}.")
    there = "exists" if exists else "is created"
    then = "is removed at the end" if removes else "stays"
    print(f"The cluster {args.cluster_id} {there} and {then}.", flush=True)


def _end(
    args: argparse.Namespace,
    stack: str,
    stage: "Stage",
    result: "Report",
    path: Path,
    *,
    interrupted: bool,
) -> int:
    for outcome in result.outcomes:
        print(f"{outcome.step}: {outcome.state.value}")
    print(f"Cost: ${result.cost_usd:.2f}. Report: {path} and {path.with_suffix('.json')}")
    if result.leftovers:
        say(f"warning: machines are left and cost money: {', '.join(result.leftovers)}")
    if stage.made_cluster and not stage.is_removed:
        say(
            f"The cluster stays. `det deploy {stack} down --cluster-id {args.cluster_id}` removes it."
        )
    if interrupted:
        return INTERRUPTED
    return OK if result.has_passed else FAILED
