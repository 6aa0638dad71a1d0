"""`det deploy ... rehearse`: print the plan, ask for confirmation, run the steps and write the report."""

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


# Options that would change an existing cluster.
_OF_NEW_CLUSTERS = {
    "master_config_path": "--config",
    "compute_agent_instance_type": "--compute-agent-instance-type",
    "aux_agent_instance_type": "--aux-agent-instance-type",
    "spot": "--spot",
    "google_credentials": "--google-credentials",
    "var": "--var",
}


def with_options_of_up(args: argparse.Namespace, group: "Group") -> argparse.Namespace:
    """Return the options of a rehearsal, completed with the defaults of `up`. Raises UsageError.

    This checks the rehearsal's own options before any request to the cloud account.
    """
    from det_cli.declare import Command
    from det_cli.deployment.rehearsal import plan, report
    from det_cli.parse import parser_for

    plan.parse_steps(args.steps)
    if args.idle_minutes < 0:
        raise UsageError("--idle-minutes must be 0 or more")
    if args.max_cost <= 0:
        raise UsageError("--max-cost must be more than 0", "give an amount in US dollars")
    report.check_writable(_report_path(args))
    command = group.member("up")
    assert isinstance(command, Command)
    defaults = parser_for([], command).parse_args(["--cluster-id", args.cluster_id])
    names = [name for name in _OF_NEW_CLUSTERS if getattr(args, name, None)]
    return argparse.Namespace(**{**vars(defaults), **vars(args), "of_new_cluster": names})


def run(args: argparse.Namespace, deployment: "Deployment", cloud: "Cloud", place: str) -> int:
    """Run the rehearsal. Return 0 only if every step passed and no machine remains."""
    from det_cli.deployment.rehearsal import plan, pools, report
    from det_cli.deployment.rehearsal.deployed import DeployedCluster
    from det_cli.deployment.rehearsal.runner import Rehearsal
    from det_cli.deployment.rehearsal.stage import Stage

    stack_variables.check(
        stacks() / deployment.stack, deploy_options.variables(args), args.stored_vars
    )
    exists = args.cluster_id in deployment.account.clusters()
    if exists:
        _check_unchanged(args, deployment.stack)
    removes = args.remove or not (exists or args.keep)
    steps = _steps(args, exists=exists, removes=removes)
    pool = pools.choose(
        deployment.config(), deployment.stack, args.pool or "", deployment.usd_hour()
    )
    _check_pool(args, steps, pool)
    rehearsal_plan = plan.make(steps, pool.rates, args.idle_minutes)
    plan.check_budget(rehearsal_plan, args.max_cost)
    _show(args, rehearsal_plan, pool, exists=exists, removes=removes)
    prompts.confirm(f"Rehearse cluster {args.cluster_id} in {place}?", yes=args.yes)
    deployed = DeployedCluster(
        deployment, args.cluster_id, lambda: deploy_cloud.deploy(deployment, args.to_store),
        args.max_cost, keeps_data=args.keep_data,
    )  # fmt: skip
    stage = Stage(
        deployed, cloud, pool.name, pool.slots, args.idle_minutes, removes=removes, say=say
    )
    path = _report_path(args)
    rehearsal = Rehearsal(
        rehearsal_plan, stage, place, args.max_cost, {"det": product_version()},
        lambda result: report.write(path, result),
    )  # fmt: skip
    result = rehearsal.run()
    return _end(args, deployment.stack, stage, result, path, interrupted=rehearsal.is_interrupted)


def _check_unchanged(args: argparse.Namespace, stack: str) -> None:
    options = [
        _OF_NEW_CLUSTERS[name] for name in args.of_new_cluster if name != "google_credentials"
    ]
    if options:
        raise UsageError(
            f"the cluster {args.cluster_id} exists, and {', '.join(options)} would change it",
            f"pass them to `det deploy {stack} up`, then rehearse without them",
        )


def _check_pool(args: argparse.Namespace, steps: "list[Step]", pool: "ChosenPool") -> None:
    if not pool.rents_spot and any(step.name == "spot" for step in steps):
        raise UsageError(
            f"pool {pool.name} rents no spot machines, but the spot step needs them",
            "give --spot if the cluster is new, use another --pool, or leave spot out of --steps",
        )


def _report_path(args: argparse.Namespace) -> Path:
    return Path(args.report or f"rehearsal-{args.cluster_id}.md")


def _steps(args: argparse.Namespace, *, exists: bool, removes: bool) -> "list[Step]":
    """Return the steps to run. The down step runs only if the rehearsal removes the cluster."""
    from det_cli.deployment.rehearsal import plan

    steps = plan.parse_steps(args.steps)
    if args.steps and not removes and any(step.name == "down" for step in steps):
        reason = "the cluster existed before the rehearsal" if exists else "--keep is given"
        raise UsageError(
            f"--steps contains down, but {reason}",
            "give --down to remove the cluster, or leave down out",
        )
    rest = [step for step in steps if step.name != "down"]
    return [*rest, *(step for step in plan.STEPS if step.name == "down" and removes)]


def _show(
    args: argparse.Namespace,
    rehearsal_plan: "Plan",
    pool: "ChosenPool",
    *,
    exists: bool,
    removes: bool,
) -> None:
    from det_cli.deployment.rehearsal import plan

    for line in plan.lines(rehearsal_plan):
        print(line)
    print(f"Jobs run in pool {pool.name}.")
    start = "exists" if exists else "is created"
    end = "is removed at the end" if removes else "is kept"
    print(f"The cluster {args.cluster_id} {start} and {end}.", flush=True)


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
        say(f"warning: these machines still run and cost money: {', '.join(result.leftovers)}")
    if stage.made_cluster and not stage.is_removed:
        say(
            f"The cluster is kept. `det deploy {stack} down --cluster-id {args.cluster_id}` removes it."
        )
    if interrupted:
        return INTERRUPTED
    return OK if result.has_passed else FAILED
