"""The deployment of a cluster to a cloud: apply its stack, check its health, and remove it.

Subclasses implement the abstract methods for each cloud."""

import secrets
import string
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Protocol

from det_cli.deployment import (
    extras,
    fleet,
    pool_checks,
    restoring,
    running_cluster,
    stack_variables,
)
from det_cli.deployment.fleet import Fleet, Location, MachineAccount
from det_cli.deployment.machine_image import BEFORE
from det_cli.deployment.pool_checks import check_gpus
from det_cli.deployment.prices import ControlPlaneCost
from det_cli.deployment.stack import Stack
from det_cli.deployment.terraform import Backend, Terraform
from det_cli.errors import CommandError, MissingError, UsageError
from det_cli.render import Say

_PASSWORD_SHOWN = "password_told"  # key in the stored options
_PASSWORD_CHARACTERS = string.ascii_letters + string.digits


@dataclass(frozen=True)
class ClusterSpec:
    """The operator's description of a cluster."""

    cluster_id: str
    region: str
    config: dict[str, Any] = field(
        default_factory=dict
    )  # the cluster configuration, as in master.yaml
    variables: dict[str, Any] = field(default_factory=dict)  # variables of the Terraform stack
    path_label: Callable[[str], str] = str  # names a configuration path as the user set it
    password: str = ""
    endpoint_url: str = ""  # endpoint of a cloud emulator, for tests
    profile: str = ""  # AWS credentials profile of the operator


class Account(MachineAccount, Protocol):
    """The operator's account: the actions that the command runs without Terraform."""

    def clusters(self) -> list[str]:
        """Return the clusters of the account in this region or project, as listed by their Terraform states."""

    def make_state_bucket(self) -> None:
        """Create the bucket for Terraform states if this is the first cluster."""

    def backend(self, cluster_id: str) -> Backend:
        """Return the Terraform backend for the state and lock of a cluster."""

    def forget_state(self, cluster_id: str) -> None:
        """Delete the Terraform state and stored options of a removed cluster."""

    def options(self, cluster_id: str) -> dict[str, Any]:
        """Return the stored options of the last `up`, or {} for a new cluster."""

    def keep_options(self, cluster_id: str, options: Mapping[str, Any]) -> None:
        """Store options next to the Terraform state of a cluster."""

    def has_bucket(self, name: str) -> bool: ...

    def secrets_key(self, database: str) -> str:
        """Return the encryption key of the secrets in a database, even if its cluster was removed.

        Returns '' if the key is unknown.
        """

    def keep_secrets_key(self, database: str, key: str) -> None:
        """Store the key of a database next to the Terraform states, for later restores."""


