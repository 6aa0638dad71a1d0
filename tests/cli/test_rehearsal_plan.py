"""The plan of a rehearsal and its report."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from det_cli.deployment.prices import ControlPlaneCost
from det_cli.deployment.rehearsal import plan, pools, report
from det_cli.deployment.rehearsal.records import Outcome, Report, State
from det_cli.errors import UsageError

from tests.support.rehearsed import START

RATES = plan.Rates(machine=1.0, aux_machine=0.5, awake=0.1, idle=0.01)
COST = ControlPlaneCost(idle=0.001, busy=0.061)


def test_steps_are_ordered_and_start_with_up() -> None:
    assert [step.name for step in plan.parse_steps("train, spot")] == ["up", "spot", "train"]
    assert plan.parse_steps(None) == plan.STEPS


@pytest.mark.parametrize(("names", "cause"), [("spot,foo", "no step foo"), (" ,", "names no step")])
def test_unknown_steps_are_rejected_with_the_step_names(names: str, cause: str) -> None:
    with pytest.raises(UsageError, match=cause) as refusal:
        plan.parse_steps(names)
    assert "up, idle, spot, train, interruption, upgrade, notebook, down" in refusal.value.hint


def test_maximum_step_cost_covers_its_whole_time_limit() -> None:
    rehearsal_plan = plan.make(plan.parse_steps("interruption,notebook"), RATES, idle_minutes=0)
    costs = {one.step.name: one.most_usd for one in rehearsal_plan.steps}
    assert costs["interruption"] == pytest.approx(2.1 * 45 / 60)
    assert costs["notebook"] == pytest.approx(0.6 * 30 / 60)
    assert rehearsal_plan.most_usd == pytest.approx(sum(costs.values()))


def test_idle_step_lasts_idle_minutes() -> None:
    short, long = (
        plan.make(plan.parse_steps("idle"), RATES, minutes).steps[1] for minutes in (0, 30)
    )
    assert long.limit_s - short.limit_s == 1800
    assert long.expected_s == 1800


def test_too_low_max_cost_is_rejected_with_sufficient_amount() -> None:
    rehearsal_plan = plan.make(plan.parse_steps("spot"), RATES, idle_minutes=0)
    with pytest.raises(UsageError, match=r"may cost \$0.65, more than --max-cost 0.2") as refusal:
        plan.check_budget(rehearsal_plan, 0.2)
    assert "--max-cost 0.65" in refusal.value.hint
    plan.check_budget(rehearsal_plan, 0.65)


def test_plan_describes_each_step() -> None:
    text = "\n".join(plan.lines(plan.make(plan.STEPS, RATES, idle_minutes=10)))
    for step in plan.STEPS:
        assert f"{step.name}: {step.does} (about " in text
        assert f"proves: {step.proves}" in text
    assert "idle: " + plan.STEPS[1].does + " (about 10 min, at most 15 min and $0.03)" in text


def section(kind: str, **more: object) -> dict[str, object]:
    return {"type": "aws", "region": "us-west-2", "instance_type": kind, **more}


def config(**by_pool: dict[str, object]) -> dict[str, object]:
    sections = [{"pool_name": name, "provider": provider} for name, provider in by_pool.items()]
    storage = {"type": "s3", "bucket": "b"}
    first = next(iter(by_pool))
    manager = {"type": "agent", "default_compute_resource_pool": first, "default_aux_resource_pool": first}  # fmt: skip
    return {"resource_pools": sections, "resource_manager": manager, "checkpoint_storage": storage}


def test_cheapest_spot_pool_is_chosen() -> None:
    pool = pools.choose(
        config(
            cheap=section("g4dn.xlarge"),
            spot=section("g5.xlarge", spot=True),
            dear=section("g5.12xlarge", spot=True),
        ),
        "aws", "", COST,
    )  # fmt: skip
    assert (pool.name, pool.slots, pool.rents_spot) == ("spot", 1, True)
    assert pool.rates.machine == pytest.approx(1.006 * 0.45, rel=0.2)


def test_on_demand_pool_is_chosen_by_name() -> None:
    both = config(cheap=section("g4dn.xlarge"), spot=section("g5.xlarge", spot=True))
    pool = pools.choose(both, "aws", "cheap", COST)
    assert (pool.name, pool.rents_spot) == ("cheap", False)


def test_jobs_need_no_slots_in_a_pool_without_gpus() -> None:
    pool = pools.choose(config(cpus=section("m5.xlarge", spot=True)), "aws", "", COST)
    assert (pool.name, pool.slots) == ("cpus", 0)


def test_pool_without_gpus_and_aux_containers_is_rejected() -> None:
    of_cpus = config(cpus=section("m5.xlarge", spot=True))
    of_cpus["resource_pools"][0]["max_aux_containers_per_agent"] = 0  # type: ignore[index]
    with pytest.raises(
        UsageError, match="rents machines in the cluster's cloud for jobs"
    ) as refusal:
        pools.choose(of_cpus, "aws", "", COST)
    assert "max_aux_containers_per_agent above 0" in refusal.value.hint


def test_unknown_pool_is_rejected_with_suitable_pools() -> None:
    with pytest.raises(UsageError, match="no pool mine rents machines") as refusal:
        pools.choose(config(spot=section("g5.xlarge", spot=True)), "aws", "mine", COST)
    assert "spot" in refusal.value.hint


def test_cluster_without_pools_in_its_cloud_is_rejected() -> None:
    with pytest.raises(UsageError, match="no pool of the cluster rents"):
        pools.choose(config(spot=section("g5.xlarge", spot=True)), "gcp", "", COST)


def finished(*outcomes: Outcome, **more: Any) -> Report:
    return Report(
        cluster_id="lab", cloud="AWS", place="us-west-2 of account 1", started_at=START,
        ended_at=START + timedelta(minutes=5), max_cost_usd=5.0, outcomes=outcomes,
        versions={"det": "0.1.0"}, **more,
    )  # fmt: skip


PASSED = Outcome("up", State.PASSED, 61.4, 0.002, "it answers")
FAILED = Outcome("spot", State.FAILED, 1800.0, 0.25, "no machine | came", "`det why 1`")
SKIPPED = Outcome("train", State.SKIPPED, detail="it needs spot, which did not pass")


def test_report_has_all_steps_and_next_steps() -> None:
    text = "\n".join(report.markdown(finished(PASSED, FAILED, SKIPPED)))
    assert text.startswith("# Rehearsal of lab: failed\n")
    assert "| up | passed | 61 | 0.00 | it answers |" in text
    assert "| spot | failed | 1800 | 0.25 | no machine \\| came |" in text
    assert "| train | skipped | |  | it needs spot, which did not pass |" in text
    assert "- **spot**: no machine | came. Next: `det why 1`" in text
    assert "Version of det: 0.1.0" in text
    assert "us-west-2 of account 1" in text
    assert "Cost: $0.25 of at most $5.00" in text
    assert "Not included: disks" in text


def test_report_of_passed_rehearsal_lists_kept_resources() -> None:
    text = "\n".join(report.markdown(finished(PASSED, remains=("the bucket b",))))
    assert text.startswith("# Rehearsal of lab: passed\n")
    assert "Next steps" not in text
    assert "## Resources that are kept\n\n- the bucket b" in text


def test_partial_report_is_not_finished() -> None:
    text = "\n".join(report.markdown(replace(finished(PASSED), is_finished=False)))
    assert text.startswith("# Rehearsal of lab: not finished\n")


def test_remaining_machine_fails_the_rehearsal() -> None:
    result = finished(PASSED, leftovers=("i-1",))
    assert not result.has_passed
    heading = "## Machines that still run and cost money"
    assert f"{heading}\n\n- i-1" in "\n".join(report.markdown(result))


def test_report_is_written_as_markdown_and_json(tmp_path: Path) -> None:
    report.write(tmp_path / "r.md", finished(PASSED, FAILED))
    result = json.loads((tmp_path / "r.json").read_text())
    assert (result["passed"], result["cost_usd"], result["place"]) == (
        False, 0.252, "us-west-2 of account 1",
    )  # fmt: skip
    assert [(s["step"], s["state"], s["next_step"]) for s in result["steps"]] == [
        ("up", "passed", ""), ("spot", "failed", "`det why 1`"),
    ]  # fmt: skip
    assert (tmp_path / "r.md").read_text().startswith("# Rehearsal of lab")


@pytest.mark.parametrize(
    ("name", "cause"),
    [("missing/r.md", "does not exist"), ("r.json", "next to the report"), ("", "is a directory")],
)
def test_unwritable_report_is_rejected(tmp_path: Path, name: str, cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        report.check_writable(tmp_path / name)
