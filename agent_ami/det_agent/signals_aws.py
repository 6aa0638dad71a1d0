"""Notices of EC2 that a spot machine is taken back, or soon may be."""

from collections.abc import Sequence

from det_controlplane.core.agent_protocol import Signal

from det_agent.metadata_aws import Ec2Metadata, read_object

_INTERRUPTION = "meta-data/spot/instance-action"  # two minutes before
_REBALANCE = "meta-data/events/recommendations/rebalance"  # often earlier, sometimes in vain


class Ec2Notices:
    """Looks for notices in the metadata service, as `signals.SignalSource`."""

    interval_s = 5.0

    def __init__(self) -> None:
        self._metadata = Ec2Metadata()

    def look(self) -> Sequence[Signal]:
        """Return the notices in force. Raises OSError when the service does not answer."""
        found = []
        interruption = self._told(_INTERRUPTION)
        if interruption:
            found.append(Signal("spot_interruption", read_object(interruption).get("time")))
        if self._told(_REBALANCE):
            found.append(Signal("rebalance"))
        return found

    def _told(self, path: str) -> str:
        try:
            return self._metadata.get(path)
        except FileNotFoundError:
            return ""
