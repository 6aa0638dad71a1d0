"""The spans of the agent: the steps of the boot script, in the trace of the start for which the machine was rented."""

import logging
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from det_controlplane.core.agent_protocol import ContainerSpec
from determined.common.otlp import Spans

# The boot script appends a line for each step: the time in seconds, and the name.
STEPS = Path("/run/determined-boot-steps")
_DONE = "done"
_MOST_STEPS = 100

_log = logging.getLogger(__name__)


class BootSpans:
    """Sends the boot of a machine once, with the first container of a start for which the machine was rented."""

    def __init__(self, agent_id: str, steps: Path = STEPS) -> None:
        self._agent_id = agent_id
        self._steps = steps
        self.is_sent = False

    def send(self, spec: ContainerSpec) -> None:
        trace = spec.trace
        if self.is_sent or trace is None or not trace.is_rented:
            return
        self.is_sent = True
        try:
            steps = read_steps(self._steps)
        except OSError as e:
            _log.debug("the steps of the boot script cannot be read: %s", e)
            return
        if len(steps) < 2:
            return
        spans = Spans(
            trace.endpoint, trace.traceparent, "machine", {"det.agent.id": self._agent_id}
        )
        parent_id = spans.add("boot script", steps[0][0], steps[-1][0])
        for (begin_s, name), (end_s, _) in pairwise(steps):
            spans.add(name, begin_s, end_s, parent_id)
        spans.send()


def read_steps(file: Path) -> Sequence[tuple[float, str]]:
    """Return the begin and the name of each step up to the end of the script. Other lines are ignored."""
    steps: list[tuple[float, str]] = []
    for line in file.read_text("utf-8", "replace").splitlines()[:_MOST_STEPS]:
        at, _, name = line.partition(" ")
        try:
            steps.append((float(at), name[:200]))
        except ValueError:
            continue
        if name == _DONE:
            break
    return steps
