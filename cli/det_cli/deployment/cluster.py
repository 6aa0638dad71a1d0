"""A cluster in a cloud: apply its stack, prove that it answers, and remove it all. Clouds differ in the hooks."""

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
    bucket_names,
    draining,
    extras,
    fleet,
    health,
    pool_warnings,
    restoring,
)
from det_cli.deployment.fleet import Fleet, Location, MachineAccount
from det_cli.deployment.machine_images import check_gpus
from det_cli.deployment.prices import ControlPlaneCost
from det_cli.deployment.stack import Stack
from det_cli.deployment.terraform import Backend, Terraform
from det_cli.errors import CommandError, MissingError, UsageError
from det_cli.render import Say

_TOLD = "password_told"  # among the kept options
_PASSWORD_CHARACTERS = string.ascii_letters + string.digits


@dataclass(frozen=True)
class ClusterSpec:
    """A cluster as the operator describes it."""

    cluster_id: str
    region: str
    config: dict[str, Any] = field(default_factory=dict)  # of the cluster, as in master.yaml
    variables: dict[str, Any] = field(default_factory=dict)  # of the Terraform stack
    path_named: Callable[[str], str] = str  # names a path of the configuration as it was given
    password: str = ""
    endpoint_url: str = ""  # of the cloud itself, for trials without it
    profile: str = ""  # of the operator's credentials


class Account(MachineAccount, Protocol):
    """Carry out the command's own part in the operator's account; Terraform does the rest."""

    def clusters(self) -> list[str]:
        """Return the clusters that the account has here, as their states say."""

    def make_state_bucket(self) -> None:
        """Make the bucket of Terraform's states, if this is the account's first cluster here."""

    def backend(self, cluster_id: str) -> Backend:
        """Return where Terraform keeps the state of a cluster, and locks it."""

    def forget_state(self, cluster_id: str) -> None:
        """Delete the state of a cluster that is gone, and its options."""

    def options(self, cluster_id: str) -> dict[str, Any]:
        """Return the options with which the cluster was made last; none for a new one."""

    def keep_options(self, cluster_id: str, options: Mapping[str, Any]) -> None:
        """Store options beside the state of a cluster."""

    def has_bucket(self, name: str) -> bool: ...

    def secrets_key(self, database: str) -> str:
        """Return the key with which secrets in a database are encrypted, also of a cluster that is gone.

        Empty where nobody knows it.
        """

    def keep_secrets_key(self, database: str, key: str) -> None:
        """Store the key of a database beside the states of clusters, for what it left."""


