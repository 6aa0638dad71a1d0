"""A cluster for screenshots that has rented machines of an in-memory cloud for some hours."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Scope
from det_controlplane.db.engine.database import Database

from tests.support.api import Caller, create
from tests.support.postgres import throwaway_server
from tests.support.rented import OFFERS, MachineAgent, RentedCluster, rented_cluster
from tests.support.served_api import served

_REFUSED = "us-east-1a has no g5.1 machine to spare (InsufficientInstanceCapacity)."


@contextmanager
def renting(folder: Path) -> Iterator[str]:
    """Serve such a cluster and yield its address."""
    with throwaway_server() as server, server.database() as url:
        database = Database(url)
        with rented_cluster(database, folder) as cluster:
            _work(cluster)
            with served(cluster.api) as address:
                yield address
        database.dispose()


def _work(cluster: RentedCluster) -> None:
    now = datetime.now(timezone.utc)
    cluster.time = now - timedelta(hours=7)
    user = cluster.api.signed_in("determined")
    for hours in (2, 1):
        _train_to_the_end(cluster, user, hours)
    cluster.time = now - timedelta(hours=2)
    create(user, name="digits on a4", activate=True, resources={"slots_per_trial": 4})
    create(user, name="wide digits", activate=True)
    agents = []
    cluster.settle()
    for machine in cluster.cloud.alive():
        agents.append(cluster.boot(machine))
    cluster.settle()
    for agent in agents:
        agent.work()
    _pass(cluster, now - cluster.time, agents)
    cluster.cloud.refuse(Scope.of(OFFERS[0]), RefusalKind.NO_CAPACITY, _REFUSED)
    create(user, name="digits once more", activate=True)
    cluster.settle()


def _train_to_the_end(cluster: RentedCluster, user: Caller, hours: float) -> None:
    experiment = create(user, activate=True)
    _, agent = cluster.employ()
    _pass(cluster, timedelta(hours=hours), [agent])
    user.post(f"/api/v1/experiments/{experiment}/kill")
    agent.finish()
    for _ in range(4):
        cluster.pass_time(minutes=10)
        cluster.settle(1)


def _pass(cluster: RentedCluster, span: timedelta, agents: list[MachineAgent]) -> None:
    cluster.time += span
    for agent in agents:
        agent.poll()
