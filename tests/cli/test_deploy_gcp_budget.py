"""The billing budget on Google Cloud: `up` checks its permission and enables its APIs before any change."""

import pytest

from tests.support.fake_cluster import FakeCluster
from tests.support.fake_terraform import FakeTerraform
from tests.support.google_project import MADE, Project, cause, outputs, state

BUDGET = ("--var", "monthly_budget_usd=100", "--var", "billing_account=0A-0B-0C")


def test_up_with_a_budget_enables_its_apis(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    """Both APIs respond late. Terraform would fail if `up` did not wait for them."""
    project.google.billing_permissions, project.google.late = {"billing.budgets.create"}, 2
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    result = project.up("--image", "img", *BUDGET)
    assert result.code == 0, result.err
    assert "Enabling the APIs billingbudgets, monitoring" in result.err
    assert project.google._refuses == {"billingbudgets": 0, "monitoring": 0}


def test_up_without_a_budget_sends_no_request_to_a_billing_account(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    assert project.up("--image", "img").code == 0
    assert "billingbudgets" not in project.google.apis
    assert [call for call in project.google.calls if "billingAccounts" in call] == []


@pytest.mark.parametrize("account", ["0A-0B-0C", "0D-0E-0F"])
def test_reports_a_missing_budget_permission_before_any_change(
    project: Project, terraform: FakeTerraform, account: str
) -> None:
    result = project.up(*BUDGET, "--var", f"billing_account={account}")
    assert f"lacks billing.budgets.create on the billing account {account}" in cause(result)
    assert "roles/billing.costsManager" in result.err
    assert terraform.calls("init") == []


def test_a_dry_run_with_a_budget_reports_disabled_apis(
    project: Project, terraform: FakeTerraform
) -> None:
    result = project.up("--dry-run", *BUDGET)
    assert "has disabled APIs that a plan needs: billingbudgets, monitoring" in cause(result)
