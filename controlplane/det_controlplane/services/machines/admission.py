"""Admit the agent of a rented machine, only by a proof of the machine that it runs on."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from det_controlplane.core.provision.boot import has_own_slots
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.machines import machines
from det_controlplane.db.machines.machines import Newcomer
from det_controlplane.ports.compute import Unreachable
from det_controlplane.ports.identity import MachineIdentity, NotProven, Proof
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, NotSignedIn, Unready

# For longer than any proof is valid by itself.
PROOFS_REMEMBERED = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class MachineAge:
    """The seconds since a machine booted and since its image was made, as its agent reports them."""

    uptime_s: float | None = None
    image_age_s: float | None = None


def identity(
    ctx: Context, agent_id: str, kind: str, fields: Mapping[str, str], nonce: str
) -> MachineIdentity:
    """Verify the proof at its cloud, unless it names a machine that no row awaits."""
    verifier = ctx.verifiers.machines.get(kind)
    if verifier is None:
        kinds = ", ".join(["bootstrap_token", *sorted(ctx.verifiers.machines)])
        raise Invalid(f"proof kind {kind!r} is not supported here; this cluster takes: {kinds}")
    proof = Proof(kind, nonce, fields)
    try:
        claimed = verifier.claimed(proof)
        if claimed is not None:
            with ctx.db.autocommit() as tx:
                if not machines.is_awaited(tx, verifier.provider, claimed, agent_id):
                    raise _not_awaited(verifier.provider, claimed)
        return verifier.verify(proof)
    except NotProven as e:
        raise NotSignedIn(f"the proof of identity does not hold: {e}") from e
    except Unreachable as e:
        raise Unready(f"the proof of identity cannot be checked now: {e}") from e


def admit(
    ctx: Context,
    tx: Tx,
    machine: MachineIdentity,
    agent_id: str,
    slots: int,
    age: MachineAge,
) -> str:
    """Bind an agent with so many slots to the machine that the cluster launched; returns the pool of the machine."""
    proof = hashlib.sha256(f"{machine.provider}\n{machine.signed}".encode()).digest()
    if not machines.accept_proof(tx, proof, ctx.now(), PROOFS_REMEMBERED):
        raise NotSignedIn("the proof of identity was used before; make a new one")
    newcomer = machines.newcomer(tx, machine.provider, machine.cloud_id)
    if newcomer is not None:
        _check_slots(ctx, newcomer, slots)
    now = ctx.now()
    pool = machines.register(
        tx, machine.provider, machine.cloud_id, agent_id,
        _before(now, age.uptime_s), _before(now, age.image_age_s), now,
    )  # fmt: skip
    if pool is None:
        raise _not_awaited(machine.provider, machine.cloud_id)
    return pool


def _before(now: datetime, seconds: float | None) -> datetime | None:
    return None if seconds is None else now - timedelta(seconds=seconds)


def _check_slots(ctx: Context, machine: Newcomer, slots: int) -> None:
    """Refuse a machine that cannot hold the work it was rented for. It would stay idle and be rented again and
    again."""
    settings = ctx.config.section_settings(machine.pool, machine.section)
    chosen = settings.get("agent_config_file_contents")
    is_chosen = isinstance(chosen, Mapping) and has_own_slots(chosen)
    if slots < machine.slots and not is_chosen:
        raise NotSignedIn(
            f"the machine shows {slots} of the {machine.slots} slots that {machine.machine_type} has:"
            " a GPU or its driver is missing, or instance_slots of the pool is too large"
        )


def _not_awaited(provider: str, cloud_id: str) -> NotSignedIn:
    return NotSignedIn(
        f"{provider} machine {cloud_id[:80]!r} is not one that this cluster launched"
        " and waits for, or another agent joined from it"
    )
