"""Ports on which the workers of a trial meet. Workers on one machine may share its network."""

from collections.abc import Iterator, Sequence

from det_controlplane.core import schedule
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.scheduling import schedule as rows_of
from det_controlplane.services.context import Context

# Names and lowest numbers of the ports that a multi-container trial may use.
PORT_BASES = {
    "DTRAIN_SSH_PORT": 12350,
    "INTER_TRAIN_PROCESS_COMM_PORT_1": 12360,
    "INTER_TRAIN_PROCESS_COMM_PORT_2": 12365,
    "C10D_PORT": 29400,
}
# Above it Linux takes the ports of connections that machines open.
HIGHEST = 32767


def choose(ctx: Context, tx: Tx, starts: Sequence[schedule.Start]) -> list[dict[str, int]]:
    """Return for each start the lowest free number of each name in the cluster, because agents may share a host.

    If the cluster runs more than there are numbers, no number is used twice on an agent."""
    reserved = ctx.config.reserved_ports
    in_use = rows_of.ports_in_use(tx) | reserved
    free = {name: _free(base, in_use) for name, base in PORT_BASES.items()}
    choices = [{name: next(numbers, 0) for name, numbers in free.items()} for _ in starts]
    if all(number for ports in choices for number in ports.values()):
        return choices
    agents = {placed.agent_id for start in starts for placed in start.placements}
    of_agents = rows_of.ports_on(tx, agents)
    for start, ports in zip(starts, choices, strict=True):
        own = [of_agents[placed.agent_id] for placed in start.placements]
        used = {*reserved, *ports.values()}.union(*own)
        for name, base in PORT_BASES.items():
            ports[name] = ports[name] or next(_free(base, used), base)
        for on_agent in own:
            on_agent.update(ports.values())
    return choices


def _free(base: int, in_use: set[int]) -> Iterator[int]:
    """Yield free numbers from the lowest on, and take them."""
    for port in range(base, HIGHEST + 1):
        if port not in in_use:
            in_use.add(port)
            yield port
