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
from tests.support.rented import OFFERS, MachineAgent, Rented, rented_cluster
from tests.support.served_api import served

_REFUSED = "us-east-1a has no g5.1 machine to spare (InsufficientInstanceCapacity)."


@contextmanager
def renting(folder: Path) -> Iterator[str]:
    """Serve such a cluster and yield its address."""
    with throwaway_server() as server, server.database() as url:
        database = Database(url)
        with rented_cluster(database, folder) as rented:
            _work(rented)
            with served(rented.api) as address:
                yield address
        database.dispose()


def _work(rented: Rented) -> None:
    now = datetime.now(timezone.utc)
    rented.time = now - timedelta(hours=7)
    user = rented.api.signed_in("determined")
    for hours in (2, 1):
        _train_to_the_end(rented, user, hours)
    rented.time = now - timedelta(hours=2)
    create(user, name="digits on a4", activate=True, resources={"slots_per_trial": 4})
    create(user, name="wide digits", activate=True)
    agents = []
    rented.settle()
    for machine in rented.cloud.alive():
        agents.append(rented.boot(machine))
    rented.settle()
    for agent in agents:
        agent.work()
    _pass(rented, now - rented.time, agents)
    rented.cloud.refuse(Scope.of(OFFERS[0]), RefusalKind.NO_CAPACITY, _REFUSED)
    create(user, name="digits once more", activate=True)
    rented.settle()


def _train_to_the_end(rented: Rented, user: Caller, hours: float) -> None:
    experiment = create(user, activate=True)
    _, agent = rented.employ()
    _pass(rented, timedelta(hours=hours), [agent])
    user.post(f"/api/v1/experiments/{experiment}/kill")
    agent.finish()
    for _ in range(4):
        rented.pass_time(minutes=10)
        rented.settle(1)


def _pass(rented: Rented, span: timedelta, agents: list[MachineAgent]) -> None:
    rented.time += span
    for agent in agents:
        agent.poll()
