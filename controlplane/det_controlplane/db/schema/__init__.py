"""The schema: the specification of what may be stored. Enums name the states, CHECKs and partial unique indexes hold
the invariants that no code path may break. What changes here needs a revision in `migrations/versions`."""

from det_controlplane.db.schema.allocations import (
    agents,
    allocations,
    containers,
    deleted_allocations,
    gathers,
    log_batches,
    slots,
    task_logs,
    tasks,
)
from det_controlplane.db.schema.base import metadata
from det_controlplane.db.schema.cluster import cluster, cluster_message, master_logs, outbox, pools
from det_controlplane.db.schema.experiments import (
    contexts,
    experiments,
    jobs,
    search_events,
    searches,
    trial_sources,
    trials,
)
from det_controlplane.db.schema.instances import (
    cooldowns,
    instances,
    interruptions,
    join_proofs,
    pool_holds,
)
from det_controlplane.db.schema.market import market_prices, market_reads, market_types
from det_controlplane.db.schema.money import budgets
from det_controlplane.db.schema.organization import (
    config_policies,
    group_members,
    groups,
    pool_bindings,
    project_views,
    projects,
    sessions,
    templates,
    users,
    workspace_pins,
    workspaces,
)
from det_controlplane.db.schema.results import (
    checkpoints,
    metrics,
    model_versions,
    models,
    storages,
)

__all__ = [
    "agents",
    "allocations",
    "budgets",
    "checkpoints",
    "cluster",
    "cluster_message",
    "config_policies",
    "containers",
    "contexts",
    "cooldowns",
    "deleted_allocations",
    "experiments",
    "gathers",
    "group_members",
    "groups",
    "instances",
    "interruptions",
    "jobs",
    "join_proofs",
    "log_batches",
    "market_prices",
    "market_reads",
    "market_types",
    "master_logs",
    "metadata",
    "metrics",
    "model_versions",
    "models",
    "outbox",
    "pool_bindings",
    "pool_holds",
    "pools",
    "project_views",
    "projects",
    "search_events",
    "searches",
    "sessions",
    "slots",
    "storages",
    "task_logs",
    "tasks",
    "templates",
    "trial_sources",
    "trials",
    "users",
    "workspace_pins",
    "workspaces",
]
