"""Define the tables of rented machines, and of machine types and prices that clouds report."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    Table,
    Text,
    Uuid,
    text,
)

from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Capacity
from det_controlplane.db.schema.base import JSON, Time, enum, metadata

_LIVE = "state NOT IN ('GONE', 'FAILED')"

# A row is committed before the cloud is called, and its id and attempt are the idempotency token of the call.
instances = Table(
    "instances",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("pool", Text, nullable=False),
    Column("state", enum(MachineState, "instance_state"), nullable=False),
    # The offers to rent, best first: alternatives of one provider, region and capacity. After the launch it is the
    # rented one.
    Column("offers", JSON, nullable=False),
    Column("provider", Text, nullable=False),
    Column("region", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("machine_type", Text, nullable=False),
    Column("capacity", enum(Capacity), nullable=False),
    Column("slots", Integer, nullable=False),
    Column("price_usd_hour", Numeric(14, 6), nullable=False),
    Column("section", Integer, nullable=False, server_default=text("0")),
    # The allocation that caused the launch. There is no foreign key, because costs of machines are kept longer.
    Column("purpose", Text),
    Column("cloud_id", Text),
    Column("placement", Text),  # of a machine of a gang: its placement group, or why it has none
    Column("attempt", Integer, nullable=False, server_default=text("1")),
    # Until then a call for this row is under way; later it is repeated, with the same token.
    Column("claimed_until", Time),
    Column("not_before", Time),  # the next attempt, after a refusal that passes by itself
    Column("agent_id", Text),  # no foreign key: proved before the agent has a row
    Column("requested_at", Time, nullable=False),
    Column("launched_at", Time),
    Column("booted_at", Time),  # when its kernel started, as its agent reports at the first join
    Column("image_built_at", Time),
    Column("registered_at", Time),
    Column("draining_since", Time),
    Column("terminating_since", Time),
    Column("ended_at", Time),
    Column("seen_at", Time),  # when its cloud last listed it
    Column("unseen", Integer, nullable=False, server_default=text("0")),  # listings without it
    Column("stopped", Boolean, nullable=False, server_default=text("false")),
    Column("reason", Text),  # of the drain or the end, or the refusal of the launch
    # It ended without its agent, by a fault of its own: one after the other holds the pool.
    Column("no_show", Boolean, nullable=False, server_default=text("false")),
    Column("console", Text),  # last lines of a machine that never joined
    CheckConstraint(f"(ended_at IS NOT NULL) = NOT ({_LIVE})", name="ended"),
    CheckConstraint("state <> 'LAUNCHED' OR cloud_id IS NOT NULL", name="launched"),
    CheckConstraint("price_usd_hour >= 0 AND slots >= 0", name="positive"),
    Index(
        "instances_cloud_id",
        "provider",
        "cloud_id",
        unique=True,
        postgresql_where=text("cloud_id IS NOT NULL"),
    ),
    Index("instances_live", "pool", postgresql_where=text(_LIVE)),
    Index("instances_agent", "agent_id", postgresql_where=text("agent_id IS NOT NULL")),
    # Reports of usage and money read machines by time.
    Index("instances_by_end", "ended_at", postgresql_where=text("launched_at IS NOT NULL")),
)

# Offers that a cloud refused. An empty text stands for every value.
cooldowns = Table(
    "cooldowns",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("region", Text, primary_key=True),
    Column("zone", Text, primary_key=True),
    Column("machine_type", Text, primary_key=True),
    Column("capacity", Text, primary_key=True),
    Column(
        "pool", Text, primary_key=True, server_default=text("''")
    ),  # pool with the refused section
    Column("kind", enum(RefusalKind), nullable=False),
    Column("until", Time, nullable=False),
    Column("sentence", Text, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("refused_at", Time, nullable=False),
    # Zones that have room, as the cloud said.
    Column("hint", JSON, nullable=False, server_default=text("'[]'")),
)

# Pools that must not launch machines.
pool_holds = Table(
    "pool_holds",
    metadata,
    Column("pool", Text, primary_key=True),
    Column("sentence", Text, nullable=False),
    Column("until", Time),
    Column("by_operator", Boolean, nullable=False),
    Column("held_at", Time, nullable=False),
)

# Reclaimed machines. Offers with frequent reclaims rank lower.
interruptions = Table(
    "interruptions",
    metadata,
    Column("instance_id", Uuid, ForeignKey("instances.id"), primary_key=True),
    Column("provider", Text, nullable=False),
    Column("region", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("machine_type", Text, nullable=False),
    Column("noticed_at", Time, nullable=False),
    Index("interruptions_by_time", "noticed_at"),
)

# Spot offers with their current spell of availability, and the ends of earlier spells: a fold over launches, refusals and
# reclaims.
spot_spells = Table(
    "spot_spells",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("region", Text, primary_key=True),
    Column("zone", Text, primary_key=True),
    Column("machine_type", Text, primary_key=True),
    Column("is_available", Boolean, nullable=False),
    Column("since", Time, nullable=False),
    Column("observed_at", Time, nullable=False),
    # How many spells of each kind have ended, and how many ends the law of spells expected in the observed time.
    Column("losses", Double, nullable=False),
    Column("expected_losses", Double, nullable=False),
    Column("returns", Double, nullable=False),
    Column("expected_returns", Double, nullable=False),
    Index("spot_spells_by_observation", "observed_at"),
)

# Proofs of identity that agents joined with: each is accepted once.
join_proofs = Table(
    "join_proofs",
    metadata,
    Column("proof_hash", LargeBinary, primary_key=True),
    Column("expires_at", Time, nullable=False),
    Index("join_proofs_by_end", "expires_at"),
)

# Regions of clouds, each asked by one process at a time.
market_reads = Table(
    "market_reads",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("region", Text, primary_key=True),
    Column("due_at", Time, nullable=False),
    Column("read_at", Time),  # the last time that it answered
    Column("problem", Text, nullable=False, server_default=text("''")),  # of the last time
)

# A type with GPUs attached has a name of its own, such as n1-standard-8+4xnvidia-tesla-t4.
market_types = Table(
    "market_types",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("region", Text, primary_key=True),
    Column("machine_type", Text, primary_key=True),
    Column("zones", JSON, nullable=False),  # that have it
    Column("slots", Integer, nullable=False),  # 0 if not reported
)

# An empty zone stands for every zone of the region.
market_prices = Table(
    "market_prices",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("region", Text, primary_key=True),
    Column("zone", Text, primary_key=True),
    Column("machine_type", Text, primary_key=True),
    Column("capacity", enum(Capacity), primary_key=True),
    Column("price_usd_hour", Numeric(14, 6), nullable=False),
    Column("since", Time),  # when the price began, if the cloud says so
    Column("read_at", Time, nullable=False),
    CheckConstraint("price_usd_hour > 0", name="positive"),
)