class Deployment(ABC):
    """A cluster of an account."""

    stack: ClassVar[str]  # the folder of the root stack
    # What the answer about data concerns: Terraform deletes by what it was told when it last applied.
    # The first is the bucket.
    data: ClassVar[tuple[str, ...]]
    storage_type: ClassVar[str]  # of checkpoints
    lasting: ClassVar[
        tuple[str, ...]
    ] = ()  # among what is kept, beside the options of the last time

    account: Account

    def __init__(self, spec: ClusterSpec, say: Say) -> None:
        self._spec = spec
        self._say = say

    def up(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Create the cluster, or bring it up to date; returns its outputs. Interrupted, it goes on when repeated.

        The options are those of the next time, too.
        """
        self._check()
        self._warn()
        with self._open() as stack:
            self._must_be_ours(stack.terraform)
            self._keep(options)
            # The stack keeps the first password that it was given, also over an interruption.
            password = self._spec.password or _password()
            variables = {**self._variables(stack.folder), "initial_user_password": password}
            self._take_over_bucket(stack.terraform)
            variables |= self._prepare(stack, variables)
            self._apply(stack, variables)
            outputs = stack.terraform.outputs()
        self._settle(outputs)
        try:
            health.wait_until_healthy(str(outputs["url"]), self._where_logs_are(), self._say)
        except CommandError as e:
            if self._roll_back(outputs):
                raise CommandError(
                    f"the new version does not answer at {outputs['url']}: the previous one is back",
                    e.hint,
                ) from e
            raise
        self._drop_old_versions(outputs)
        password = str(outputs.pop("initial_user_password"))
        if not self._spec.password and health.accepts_password(str(outputs["url"]), password):
            if self.account.options(self._spec.cluster_id).get(_TOLD):
                outputs["holds_first_password"] = True
            else:
                outputs["first_password"] = password
        return outputs

    def _apply(self, stack: Stack, variables: dict[str, Any]) -> None:
        stack.terraform.apply(variables, self._say)

    def password_told(self) -> None:
        """Keep that the operator has been shown the first password: no later `up` shows it."""
        cluster_id = self._spec.cluster_id
        kept = self.account.options(cluster_id)
        self.account.keep_options(cluster_id, {**kept, _TOLD: True})

    def plan(self) -> None:
        """Tell what `up` would do, and do nothing."""
        self._warn()
        with self._open(keep_state=self._spec.cluster_id in self.account.clusters()) as stack:
            self._must_be_ours(stack.terraform)
            variables = {**self._variables(stack.folder), "initial_user_password": "unknown"}
            stack.terraform.plan(variables, self._say)

    def down(self, *, force: bool, keep_data: bool, drain_s: float) -> list[Location]:
        """Remove everything of the cluster, and prove it. Returns where no machines could be looked for.

        Unless forced, work gets some seconds to save checkpoints and to leave; machines with work are not ended.
        """
        cluster_id = self._spec.cluster_id
        self.must_be_known()
        found = self._fleet.found()
        if not force:
            _refuse_unseen(found)
            if not drain_s:
                _refuse_machines(found, "pause its experiments and wait, or give --force")
        with self._open() as stack:
            self._must_be_ours(stack.terraform)
            if found.names() and not force:
                self._drain(stack.terraform.outputs(), found, drain_s)
            variables = self._removing(stack, keep_data)
            self._stop_renting(stack, variables)
            self._fleet.end()
            self._remove(stack, variables, keep_data)
        self._fleet.forget()
        left = self._left()
        if left:
            raise CommandError(
                f"of the cluster is left: {', '.join(left)}",
                "run the same command again, with --force",
            )
        self.account.forget_state(cluster_id)
        return list(found.unseen)

    def way_back(self) -> str:
        """Return the command that brings a removed cluster back with its data; empty for none."""
        return ""

    def outputs(self) -> dict[str, Any]:
        """Return the outputs of the stack, with the first password of the users."""
        with self._open() as stack:
            return stack.terraform.outputs()

    def status(self) -> dict[str, Any]:
        """Return the address of the cluster, whether it answers, and how many machines it rents."""
        self.must_be_known()
        outputs = self.outputs()
        outputs.pop("initial_user_password", None)
        found = {"cluster": self._spec.cluster_id, "region": self._spec.region, **outputs}
        fleet_ = self._fleet.found()
        found["machines"] = len(fleet_.names())
        if fleet_.unseen:
            found["not_looked_at"] = [str(location) for location in fleet_.unseen]
        found["answers"] = bool(outputs.get("url")) and health.is_healthy(str(outputs["url"]))
        return found

    @abstractmethod
    def check_name(self) -> None:
        """Raise UsageError for a name that a new cluster cannot have; one that has it all the same can be removed."""

    @abstractmethod
    def _check(self) -> None:
        """Raise what would make the deployment fail, before anything is made."""

    @abstractmethod
    def _bucket(self) -> str:
        """Return the name of the bucket of contexts and checkpoints."""

    @abstractmethod
    def _variables(self, folder: Path, *, build: bool = True) -> dict[str, Any]:
        """Return the variables of the stack."""

    @abstractmethod
    def _stop_renting(self, stack: Stack, variables: dict[str, Any]) -> None:
        """Let nothing rent another machine."""

    @abstractmethod
    def _before_the_rest(
        self, stack: Stack, variables: dict[str, Any], made: Sequence[str]
    ) -> None:
        """Remove what must go before the rest of what was made."""

    def _prepare(self, stack: Stack, variables: dict[str, Any]) -> dict[str, Any]:
        """Create what the stack needs first; return more variables for it."""
        return {}

    @abstractmethod
    def prices(self) -> Iterator[str]:
        """Tell what a month of the cluster costs, idle and busy."""

    @abstractmethod
    def usd_hour(self) -> ControlPlaneCost:
        """Return the cost of an hour of the control plane at list prices, idle and while machines run."""

    @abstractmethod
    def _settle(self, outputs: dict[str, Any]) -> None:
        """Do what is left when the stack is applied."""

    def _roll_back(self, outputs: dict[str, Any]) -> bool:
        """Put the version back that answered before; tell whether there was one."""
        return False

    @abstractmethod
    def _drop_old_versions(self, outputs: dict[str, Any]) -> None:
        """Delete versions of the control plane that are older than an upgrade needs."""

    def _left(self) -> list[str]:
        """Return the resources that a removed cluster has left in the cloud, apart from kept data."""
        return self._fleet.found().names()

    @abstractmethod
    def _where_logs_are(self) -> str:
        """Say where the API explains itself."""

    def environment(self) -> dict[str, str]:
        """Return variables for Terraform's own environment."""
        return {}

    def check_config(self) -> None:
        """Raise UsageError for what the control plane or the cloud would refuse; asks nothing of the account."""
        name = self._spec.variables.get("bucket")
        if name:
            bucket_names.check(self.storage_type, str(name))
        check_gpus(self._checked("any-bucket"))

    def config(self) -> dict[str, Any]:
        """Return the cluster's configuration, with what the deployment knows of where its machines are.

        Raises UsageError where the control plane would refuse it.
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
        given = {"checkpoint_storage": storage, **self._spec.config}
        config = with_defaults(given, self._provider_defaults())
        try:
            load_checked(config)
        except InvalidConfig as e:
            named = (Problem(self._spec.path_named(p.path), p.message) for p in e.problems)
            raise UsageError(
                str(InvalidConfig(list(dict.fromkeys(named)), what="cluster configuration")),
                "resource_pools come from the options, or from --config FILE;"
                f" `det deploy {self.stack} dump-master-config-template` prints one to begin with",
            ) from e
        return config

    @abstractmethod
    def _provider_defaults(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the values that provider sections may leave out as this deployment knows them, by provider."""

    def _warn(self) -> None:
        """Tell what in the configuration will hardly do what it is meant to."""
        from det_controlplane.core.config.cluster import load_cluster
        from det_controlplane.core.config.storage_credentials import warnings

        config = load_cluster(self.config())
        for warning in (
            *warnings(config),
            *pool_warnings.warnings(config, self.stack, self._spec.region),
        ):
            self._say(f"warning: {warning}")

    def must_be_known(self) -> None:
        """Raise MissingError for a cluster that is not there."""
        known = self.account.clusters()
        if self._spec.cluster_id not in known:
            raise MissingError(
                f"there is no cluster {self._spec.cluster_id} in {self._spec.region};"
                f" clusters here: {', '.join(known) or 'none'}",
                f"`det deploy {self.stack} list` with another --region shows those elsewhere",
            )

    def _must_be_ours(self, terraform: Terraform) -> None:
        """Refuse a state of another program: its resources would be replaced by those of this cluster.

        Determined's own `det deploy gcp` keeps states in a bucket of the same name.
        """
        cluster_id = self._spec.cluster_id
        if self.account.options(cluster_id) or cluster_id not in self.account.clusters():
            return
        made = terraform.resources()
        if made:
            raise CommandError(
                f"the state of {cluster_id} was written by another program, which made {len(made)} resources",
                "give another --cluster-id; a cluster of Determined's own command is removed by that command",
            )

    def _open(self, *, keep_state: bool = True) -> Stack:
        if not keep_state:
            return Stack(self.stack, None, self.environment())
        self.account.make_state_bucket()
        backend = self.account.backend(self._spec.cluster_id)
        return Stack(self.stack, backend, self.environment())

    def _removing(self, stack: Stack, keep_data: bool) -> dict[str, Any]:
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
        made = stack.terraform.resources()
        decided = [name for name in self.data if name in made]
        if decided:
            stack.terraform.apply(variables, self._say, only=decided)
        if keep_data:
            stack.terraform.forget([name for name in made if name.startswith("module.storage.")])
        self._before_the_rest(stack, variables, made)
        stack.terraform.destroy(variables, self._say)

    def _take_over_bucket(self, terraform: Terraform) -> None:
        """Take back the bucket that an earlier cluster of this name left behind."""
        address, name = self.data[0], self._bucket()
        if address not in terraform.resources() and self.account.has_bucket(name):
            self._say(f"Taking over the bucket {name}")
            terraform.take_over(address, name)

    # What comes back

    @property
    def _database(self) -> str:
        """Return the name of the database, of this cluster and of those before it with its name."""
        return f"det-{self._spec.cluster_id}".lower()

    def _databases(self) -> list[str]:
        """Return the databases whose secrets the cluster reads: its own after those that it begins from."""
        return [self._database]

    def _key_of_secrets(self) -> dict[str, Any]:
        """Return the variable with the keys of what was there before; nothing where the stack makes the first one."""
        keys = restoring.keys_of(self.account, *self._databases())
        return {"secrets_key": keys} if keys else {}

    def _take_over_key(self, variables: Mapping[str, Any], restored: str) -> None:
        """Keep the key of what is restored under this database's name, for all times that follow; say what is lost."""
        if variables.get("secrets_key"):
            self.account.keep_secrets_key(self._database, str(variables["secrets_key"]))
        bucket = str(self._spec.variables.get("bucket") or "")
        for warning in restoring.warnings(self.account, restored, self._database, bucket):
            self._say(f"warning: {warning}")

    # Machines

    @cached_property
    def _fleet(self) -> Fleet:
        """Return the machines of all locations that the cluster's configurations, also earlier ones, have named."""
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
        known = fleet.kept(options)
        try:
            known += fleet.locations_of(
                with_defaults(options.get("config") or {}, self._provider_defaults())
            )
        except InvalidConfig:
            pass  # of another version, which kept them, too
        return known

    def _keep(self, options: Mapping[str, Any]) -> None:
        """Store the options for the next time, and all locations where the cluster may have rented by then."""
        cluster_id = self._spec.cluster_id
        locations = fleet.to_keep(self._earlier_locations(), fleet.locations_of(self.config()))
        kept = self.account.options(cluster_id)
        lasting = {name: kept[name] for name in (_TOLD, *self.lasting) if name in kept}
        self.account.keep_options(cluster_id, {**options, "places": locations, **lasting})

    def _drain(
        self, outputs: Mapping[str, Any], found: fleet.FoundMachines, limit_s: float
    ) -> None:
        """Let work leave the machines, so that they can end. Raises CommandError where it does not."""
        url = str(outputs.get("url") or "")
        if not (url and health.is_healthy(url)):
            hint = "nothing can ask their work for checkpoints, as the cluster does not answer: --force ends them"
            _refuse_machines(found, hint)
        draining.drain(url, str(outputs.get("initial_user_password", "")), limit_s, self._say)

    @abstractmethod
    def _own_location(self) -> Location:
        """Return where the cluster is, and rents unless its configuration says otherwise."""

    def _account_at(self, location: Location) -> MachineAccount:
        """Return the operator's account at another location. Raises CommandError."""
        return fleet.account_at(location)


def _refuse_unseen(found: fleet.FoundMachines) -> None:
    """Refuse to remove what may still pay for machines that nobody has looked for."""
    for location, e in found.unseen.items():
        raise CommandError(
            f"the cluster may have machines in {location}, which does not tell: {e.cause}",
            f"{e.hint}; --force removes the rest, and leaves those there",
        )


def _refuse_machines(found: fleet.FoundMachines, hint: str) -> None:
    machines = found.names()
    if machines:
        raise CommandError(
            f"{len(machines)} machines of the cluster are running: {', '.join(machines[:5])}", hint
        )


def _password() -> str:
    return "".join(secrets.choice(_PASSWORD_CHARACTERS) for _ in range(20))
