"""The steps of a rehearsal against a real cluster that rents boxed machines, on both clouds.

The deployment is a local cluster. Its upgrade stops the control plane and starts it again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import requests
from det_cli.deployment.aws_account import Aws
from det_cli.deployment.google import Google
from det_cli.deployment.rehearsal.aws_cloud import AwsCloud
from det_cli.deployment.rehearsal.cluster_client import ClusterClient
from det_cli.deployment.rehearsal.google_cloud import GoogleCloud
from det_cli.deployment.rehearsal.plan import Rates, make, parse_steps
from det_cli.deployment.rehearsal.runner import Rehearsal
from det_cli.deployment.rehearsal.stage import Cloud, Stage
from determined.common.sign_in import SignedIn, login, open_session

from tests.support.cloudbox.box import Box
from tests.support.cloudbox.gce import PROJECT
from tests.support.cloudbox.pools import box_for_a_cluster, boxed_cluster, on_aws, on_google, pool
from tests.support.cluster import Cluster

pytestmark = pytest.mark.usefixtures("machines_may_boot")
STEPS = "up,idle,spot,train,interruption,upgrade"
BUDGET_USD = 100_000.0  # a boxed machine costs $1,620 an hour
RATES = Rates(machine=1.0, aux_machine=0.0, awake=0.0, idle=0.0)


@dataclass
class BoxedDeployment:
    """A local cluster in place of one that Terraform made."""

    box: Box
    cluster: Cluster
    cluster_id: str = "boxed"

    def exists(self) -> bool:
        return True

    def make(self) -> None:
        data = ("--data-dir", self.cluster.folder / "data")
        self.cluster.down()
        result = self.cluster.run("deploy", "local", "cluster-up", *data, environ=self.box.environment)  # fmt: skip
        assert result.code == 0, result.err

    def outputs(self) -> Mapping[str, Any]:
        return {}

    def sign_in(self) -> ClusterClient:
        anonymous = open_session(f"http://127.0.0.1:{self.cluster.port}")
        return ClusterClient(
            SignedIn(anonymous, "admin", login(anonymous, "admin", "")), BUDGET_USD
        )

    def remove(self) -> Sequence[str]:
        raise AssertionError("no test removes this cluster")


@pytest.fixture(scope="module")
def boxed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoxedDeployment]:
    folder = tmp_path_factory.mktemp("rehearsal")
    stays = {"max_idle_agent_period": "60s"}
    with box_for_a_cluster(folder / "clouds") as box:
        pools = (
            pool("aws", on_aws(box, "a"), **stays),
            pool("google", on_google(box, "a"), **stays),
        )
        with boxed_cluster(box, folder / "cluster", *pools) as cluster:
            yield BoxedDeployment(box, cluster)


def cloud_of(name: str, boxed: BoxedDeployment, patch: pytest.MonkeyPatch) -> Cloud:
    """Return the operator's account, with the name that the cluster gives its machines there."""
    cluster_id = boxed.cluster.cluster_id()
    if name == "aws":
        for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(variable, "testing")
        return AwsCloud(Aws("us-west-2", boxed.box.aws_url), cluster_id, "rds")
    google = Google(PROJECT, "us-central1", endpoint_url=boxed.box.gce_url)
    vars(google)["_session"] = requests.Session()  # the fake asks for no sign-in
    return GoogleCloud(google, cluster_id)


@pytest.mark.parametrize(
    ("name", "reclaimed"),
    [("aws", "without a notice"), ("google", "simulated a maintenance event of us-central1-a/")],
)
def test_every_step_passes_on_boxed_machines(
    boxed: BoxedDeployment, monkeypatch: pytest.MonkeyPatch, name: str, reclaimed: str
) -> None:
    messages: list[str] = []
    cloud = cloud_of(name, boxed, monkeypatch)
    stage = Stage(boxed, cloud, name, 1, 0.0, removes=False, say=messages.append)
    rehearsal = Rehearsal(
        make(parse_steps(STEPS), RATES, 0.0), stage, name, BUDGET_USD, {}, lambda report: None
    )
    report = rehearsal.run()
    outcomes = {outcome.step: outcome for outcome in report.outcomes}
    details = "\n".join([*messages, boxed.box.why(), boxed.cluster.why()])
    assert {o.state.value for o in report.outcomes} == {"passed"}, details
    assert reclaimed in outcomes["interruption"].detail
    assert "joined after" in outcomes["spot"].detail
    assert outcomes["spot"].cost_usd > 0
    assert (report.leftovers, list(stage.cluster.machines())) == ((), [])
    assert cloud.machines() == []
