"""The deployment of a rehearsed cluster, for the steps of the rehearsal."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from det_cli.deployment.cluster import Deployment
from det_cli.deployment.rehearsal.cluster_client import ClusterClient
from det_cli.deployment.running_cluster import signed_in
from det_cli.errors import CommandError

_DRAIN_S = 600.0


class DeployedCluster:
    """A cluster in the operator's account."""

    def __init__(
        self,
        deployment: Deployment,
        cluster_id: str,
        deploy: Callable[[], None],
        max_cost_usd: float,
        *,
        keeps_data: bool,
    ) -> None:
        self.cluster_id = cluster_id
        self._deployment = deployment
        self._deploy = deploy
        self._max_cost_usd = max_cost_usd
        self._keeps_data = keeps_data
        self._outputs: dict[str, Any] = {}

    def exists(self) -> bool:
        """Return True if the account has the cluster, even if it is incomplete."""
        return self.cluster_id in self._deployment.account.clusters()

    def make(self) -> None:
        self._deploy()
        self._outputs = {}

    def outputs(self) -> Mapping[str, Any]:
        if not self._outputs:
            self._outputs = self._deployment.outputs()
        return self._outputs

    def sign_in(self) -> ClusterClient:
        """Sign in as admin with the first password, or as the user of `det user login` on this machine."""
        url = str(self.outputs().get("url") or "")
        if not url:
            raise CommandError(
                f"the cluster {self.cluster_id} has no address: its `up` did not complete",
                f"run `det deploy {self._deployment.stack} up` to continue it",
            )
        session = signed_in(url, str(self.outputs().get("initial_user_password", "")))
        return ClusterClient(session, self._max_cost_usd)

    def remove(self) -> Sequence[str]:
        bucket = str(self.outputs().get("bucket", ""))
        unchecked = self._deployment.down(force=False, keep_data=self._keeps_data, drain_s=_DRAIN_S)
        if unchecked:
            places = ", ".join(map(str, unchecked))
            raise CommandError(
                f"machines in {places} could not be listed", "check them in the cloud's console"
            )
        return list(self._remains(bucket))

    def _remains(self, bucket: str) -> Sequence[str]:
        remains = ["the bucket of Terraform's states, which the next cluster also uses"]
        if self._keeps_data:
            remains.append(f"the bucket {bucket} with code and checkpoints")
            restore_command = self._deployment.restore_command()
            if restore_command:
                remains.append(
                    f"a final copy of the database; this command restores the cluster: {restore_command}"
                )
        return remains
