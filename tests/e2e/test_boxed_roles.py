"""A machine of one cloud gives its tasks a role in the other, from the pool's section to the task, without a key."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from det_agent.other_cloud import AUDIENCE

from tests.support.cloudbox.box import Box, until
from tests.support.cloudbox.pools import box_for_a_cluster, boxed_cluster, on_aws, on_google, pool
from tests.support.cluster import Cluster

pytestmark = pytest.mark.usefixtures("machines_may_boot")
# The credentials that boto3 and Google's library find in a task.
ASKS = {
    "google": "import boto3; print('has', boto3.Session().get_credentials().access_key)",
    "aws": "import google.auth as a, google.auth.transport.requests as t; c, _ = a.default();"
    " c.refresh(t.Request()); print('has', c.token)",
}


@pytest.fixture(scope="module")
def boxed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Box, Cluster]]:
    folder = tmp_path_factory.mktemp("box")
    with box_for_a_cluster(folder / "clouds") as box:
        pools = (
            pool("google", on_google(box, "a", aws_role_arn=box.role.arn)),
            pool("aws", on_aws(box, "a", google_credentials=box.account.config)),
        )
        with boxed_cluster(box, folder / "cluster", *pools) as cluster:
            yield box, cluster


def output_of_task(boxed: tuple[Box, Cluster], name: str, folder: Path) -> str:
    """Return the output after "has" of a task on a rented machine of a pool."""
    box, cluster = boxed
    (folder / "ask.py").write_text(ASKS[name])
    content = {
        "entrypoint": "python3 ask.py", "max_restarts": 0,
        "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": 1}},
        "resources": {"resource_pool": name, "slots_per_trial": 1},
    }  # fmt: skip
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(content))
    experiment = cluster.create(config, folder)
    (trial,) = cluster.until(lambda: cluster.trials(experiment), "a trial")

    def said() -> str:
        log = "\n".join(line["message"] for line in cluster.task_logs(trial["id"]))
        return next(iter(re.findall(r"has (\S+)", log)), "")

    try:
        return str(until(said, "an answer", 150))
    except AssertionError as e:
        lines = [line["message"] for line in cluster.task_logs(trial["id"])]
        raise AssertionError(f"{e}: {lines[-20:]}{box.why()}") from None


def test_task_on_google_cloud_has_a_role_of_aws(boxed: tuple[Box, Cluster], tmp_path: Path) -> None:
    box, _ = boxed
    key = output_of_task(boxed, "google", tmp_path)
    assert box.role.audience == AUDIENCE
    assert box.sts.known[key].name == box.role.name
    assert box.sts.known[key].session.startswith("det-"), "named by the machine"


def test_task_on_aws_has_an_account_of_google(boxed: tuple[Box, Cluster], tmp_path: Path) -> None:
    box, _ = boxed
    assert output_of_task(boxed, "aws", tmp_path) in box.account.tokens