class Deployment(ABC):
    """A cluster in an account."""

    stack: ClassVar[str]  # the folder of the root stack
    # The resources with data. They are applied with `keep_data` before the removal, because Terraform deletes
    # resources with the settings of the last apply. The first resource is the bucket.
    data: ClassVar[tuple[str, ...]]
    storage_type: ClassVar[str]  # type of the checkpoint storage
    lasting: ClassVar[
        tuple[str, ...]
    ] = ()  # stored values that `up` preserves in addition to its options

    account: Account

    def __init__(self, spec: ClusterSpec, say: Say) -> None:
        self._spec = spec
        self._say = say

    def up(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Create or update the cluster and return its outputs. An interrupted run can be repeated.

        The options are stored for the next run.
        """
        self._check()
        self._warn()
        with self._open() as stack:
            self._check_state_owner(stack.terraform)
            self._keep(options)
            # The stack keeps the first password, even if this run is interrupted and repeated.
            password = self._spec.password or _password()
            variables = {**self._variables(stack.folder), "initial_user_password": password}
            self._import_bucket(stack.terraform)
            variables |= self._prepare(stack, variables)
            self._apply(stack, variables)
            outputs = stack.terraform.outputs()
        self._finish(outputs)
        try:
            running_cluster.wait_until_healthy(str(outputs["url"]), self._logs_hint(), self._say)
        except CommandError as e:
            if self._roll_back(outputs):
                raise CommandError(
                    f"the new version does not answer at {outputs['url']}: the previous version was restored",
                    e.hint,
                ) from e
            raise
        self._drop_old_versions(outputs)
        password = str(outputs.pop("initial_user_password"))
        if not self._spec.password and running_cluster.accepts_password(
            str(outputs["url"]), password
        ):
            if self.account.options(self._spec.cluster_id).get(_PASSWORD_SHOWN):
                outputs["holds_first_password"] = True
            else:
                outputs["first_password"] = password
        return outputs

    def _apply(self, stack: Stack, variables: dict[str, Any]) -> None:
        stack.terraform.apply(variables, self._say)

    def mark_password_shown(self) -> None:
        """Store that the first password was printed, so that a later `up` does not print it again."""
        cluster_id = self._spec.cluster_id
        stored = self.account.options(cluster_id)
        self.account.keep_options(cluster_id, {**stored, _PASSWORD_SHOWN: True})

    def plan(self) -> None:
        """Print the changes that `up` would make, without making them."""
        self._warn()
        with self._open(keep_state=self._spec.cluster_id in self.account.clusters()) as stack:
            self._check_state_owner(stack.terraform)
            variables = {**self._variables(stack.folder), "initial_user_password": "unknown"}
            stack.terraform.plan(variables, self._say)

    def down(self, *, force: bool, keep_data: bool, drain_s: float) -> list[Location]:
        """Remove the cluster and verify the removal. Return the locations that could not be checked for machines.

        Unless forced, running work gets `drain_s` seconds to save checkpoints, and machines with work are kept.
        """
        cluster_id = self._spec.cluster_id
        self.check_exists()
        machines = self._fleet.machines()
        if not force:
            _check_locations(machines)
            if not drain_s:
                _check_no_machines(machines, "pause its experiments and wait, or give --force")
        with self._open() as stack:
            self._check_state_owner(stack.terraform)
            if machines.names() and not force:
                self._drain(stack.terraform.outputs(), machines, drain_s)
            variables = self._removal_variables(stack, keep_data)
            self._stop_renting(stack, variables)
            self._fleet.end()
            self._remove(stack, variables, keep_data)
        self._fleet.forget()
        remaining = self._remaining()
        if remaining:
            raise CommandError(
                f"these resources of the cluster remain: {', '.join(remaining)}",
                "run the same command again, with --force",
            )
        self.account.forget_state(cluster_id)
        return list(machines.unchecked)

    def restore_command(self) -> str:
        """Return the command that restores a removed cluster with its data, or ''."""
        return ""

    def outputs(self) -> dict[str, Any]:
        """Return the outputs of the stack, including the first password of the users."""
        with self._open() as stack:
            return stack.terraform.outputs()

    def status(self) -> dict[str, Any]:
        """Return the address, the health and the number of rented machines of the cluster."""
        self.check_exists()
        outputs = self.outputs()
        outputs.pop("initial_user_password", None)
        result = {"cluster": self._spec.cluster_id, "region": self._spec.region, **outputs}
        fleet_ = self._fleet.machines()
        result["machines"] = len(fleet_.names())
        if fleet_.unchecked:
            result["not_looked_at"] = [str(location) for location in fleet_.unchecked]
        result["answers"] = bool(outputs.get("url")) and running_cluster.is_healthy(
            str(outputs["url"])
        )
        return result

    @abstractmethod
    def check_name(self) -> None:
        """Raise UsageError for an invalid name of a new cluster. Existing clusters with such names can be removed."""

    @abstractmethod
    def _check(self) -> None:
        """Raise an error for problems that would fail the deployment. Called before any change."""

    @abstractmethod
    def _bucket(self) -> str:
        """Return the name of the bucket for contexts and checkpoints."""

    @abstractmethod
    def _variables(self, folder: Path, *, build: bool = True) -> dict[str, Any]:
        """Return the variables of the stack."""

    @abstractmethod
    def _stop_renting(self, stack: Stack, variables: dict[str, Any]) -> None:
        """Prevent the control plane from renting machines."""

    @abstractmethod
    def _remove_first(
        self, stack: Stack, variables: dict[str, Any], resources: Sequence[str]
    ) -> None:
        """Remove the resources that block the removal of the others."""

    def _prepare(self, stack: Stack, variables: dict[str, Any]) -> dict[str, Any]:
        """Create the prerequisites of the stack and return additional variables."""
        return {}

    @abstractmethod
    def prices(self) -> Iterator[str]:
        """Yield lines with the monthly cost of the cluster, idle and busy."""

    @abstractmethod
    def usd_hour(self) -> ControlPlaneCost:
        """Return the hourly list price of the control plane, idle and while machines run."""

    @abstractmethod
    def _finish(self, outputs: dict[str, Any]) -> None:
        """Run the steps that follow after the stack is applied."""

    def _roll_back(self, outputs: dict[str, Any]) -> bool:
        """Restore the previous version. Return False without one."""
        return False

    @abstractmethod
    def _drop_old_versions(self, outputs: dict[str, Any]) -> None:
        """Delete versions of the control plane that are no longer needed for a rollback."""

    def _remaining(self) -> list[str]:
        """Return the remaining resources of a removed cluster, except kept data."""
        return self._fleet.machines().names()

    @abstractmethod
    def _logs_hint(self) -> str:
        """Return a hint with the location of the API's logs."""

    def environment(self) -> dict[str, str]:
        """Return environment variables for Terraform."""
        return {}

    def check_config(self) -> None:
        """Raise UsageError for an invalid configuration, without a request to the account."""
        name = self._spec.variables.get("bucket")
        if name:
            stack_variables.check_bucket_name(self.storage_type, str(name))
        check_gpus(self._checked("any-bucket"))

    def config(self) -> dict[str, Any]:
        """Return the cluster's configuration, completed with the deployment's region, storage and images.

        Raises UsageError for an invalid configuration.
        """
        return self._checked(self._bucket())

    def _checked(self, bucket: str) -> dict[str, Any]:
        try:
            from det_controlplane.core.config.cluster_check import load_checked
            from det_controlplane.core.config.provider_defaults import with_defaults
            from det_controlplane.core.problems import InvalidConfig, Problem
        except ModuleNotFoundError as e:
            raise extras.missing(e.name, self.stack) from e
        storage = {"type": self.storage_type, "bucket": bucket}
        partial_config = {"checkpoint_storage": storage, **self._spec.config}
        config = with_defaults(partial_config, self._provider_defaults())
        try:
            load_checked(config)
        except InvalidConfig as e:
            problems = (Problem(self._spec.path_label(p.path), p.message) for p in e.problems)
            raise UsageError(
                str(InvalidConfig(list(dict.fromkeys(problems)), what="cluster configuration")),
                "resource_pools come from the options, or from --config FILE;"
                f" `det deploy {self.stack} dump-master-config-template` prints one to start from",
            ) from e
        return config

    @abstractmethod
    def _provider_defaults(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the defaults of this deployment for provider sections, by provider."""

    def _warn(self) -> None:
        """Print warnings about the configuration."""
        from det_controlplane.core.config.cluster import load_cluster
        from det_controlplane.core.config.cluster_check import credential_warnings

        config = load_cluster(self.config())
        for warning in (
            *credential_warnings(config),
            *pool_checks.warnings(config, self.stack, self._spec.region),
        ):
            self._say(f"warning: {warning}")

    def check_exists(self) -> None:
        """Raise MissingError if the cluster does not exist."""
        clusters = self.account.clusters()
        if self._spec.cluster_id not in clusters:
            raise MissingError(
                f"there is no cluster {self._spec.cluster_id} in {self._spec.region};"
                f" clusters here: {', '.join(clusters) or 'none'}",
                f"`det deploy {self.stack} list` with another --region lists the clusters there",
            )

    def _check_state_owner(self, terraform: Terraform) -> None:
        """Raise CommandError for a Terraform state of another program, because `up` would replace its resources.

        Determined's own `det deploy gcp` stores states in a bucket with the same name.
        """
        cluster_id = self._spec.cluster_id
        if self.account.options(cluster_id) or cluster_id not in self.account.clusters():
            return
        resources = terraform.resources()
        if resources:
            raise CommandError(
                f"the state of {cluster_id} belongs to another program, which created {len(resources)} resources",
                "give another --cluster-id; remove a cluster of Determined's own command with that command",
            )

    def _open(self, *, keep_state: bool = True) -> Stack:
        if not keep_state:
            return Stack(self.stack, None, self.environment())
        self.account.make_state_bucket()
        backend = self.account.backend(self._spec.cluster_id)
        return Stack(self.stack, backend, self.environment())

    def _removal_variables(self, stack: Stack, keep_data: bool) -> dict[str, Any]:
        return {
            **self._variables(stack.folder, build=False),
            "keep_data": keep_data,
            "initial_user_password": "unknown",
            "removal": time.strftime("%Y%m%d%H%M%S", time.gmtime()),
        }

    def _remove(self, stack: Stack, variables: dict[str, Any], keep_data: bool) -> None:
        key = str(variables.get("secrets_key") or "")
        if keep_data and key:
            self.account.keep_secrets_key(self._database, key)
        resources = stack.terraform.resources()
        with_data = [name for name in self.data if name in resources]
        if with_data:
            stack.terraform.apply(variables, self._say, only=with_data)
        if keep_data:
            stack.terraform.forget(
                [name for name in resources if name.startswith("module.storage.")]
            )
        self._remove_first(stack, variables, resources)
        stack.terraform.destroy(variables, self._say)

    def _import_bucket(self, terraform: Terraform) -> None:
        """Import the bucket of an earlier cluster with this name."""
        address, name = self.data[0], self._bucket()
        if address not in terraform.resources() and self.account.has_bucket(name):
            self._say(f"Reusing the bucket {name}")
            terraform.import_resource(address, name)

    # Restored data

    @property
    def _database(self) -> str:
        """Return the name of the database. Earlier clusters with the same name used the same database name."""
        return f"det-{self._spec.cluster_id}".lower()

    def _databases(self) -> list[str]:
        """Return the databases with secrets that the cluster reads: restored databases first, then its own."""
        return [self._database]

    def _secrets_keys(self) -> dict[str, Any]:
        """Return the variable with the existing keys, or {} if the stack creates the first key."""
        keys = restoring.keys_of(self.account, *self._databases())
        return {"secrets_key": keys} if keys else {}

    def _reuse_key(self, variables: Mapping[str, Any], restored: str) -> None:
        """Store the key of a restored database under this cluster's name, and warn about lost data."""
        if variables.get("secrets_key"):
            self.account.keep_secrets_key(self._database, str(variables["secrets_key"]))
        bucket = str(self._spec.variables.get("bucket") or "")
        for warning in restoring.warnings(self.account, restored, self._database, bucket):
            self._say(f"warning: {warning}")

    # Machines

    @cached_property
    def _fleet(self) -> Fleet:
        """Return the machines in all locations of the current and earlier configurations."""
        locations: dict[Location, Callable[[], MachineAccount]] = {
            self._own_location(): lambda: self.account
        }
        for location in self._earlier_locations():
            locations.setdefault(location, partial(self._account_at, location))
        return Fleet(self._spec.cluster_id, locations, self._say)

    def _earlier_locations(self) -> list[Location]:
        from det_controlplane.core.config.provider_defaults import with_defaults
        from det_controlplane.core.problems import InvalidConfig

        options = self.account.options(self._spec.cluster_id)
        locations = fleet.stored_locations(options)
        try:
            locations += fleet.locations_of(
                with_defaults(options.get("config") or {}, self._provider_defaults())
            )
        except InvalidConfig:
            pass  # written by another version, which also stored its locations
        return locations

    def _keep(self, options: Mapping[str, Any]) -> None:
        """Store the options for the next run, and all locations in which the cluster may rent machines."""
        cluster_id = self._spec.cluster_id
        locations = fleet.merge_locations(
            self._earlier_locations(), fleet.locations_of(self.config())
        )
        stored = self.account.options(cluster_id)
        lasting = {
            name: stored[name]
            for name in (_PASSWORD_SHOWN, BEFORE, *self.lasting)
            if name in stored
        }
        self.account.keep_options(cluster_id, {**options, "places": locations, **lasting})

    def _drain(
        self, outputs: Mapping[str, Any], machines: fleet.MachineList, limit_s: float
    ) -> None:
        """Wait until the work has left the machines. Raises CommandError if work remains."""
        url = str(outputs.get("url") or "")
        if not (url and running_cluster.is_healthy(url)):
            hint = "the cluster does not answer, so it cannot request checkpoints: --force terminates the machines"
            _check_no_machines(machines, hint)
        running_cluster.drain(
            url, str(outputs.get("initial_user_password", "")), limit_s, self._say
        )

    @abstractmethod
    def _own_location(self) -> Location:
        """Return the cluster's location, which is also the default location of its pools."""

    def _account_at(self, location: Location) -> MachineAccount:
        """Return the operator's account in another location. Raises CommandError."""
        return fleet.account_at(location)


def _check_locations(machines: fleet.MachineList) -> None:
    """Raise CommandError if a location could not be checked, because machines there would continue to cost money."""
    for location, e in machines.unchecked.items():
        raise CommandError(
            f"the machines of the cluster in {location} cannot be listed: {e.cause}",
            f"{e.hint}; --force removes everything else and leaves these machines",
        )


def _check_no_machines(machines: fleet.MachineList, hint: str) -> None:
    names = machines.names()
    if names:
        raise CommandError(
            f"{len(names)} machines of the cluster are running: {', '.join(names[:5])}", hint
        )


def _password() -> str:
    return "".join(secrets.choice(_PASSWORD_CHARACTERS) for _ in range(20))
