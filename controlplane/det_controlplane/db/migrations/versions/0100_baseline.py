"""Everything that 0.1.0 stores, as Alembic wrote it."""

# fmt: off
import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ENUM, JSON, JSONB

# Numbers begin with that of the release: a database with a lower one was made by a draft of it.
revision = "0100"
down_revision = None

TIME = sa.DateTime(timezone=True)
agent_state = ENUM('JOINED', 'SUSPECT', 'LOST', name="agent_state", create_type=False)
budget_scope = ENUM('experiment', 'user', 'workspace', 'pool', name="budget_scope", create_type=False)
budget_period = ENUM('total', 'month', name="budget_period", create_type=False)
budget_state = ENUM('WITHIN', 'WARNED', 'DRAINING', 'STOPPED', name="budget_state", create_type=False)
log_level = ENUM('TRACE', 'DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL', name="log_level", create_type=False)
workload_type = ENUM('EXPERIMENT', 'NTSC', name="workload_type", create_type=False)
refusal_kind = ENUM('NO_CAPACITY', 'QUOTA', 'DENIED', 'INVALID', 'RETRYABLE', name="refusal_kind", create_type=False)
instance_state = ENUM('REQUESTED', 'LAUNCHED', 'REGISTERED', 'DRAINING', 'TERMINATING', 'GONE', 'FAILED', name="instance_state", create_type=False)
capacity = ENUM('spot', 'on-demand', name="capacity", create_type=False)
effect_kind = ENUM('checkpoint_gc', 'delete_experiment', 'delete_object', 'delete_project', 'delete_workspace', name="effect_kind", create_type=False)
task_kind = ENUM('TRIAL', 'NOTEBOOK', 'SHELL', 'COMMAND', 'TENSORBOARD', 'CHECKPOINT_GC', 'GENERIC', name="task_kind", create_type=False)
session_kind = ENUM('user', 'access', 'allocation', name="session_kind", create_type=False)
deletion_state = ENUM('DELETING', 'DELETE_FAILED', 'DELETED', name="deletion_state", create_type=False)
job_kind = ENUM('EXPERIMENT', 'NOTEBOOK', 'TENSORBOARD', 'SHELL', 'COMMAND', 'CHECKPOINT_GC', 'GENERIC', name="job_kind", create_type=False)
experiment_state = ENUM('ACTIVE', 'PAUSED', 'STOPPING_COMPLETED', 'STOPPING_CANCELED', 'STOPPING_KILLED', 'STOPPING_ERROR', 'COMPLETED', 'CANCELED', 'ERROR', 'DELETING', 'DELETE_FAILED', name="experiment_state", create_type=False)
trial_state = ENUM('ACTIVE', 'PAUSED', 'STOPPING_COMPLETED', 'STOPPING_CANCELED', 'STOPPING_KILLED', 'STOPPING_ERROR', 'COMPLETED', 'CANCELED', 'ERROR', name="trial_state", create_type=False)
exit_reason = ENUM('INVALID_HP', 'INIT_INVALID_HP', 'ERRORED', 'USER_CANCELED', 'USER_REQUESTED_STOP', name="exit_reason", create_type=False)
allocation_state = ENUM('QUEUED', 'ASSIGNED', 'PULLING', 'STARTING', 'RUNNING', 'WAITING', 'TERMINATING', 'TERMINATED', name="allocation_state", create_type=False)
wait_code = ENUM('NO_AGENTS', 'TOO_LARGE', 'NO_FREE_SLOTS', 'NO_WHOLE_AGENTS', 'AUX_LIMIT', 'AGENT_DRAINING', 'AGENT_OUT_OF_SERVICE', 'BLOCKED_NODES', 'MAX_SLOTS', 'BEHIND_HIGHER_PRIORITY', 'WAITING_FOR_PREEMPTION', 'FAIR_SHARE', 'BACKING_OFF', name="wait_code", create_type=False)
provision_code = ENUM('MACHINE_STARTING', 'BEHIND_HIGHER_PRIORITY', 'LAUNCHING', 'NO_OFFER_FITS', 'PRICE_CAP', 'MAX_INSTANCES', 'MAX_HOURLY_COST', 'COOLING_DOWN', 'POOL_HELD', name="provision_code", create_type=False)
exit_kind = ENUM('never ran', 'killed', 'preempted', 'clean', 'failed', 'infrastructure', 'unrecoverable', name="exit_kind", create_type=False)
checkpoint_state = ENUM('ACTIVE', 'COMPLETED', 'ERROR', 'DELETED', 'PARTIALLY_DELETED', name="checkpoint_state", create_type=False)
container_state = ENUM('ASSIGNED', 'PULLING', 'STARTING', 'RUNNING', 'TERMINATED', name="container_state", create_type=False)
failure = ENUM('container_failed', 'image_pull', 'agent_error', 'agent_lost', 'aborted', name="failure", create_type=False)
device_type = ENUM('cpu', 'cuda', 'rocm', name="device_type", create_type=False)

ENUMS = (
    agent_state, budget_scope, budget_period, budget_state, log_level, workload_type, refusal_kind,
    instance_state, capacity, effect_kind, task_kind, session_kind, deletion_state, job_kind,
    experiment_state, trial_state, exit_reason, allocation_state, wait_code, provision_code, exit_kind,
    checkpoint_state, container_state, failure, device_type
)


def upgrade() -> None:
    for kind in ENUMS:
        kind.create(op.get_bind())
    create_tables()
    add_built_in()


def create_tables() -> None:
    op.create_table('agents',
        sa.Column('id', sa.Text, nullable=False),
        sa.Column('pool', sa.Text, nullable=False),
        sa.Column('state', agent_state, nullable=False),
        sa.Column('agent_key_hash', sa.LargeBinary, nullable=False),
        sa.Column('incarnation', sa.Uuid, nullable=False),
        sa.Column('token_hash', sa.LargeBinary, nullable=False),
        sa.Column('version', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column('hostname', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column('runtime', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column('addresses', sa.ARRAY(sa.Text), server_default=sa.text("'{}'"), nullable=False),
        sa.Column('enabled', sa.Boolean, server_default=sa.text('true'), nullable=False),
        sa.Column('draining', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('joined_at', TIME, nullable=False),
        sa.Column('last_seen_at', TIME, nullable=False),
        sa.Column('lease_until', TIME, nullable=False),
        sa.Column('lost_after', TIME, nullable=False),
        sa.Column('poll_seq', sa.BigInteger, server_default=sa.text('0'), nullable=False),
        sa.Column('leaving', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('out_of_service', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.PrimaryKeyConstraint('id', name=op.f('agents_pkey')),
        sa.UniqueConstraint('token_hash', name=op.f('agents_token_hash_key'))
    )
    op.create_index('agents_by_pool', 'agents', ['pool'], unique=False, postgresql_where=sa.text("state <> 'LOST'"))
    op.create_table('budgets',
        sa.Column('id', sa.Integer, sa.Identity(always=True), nullable=False),
        sa.Column('scope', budget_scope, nullable=False),
        sa.Column('scope_id', sa.Text, nullable=False),
        sa.Column('limit_usd', sa.Numeric(precision=14, scale=2), nullable=False),
        sa.Column('period', budget_period, nullable=False),
        sa.Column('state', budget_state, server_default=sa.text("'WITHIN'"), nullable=False),
        sa.Column('set_at', TIME, nullable=False),
        sa.Column('checked_at', TIME, nullable=False),
        sa.CheckConstraint('limit_usd > 0', name=op.f('budgets_limit_check')),
        sa.PrimaryKeyConstraint('id', name=op.f('budgets_pkey'))
    )
    op.create_index('budgets_by_scope', 'budgets', ['scope', 'scope_id'], unique=True)
    op.create_table('cluster',
        sa.Column('only_row', sa.Boolean, server_default=sa.text('true'), nullable=False),
        sa.Column('cluster_id', sa.Uuid, server_default=sa.text('gen_random_uuid()'), nullable=False),
        sa.Column('created_at', TIME, server_default=sa.text('now()'), nullable=False),
        sa.Column('log_level', log_level, nullable=True),
        sa.Column('log_color', sa.Boolean, nullable=True),
        sa.Column('cleaned_at', TIME, nullable=True),
        sa.Column('ticking', sa.Boolean, server_default=sa.text('true'), nullable=False),
        sa.CheckConstraint('only_row', name=op.f('cluster_only_row_check')),
        sa.PrimaryKeyConstraint('only_row', name=op.f('cluster_pkey'))
    )
    op.create_table('cluster_message',
        sa.Column('only_row', sa.Boolean, server_default=sa.text('true'), nullable=False),
        sa.Column('message', sa.Text, nullable=False),
        sa.Column('starts_at', TIME, nullable=False),
        sa.Column('ends_at', TIME, nullable=True),
        sa.Column('created_at', TIME, nullable=False),
        sa.CheckConstraint('length(message) <= 250', name=op.f('cluster_message_message_check')),
        sa.CheckConstraint('only_row', name=op.f('cluster_message_only_row_check')),
        sa.PrimaryKeyConstraint('only_row', name=op.f('cluster_message_pkey'))
    )
    op.create_table('config_policies',
        sa.Column('workspace_id', sa.Integer, nullable=False),
        sa.Column('workload_type', workload_type, nullable=False),
        sa.Column('policy', JSON, nullable=False),
        sa.Column('sealed', sa.Text, nullable=True),
        sa.PrimaryKeyConstraint('workspace_id', 'workload_type', name=op.f('config_policies_pkey'))
    )
    op.create_table('cooldowns',
        sa.Column('provider', sa.Text, nullable=False),
        sa.Column('region', sa.Text, nullable=False),
        sa.Column('zone', sa.Text, nullable=False),
        sa.Column('machine_type', sa.Text, nullable=False),
        sa.Column('capacity', sa.Text, nullable=False),
        sa.Column('pool', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column('kind', refusal_kind, nullable=False),
        sa.Column('until', TIME, nullable=False),
        sa.Column('sentence', sa.Text, nullable=False),
        sa.Column('failures', sa.Integer, nullable=False),
        sa.Column('refused_at', TIME, nullable=False),
        sa.Column('hint', JSONB, server_default=sa.text("'[]'"), nullable=False),
        sa.PrimaryKeyConstraint('provider', 'region', 'zone', 'machine_type', 'capacity', 'pool', name=op.f('cooldowns_pkey'))
    )
    op.create_table('groups',
        sa.Column('id', sa.Integer, sa.Identity(always=False), nullable=False),
        sa.Column('name', sa.Text, nullable=False),
        sa.CheckConstraint("btrim(name) <> ''", name=op.f('groups_name_check')),
        sa.PrimaryKeyConstraint('id', name=op.f('groups_pkey')),
        sa.UniqueConstraint('name', name=op.f('groups_name_key'))
    )
    op.create_table('instances',
        sa.Column('id', sa.Uuid, nullable=False),
        sa.Column('pool', sa.Text, nullable=False),
        sa.Column('state', instance_state, nullable=False),
        sa.Column('offers', JSONB, nullable=False),
        sa.Column('provider', sa.Text, nullable=False),
        sa.Column('region', sa.Text, nullable=False),
        sa.Column('zone', sa.Text, nullable=False),
        sa.Column('machine_type', sa.Text, nullable=False),
        sa.Column('capacity', capacity, nullable=False),
        sa.Column('slots', sa.Integer, nullable=False),
        sa.Column('price_usd_hour', sa.Numeric(precision=14, scale=6), nullable=False),
        sa.Column('section', sa.Integer, server_default=sa.text('0'), nullable=False),
        sa.Column('purpose', sa.Text, nullable=True),
        sa.Column('cloud_id', sa.Text, nullable=True),
        sa.Column('attempt', sa.Integer, server_default=sa.text('1'), nullable=False),
        sa.Column('claimed_until', TIME, nullable=True),
        sa.Column('not_before', TIME, nullable=True),
        sa.Column('agent_id', sa.Text, nullable=True),
        sa.Column('requested_at', TIME, nullable=False),
        sa.Column('launched_at', TIME, nullable=True),
        sa.Column('registered_at', TIME, nullable=True),
        sa.Column('draining_since', TIME, nullable=True),
        sa.Column('terminating_since', TIME, nullable=True),
        sa.Column('ended_at', TIME, nullable=True),
        sa.Column('seen_at', TIME, nullable=True),
        sa.Column('unseen', sa.Integer, server_default=sa.text('0'), nullable=False),
        sa.Column('stopped', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('reason', sa.Text, nullable=True),
        sa.Column('console', sa.Text, nullable=True),
        sa.CheckConstraint("(ended_at IS NOT NULL) = NOT (state NOT IN ('GONE', 'FAILED'))", name=op.f('instances_ended_check')),
        sa.CheckConstraint("state <> 'LAUNCHED' OR cloud_id IS NOT NULL", name=op.f('instances_launched_check')),
        sa.CheckConstraint('price_usd_hour >= 0 AND slots >= 0', name=op.f('instances_positive_check')),
        sa.PrimaryKeyConstraint('id', name=op.f('instances_pkey'))
    )
    op.create_index('instances_agent', 'instances', ['agent_id'], unique=False, postgresql_where=sa.text('agent_id IS NOT NULL'))
    op.create_index('instances_by_end', 'instances', ['ended_at'], unique=False, postgresql_where=sa.text('launched_at IS NOT NULL'))
    op.create_index('instances_cloud_id', 'instances', ['provider', 'cloud_id'], unique=True, postgresql_where=sa.text('cloud_id IS NOT NULL'))
    op.create_index('instances_live', 'instances', ['pool'], unique=False, postgresql_where=sa.text("state NOT IN ('GONE', 'FAILED')"))
    op.create_table('interruptions',
        sa.Column('instance_id', sa.Uuid, nullable=False),
        sa.Column('provider', sa.Text, nullable=False),
        sa.Column('region', sa.Text, nullable=False),
        sa.Column('zone', sa.Text, nullable=False),
        sa.Column('machine_type', sa.Text, nullable=False),
        sa.Column('noticed_at', TIME, nullable=False),
        sa.PrimaryKeyConstraint('instance_id', name=op.f('interruptions_pkey'))
    )
    op.create_index('interruptions_by_time', 'interruptions', ['noticed_at'], unique=False)
    op.create_table('join_proofs',
        sa.Column('proof_hash', sa.LargeBinary, nullable=False),
        sa.Column('expires_at', TIME, nullable=False),
        sa.PrimaryKeyConstraint('proof_hash', name=op.f('join_proofs_pkey'))
    )
    op.create_index('join_proofs_by_end', 'join_proofs', ['expires_at'], unique=False)
    op.create_table('log_batches',
        sa.Column('batch_id', sa.Uuid, nullable=False),
        sa.Column('stored_at', TIME, nullable=False),
        sa.PrimaryKeyConstraint('batch_id', name=op.f('log_batches_pkey'))
    )
    op.create_index('log_batches_by_time', 'log_batches', ['stored_at'], unique=False)
    op.create_table('market_prices',
        sa.Column('provider', sa.Text, nullable=False),
        sa.Column('region', sa.Text, nullable=False),
        sa.Column('zone', sa.Text, nullable=False),
        sa.Column('machine_type', sa.Text, nullable=False),
        sa.Column('capacity', capacity, nullable=False),
        sa.Column('price_usd_hour', sa.Numeric(precision=14, scale=6), nullable=False),
        sa.Column('since', TIME, nullable=True),
        sa.Column('read_at', TIME, nullable=False),
        sa.CheckConstraint('price_usd_hour > 0', name=op.f('market_prices_positive_check')),
        sa.PrimaryKeyConstraint('provider', 'region', 'zone', 'machine_type', 'capacity', name=op.f('market_prices_pkey'))
    )
    op.create_table('market_reads',
        sa.Column('provider', sa.Text, nullable=False),
        sa.Column('region', sa.Text, nullable=False),
        sa.Column('due_at', TIME, nullable=False),
        sa.Column('read_at', TIME, nullable=True),
        sa.Column('problem', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.PrimaryKeyConstraint('provider', 'region', name=op.f('market_reads_pkey'))
    )
    op.create_table('market_types',
        sa.Column('provider', sa.Text, nullable=False),
        sa.Column('region', sa.Text, nullable=False),
        sa.Column('machine_type', sa.Text, nullable=False),
        sa.Column('zones', JSONB, nullable=False),
        sa.Column('slots', sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint('provider', 'region', 'machine_type', name=op.f('market_types_pkey'))
    )
    op.create_table('master_logs',
        sa.Column('id', sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column('logged_at', TIME, server_default=sa.text('now()'), nullable=False),
        sa.Column('level', sa.Text, nullable=False),
        sa.Column('message', sa.Text, nullable=False),
        sa.PrimaryKeyConstraint('id', name=op.f('master_logs_pkey'))
    )
    op.create_index('master_logs_by_time', 'master_logs', ['logged_at'], unique=False)
    op.create_table('outbox',
        sa.Column('id', sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column('kind', effect_kind, nullable=False),
        sa.Column('payload', JSONB, nullable=False),
        sa.Column('due_at', TIME, nullable=False),
        sa.Column('attempts', sa.Integer, server_default=sa.text('0'), nullable=False),
        sa.Column('created_at', TIME, nullable=False),
        sa.PrimaryKeyConstraint('id', name=op.f('outbox_pkey'))
    )
    op.create_index('outbox_due', 'outbox', ['due_at'], unique=False)
    op.create_table('pool_holds',
        sa.Column('pool', sa.Text, nullable=False),
        sa.Column('sentence', sa.Text, nullable=False),
        sa.Column('until', TIME, nullable=True),
        sa.Column('by_operator', sa.Boolean, nullable=False),
        sa.Column('held_at', TIME, nullable=False),
        sa.PrimaryKeyConstraint('pool', name=op.f('pool_holds_pkey'))
    )
    op.create_table('pools',
        sa.Column('name', sa.Text, nullable=False),
        sa.Column('marked', sa.BigInteger, server_default=sa.text('1'), nullable=False),
        sa.Column('answered', sa.BigInteger, server_default=sa.text('0'), nullable=False),
        sa.Column('dirty', sa.Boolean, sa.Computed('(marked > answered)', persisted=True), nullable=False),
        sa.Column('scheduled_at', TIME, nullable=True),
        sa.Column('provision_at', TIME, nullable=True),
        sa.PrimaryKeyConstraint('name', name=op.f('pools_pkey'))
    )
    op.create_table('sign_in_failures',
        sa.Column('username', sa.Text, nullable=False),
        sa.Column('address', sa.Text, nullable=False),
        sa.Column('failures', sa.Integer, nullable=False),
        sa.Column('last_at', TIME, nullable=False),
        sa.PrimaryKeyConstraint('username', 'address', name=op.f('sign_in_failures_pkey'))
    )
    op.create_table('storages',
        sa.Column('id', sa.Integer, sa.Identity(always=True), nullable=False),
        sa.Column('config', JSONB, nullable=False),
        sa.Column('sealed', sa.Text, nullable=True),
        sa.Column('fingerprint', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.PrimaryKeyConstraint('id', name=op.f('storages_pkey')),
        sa.UniqueConstraint('config', 'fingerprint', name=op.f('storages_config_fingerprint_key'))
    )
    op.create_table('task_logs',
        sa.Column('id', sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column('task_id', sa.Text, nullable=False),
        sa.Column('allocation_id', sa.Text, nullable=True),
        sa.Column('agent_id', sa.Text, nullable=True),
        sa.Column('container_id', sa.Text, nullable=True),
        sa.Column('rank_id', sa.Integer, nullable=True),
        sa.Column('logged_at', TIME, nullable=False),
        sa.Column('level', sa.Text, nullable=True),
        sa.Column('source', sa.Text, nullable=True),
        sa.Column('stdtype', sa.Text, nullable=True),
        sa.Column('log', sa.Text, nullable=False),
        sa.PrimaryKeyConstraint('id', name=op.f('task_logs_pkey'))
    )
    op.create_index('task_logs_in_order', 'task_logs', ['task_id', 'id'], unique=False)
    op.create_table('users',
        sa.Column('id', sa.Integer, sa.Identity(always=False), nullable=False),
        sa.Column('username', sa.Text, nullable=False),
        sa.Column('password_hash', sa.Text, nullable=True),
        sa.Column('display_name', sa.Text, nullable=True),
        sa.Column('admin', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('active', sa.Boolean, server_default=sa.text('true'), nullable=False),
        sa.Column('remote', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('agent_user', JSONB, nullable=True),
        sa.Column('settings', JSONB, server_default=sa.text("'{}'"), nullable=False),
        sa.Column('modified_at', TIME, server_default=sa.text('now()'), nullable=False),
        sa.Column('last_auth_at', TIME, nullable=True),
        sa.CheckConstraint("username <> ''", name=op.f('users_username_check')),
        sa.PrimaryKeyConstraint('id', name=op.f('users_pkey')),
        sa.UniqueConstraint('username', name=op.f('users_username_key'))
    )
    op.create_table('contexts',
        sa.Column('id', sa.Uuid, nullable=False),
        sa.Column('size', sa.BigInteger, nullable=False),
        sa.Column('sha256', sa.Text, nullable=False),
        sa.Column('content', sa.LargeBinary, nullable=True),
        sa.Column('object_key', sa.Text, nullable=True),
        sa.Column('uploaded', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('user_id', sa.Integer, nullable=True),
        sa.Column('created_at', TIME, nullable=False),
        sa.CheckConstraint('content IS NOT NULL OR object_key IS NOT NULL', name=op.f('contexts_content_check')),
        sa.ForeignKeyConstraint(['user_id'], ['users.id'], name=op.f('contexts_user_id_fkey'), ondelete='SET NULL'),
        sa.PrimaryKeyConstraint('id', name=op.f('contexts_pkey'))
    )
    op.create_table('deleted_allocations',
        sa.Column('id', sa.Text, nullable=False),
        sa.Column('task_kind', task_kind, nullable=False),
        sa.Column('user_id', sa.Integer, nullable=False),
        sa.Column('workspace_name', sa.Text, nullable=False),
        sa.Column('experiment_id', sa.Integer, nullable=True),
        sa.Column('labels', sa.ARRAY(sa.Text), nullable=False),
        sa.Column('slots', sa.Integer, nullable=False),
        sa.Column('pool', sa.Text, nullable=False),
        sa.Column('started_at', TIME, nullable=False),
        sa.Column('ended_at', TIME, nullable=False),
        sa.Column('pull_s', sa.Double, nullable=False),
        sa.ForeignKeyConstraint(['user_id'], ['users.id'], name=op.f('deleted_allocations_user_id_fkey')),
        sa.PrimaryKeyConstraint('id', name=op.f('deleted_allocations_pkey'))
    )
    op.create_index('deleted_allocations_by_end', 'deleted_allocations', ['ended_at'], unique=False)
    op.create_table('group_members',
        sa.Column('group_id', sa.Integer, nullable=False),
        sa.Column('user_id', sa.Integer, nullable=False),
        sa.ForeignKeyConstraint(['group_id'], ['groups.id'], name=op.f('group_members_group_id_fkey'), ondelete='CASCADE'),
        sa.ForeignKeyConstraint(['user_id'], ['users.id'], name=op.f('group_members_user_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('group_id', 'user_id', name=op.f('group_members_pkey'))
    )
    op.create_table('join_tokens',
        sa.Column('id', sa.Integer, sa.Identity(always=False), nullable=False),
        sa.Column('token_hash', sa.LargeBinary, nullable=False),
        sa.Column('description', sa.Text, nullable=False),
        sa.Column('user_id', sa.Integer, nullable=False),
        sa.Column('max_uses', sa.Integer, nullable=True),
        sa.Column('uses', sa.Integer, server_default=sa.text('0'), nullable=False),
        sa.Column('created_at', TIME, nullable=False),
        sa.Column('expires_at', TIME, nullable=True),
        sa.Column('revoked_at', TIME, nullable=True),
        sa.Column('last_used_at', TIME, nullable=True),
        sa.ForeignKeyConstraint(['user_id'], ['users.id'], name=op.f('join_tokens_user_id_fkey')),
        sa.PrimaryKeyConstraint('id', name=op.f('join_tokens_pkey')),
        sa.UniqueConstraint('token_hash', name=op.f('join_tokens_token_hash_key'))
    )
    op.create_table('sessions',
        sa.Column('id', sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column('token_hash', sa.LargeBinary, nullable=False),
        sa.Column('kind', session_kind, nullable=False),
        sa.Column('user_id', sa.Integer, nullable=False),
        sa.Column('allocation_id', sa.Text, nullable=True),
        sa.Column('description', sa.Text, nullable=True),
        sa.Column('narrow', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('created_at', TIME, nullable=False),
        sa.Column('expires_at', TIME, nullable=True),
        sa.Column('revoked_at', TIME, nullable=True),
        sa.CheckConstraint("(kind = 'allocation') = (allocation_id IS NOT NULL)", name=op.f('sessions_allocation_check')),
        sa.ForeignKeyConstraint(['user_id'], ['users.id'], name=op.f('sessions_user_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('id', name=op.f('sessions_pkey')),
        sa.UniqueConstraint('token_hash', name=op.f('sessions_token_hash_key'))
    )
    op.create_index('sessions_by_allocation', 'sessions', ['allocation_id'], unique=False, postgresql_where=sa.text('allocation_id IS NOT NULL'))
    op.create_index('sessions_by_user', 'sessions', ['user_id'], unique=False)
    op.create_table('workspaces',
        sa.Column('id', sa.Integer, sa.Identity(always=False), nullable=False),
        sa.Column('name', sa.Text, nullable=False),
        sa.Column('user_id', sa.Integer, nullable=False),
        sa.Column('archived', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('immutable', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('state', deletion_state, nullable=True),
        sa.Column('error_message', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column('agent_user', JSONB, nullable=True),
        sa.Column('checkpoint_storage', JSONB, nullable=True),
        sa.Column('sealed', sa.Text, nullable=True),
        sa.Column('default_compute_pool', sa.Text, nullable=True),
        sa.Column('default_aux_pool', sa.Text, nullable=True),
        sa.Column('created_at', TIME, server_default=sa.text('now()'), nullable=False),
        sa.CheckConstraint("btrim(name) <> '' AND length(name) <= 80", name=op.f('workspaces_name_check')),
        sa.ForeignKeyConstraint(['user_id'], ['users.id'], name=op.f('workspaces_user_id_fkey')),
        sa.PrimaryKeyConstraint('id', name=op.f('workspaces_pkey'))
    )
    op.create_index('workspace_name', 'workspaces', [sa.literal_column('lower(name)')], unique=True)
    op.create_table('jobs',
        sa.Column('id', sa.Uuid, nullable=False),
        sa.Column('kind', job_kind, nullable=False),
        sa.Column('name', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column('pool', sa.Text, nullable=False),
        sa.Column('priority', sa.Integer, nullable=True),
        sa.Column('weight', sa.Double, server_default=sa.text('1'), nullable=False),
        sa.Column('max_slots', sa.Integer, nullable=True),
        sa.Column('position', sa.Numeric(), nullable=False),
        sa.Column('user_id', sa.Integer, nullable=False),
        sa.Column('workspace_id', sa.Integer, nullable=False),
        sa.Column('submitted_at', TIME, nullable=False),
        sa.CheckConstraint('max_slots >= 0', name=op.f('jobs_max_slots_check')),
        sa.CheckConstraint('priority BETWEEN 1 AND 99', name=op.f('jobs_priority_check')),
        sa.CheckConstraint('weight > 0', name=op.f('jobs_weight_check')),
        sa.ForeignKeyConstraint(['user_id'], ['users.id'], name=op.f('jobs_user_id_fkey')),
        sa.ForeignKeyConstraint(['workspace_id'], ['workspaces.id'], name=op.f('jobs_workspace_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('id', name=op.f('jobs_pkey'))
    )
    op.create_table('models',
        sa.Column('id', sa.Integer, sa.Identity(always=False), nullable=False),
        sa.Column('name', sa.Text, nullable=False),
        sa.Column('description', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column('metadata', JSONB, server_default=sa.text("'{}'"), nullable=False),
        sa.Column('labels', sa.ARRAY(sa.Text), server_default=sa.text("'{}'"), nullable=False),
        sa.Column('notes', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column('user_id', sa.Integer, nullable=False),
        sa.Column('workspace_id', sa.Integer, nullable=False),
        sa.Column('archived', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('created_at', TIME, nullable=False),
        sa.Column('updated_at', TIME, nullable=False),
        sa.ForeignKeyConstraint(['user_id'], ['users.id'], name=op.f('models_user_id_fkey')),
        sa.ForeignKeyConstraint(['workspace_id'], ['workspaces.id'], name=op.f('models_workspace_id_fkey')),
        sa.PrimaryKeyConstraint('id', name=op.f('models_pkey')),
        sa.UniqueConstraint('name', name=op.f('models_name_key'))
    )
    op.create_table('pool_bindings',
        sa.Column('pool', sa.Text, nullable=False),
        sa.Column('workspace_id', sa.Integer, nullable=False),
        sa.ForeignKeyConstraint(['workspace_id'], ['workspaces.id'], name=op.f('pool_bindings_workspace_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('pool', 'workspace_id', name=op.f('pool_bindings_pkey'))
    )
    op.create_table('projects',
        sa.Column('id', sa.Integer, sa.Identity(always=False), nullable=False),
        sa.Column('workspace_id', sa.Integer, nullable=False),
        sa.Column('name', sa.Text, nullable=False),
        sa.Column('key', sa.Text, nullable=False),
        sa.Column('description', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column('notes', JSONB, server_default=sa.text("'[]'"), nullable=False),
        sa.Column('user_id', sa.Integer, nullable=False),
        sa.Column('archived', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('immutable', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('state', deletion_state, nullable=True),
        sa.Column('error_message', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column('created_at', TIME, server_default=sa.text('now()'), nullable=False),
        sa.CheckConstraint("btrim(name) <> ''", name=op.f('projects_name_check')),
        sa.CheckConstraint("key ~ '^[A-Z0-9]{1,5}$'", name=op.f('projects_key_check')),
        sa.ForeignKeyConstraint(['user_id'], ['users.id'], name=op.f('projects_user_id_fkey')),
        sa.ForeignKeyConstraint(['workspace_id'], ['workspaces.id'], name=op.f('projects_workspace_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('id', name=op.f('projects_pkey')),
        sa.UniqueConstraint('key', name=op.f('projects_key_key'))
    )
    op.create_index('project_name', 'projects', ['workspace_id', sa.literal_column('lower(name)')], unique=True)
    op.create_table('templates',
        sa.Column('name', sa.Text, nullable=False),
        sa.Column('config', JSON, nullable=False),
        sa.Column('sealed', sa.Text, nullable=True),
        sa.Column('workspace_id', sa.Integer, nullable=False),
        sa.CheckConstraint("btrim(name) <> ''", name=op.f('templates_name_check')),
        sa.ForeignKeyConstraint(['workspace_id'], ['workspaces.id'], name=op.f('templates_workspace_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('name', name=op.f('templates_pkey'))
    )
    op.create_table('workspace_pins',
        sa.Column('workspace_id', sa.Integer, nullable=False),
        sa.Column('user_id', sa.Integer, nullable=False),
        sa.Column('pinned_at', TIME, server_default=sa.text('now()'), nullable=False),
        sa.ForeignKeyConstraint(['user_id'], ['users.id'], name=op.f('workspace_pins_user_id_fkey'), ondelete='CASCADE'),
        sa.ForeignKeyConstraint(['workspace_id'], ['workspaces.id'], name=op.f('workspace_pins_workspace_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('workspace_id', 'user_id', name=op.f('workspace_pins_pkey'))
    )
    op.create_table('experiments',
        sa.Column('id', sa.Integer, sa.Identity(always=False), nullable=False),
        sa.Column('job_id', sa.Uuid, nullable=False),
        sa.Column('state', experiment_state, nullable=False),
        sa.Column('config', JSON, nullable=False),
        sa.Column('original_config', sa.Text, nullable=False),
        sa.Column('sealed', sa.Text, nullable=True),
        sa.Column('name', sa.Text, nullable=False),
        sa.Column('description', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column('notes', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column('labels', sa.ARRAY(sa.Text), server_default=sa.text("'{}'"), nullable=False),
        sa.Column('user_id', sa.Integer, nullable=False),
        sa.Column('project_id', sa.Integer, nullable=False),
        sa.Column('context_id', sa.Uuid, nullable=True),
        sa.Column('parent_id', sa.Integer, nullable=True),
        sa.Column('archived', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('unmanaged', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('external_id', sa.Text, nullable=True),
        sa.Column('progress', sa.Double, nullable=True),
        sa.Column('best_trial_id', sa.Integer, nullable=True),
        sa.Column('best_metric', sa.Double, nullable=True),
        sa.Column('seed', sa.BigInteger, nullable=False),
        sa.Column('error', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column('idempotency_key', sa.Text, nullable=True),
        sa.Column('log_retention_days', sa.Integer, nullable=True),
        sa.Column('created_at', TIME, nullable=False),
        sa.Column('started_at', TIME, nullable=False),
        sa.Column('ended_at', TIME, nullable=True),
        sa.Column('metric_name', sa.Text, sa.Computed("COALESCE((config #>> '{searcher,metric}'::text[]), ''::text)", persisted=True), nullable=False),
        sa.Column('smaller_is_better', sa.Boolean, sa.Computed("COALESCE(((config #>> '{searcher,smaller_is_better}'::text[]))::boolean, true)", persisted=True), nullable=False),
        sa.Column('max_restarts', sa.Integer, sa.Computed("COALESCE(((config ->> 'max_restarts'::text))::integer, 5)", persisted=True), nullable=False),
        sa.Column('slots_per_trial', sa.Integer, sa.Computed("COALESCE(((config #>> '{resources,slots_per_trial}'::text[]))::integer, 1)", persisted=True), nullable=False),
        sa.CheckConstraint("(ended_at IS NOT NULL) = (state IN ('COMPLETED', 'CANCELED', 'ERROR', 'DELETING', 'DELETE_FAILED'))", name=op.f('experiments_ended_check')),
        sa.ForeignKeyConstraint(['context_id'], ['contexts.id'], name=op.f('experiments_context_id_fkey')),
        sa.ForeignKeyConstraint(['job_id'], ['jobs.id'], name=op.f('experiments_job_id_fkey')),
        sa.ForeignKeyConstraint(['parent_id'], ['experiments.id'], name=op.f('experiments_parent_id_fkey'), ondelete='SET NULL'),
        sa.ForeignKeyConstraint(['project_id'], ['projects.id'], name=op.f('experiments_project_id_fkey')),
        sa.ForeignKeyConstraint(['user_id'], ['users.id'], name=op.f('experiments_user_id_fkey')),
        sa.PrimaryKeyConstraint('id', name=op.f('experiments_pkey')),
        sa.UniqueConstraint('external_id', name=op.f('experiments_external_id_key')),
        sa.UniqueConstraint('idempotency_key', name=op.f('experiments_idempotency_key_key')),
        sa.UniqueConstraint('job_id', name=op.f('experiments_job_id_key'))
    )
    op.execute("ALTER TABLE experiments SET (toast_tuple_target = 8160)")
    op.create_index('experiments_by_context', 'experiments', ['context_id'], unique=False)
    op.create_index('experiments_by_project', 'experiments', ['project_id', 'id'], unique=False)
    op.create_index('experiments_by_user', 'experiments', ['user_id', 'id'], unique=False)
    op.create_index('experiments_live', 'experiments', ['id'], unique=False, postgresql_where=sa.text("state IN ('ACTIVE', 'PAUSED', 'STOPPING_COMPLETED', 'STOPPING_CANCELED', 'STOPPING_KILLED', 'STOPPING_ERROR')"))
    op.create_index('experiments_unsealed', 'experiments', ['id'], unique=False, postgresql_where=sa.text('sealed IS NULL'))
    op.create_table('project_views',
        sa.Column('user_id', sa.Integer, nullable=False),
        sa.Column('project_id', sa.Integer, nullable=False),
        sa.Column('viewed_at', TIME, nullable=False),
        sa.ForeignKeyConstraint(['project_id'], ['projects.id'], name=op.f('project_views_project_id_fkey'), ondelete='CASCADE'),
        sa.ForeignKeyConstraint(['user_id'], ['users.id'], name=op.f('project_views_user_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('user_id', 'project_id', name=op.f('project_views_pkey'))
    )
    op.create_table('search_events',
        sa.Column('experiment_id', sa.Integer, nullable=False),
        sa.Column('seq', sa.BigInteger, nullable=False),
        sa.Column('event', JSONB, nullable=False),
        sa.ForeignKeyConstraint(['experiment_id'], ['experiments.id'], name=op.f('search_events_experiment_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('experiment_id', 'seq', name=op.f('search_events_pkey'))
    )
    op.create_table('searches',
        sa.Column('experiment_id', sa.Integer, nullable=False),
        sa.Column('seq', sa.BigInteger, server_default=sa.text('0'), nullable=False),
        sa.Column('snapshot_seq', sa.BigInteger, server_default=sa.text('0'), nullable=False),
        sa.Column('snapshot', JSON, nullable=True),
        sa.Column('closed', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.CheckConstraint('snapshot_seq <= seq', name=op.f('searches_snapshot_seq_check')),
        sa.ForeignKeyConstraint(['experiment_id'], ['experiments.id'], name=op.f('searches_experiment_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('experiment_id', name=op.f('searches_pkey'))
    )
    op.create_table('trials',
        sa.Column('id', sa.Integer, sa.Identity(always=False), nullable=False),
        sa.Column('experiment_id', sa.Integer, nullable=False),
        sa.Column('request_id', sa.Uuid, nullable=False),
        sa.Column('external_id', sa.Text, nullable=True),
        sa.Column('state', trial_state, nullable=False),
        sa.Column('hparams', JSON, nullable=False),
        sa.Column('seed', sa.BigInteger, nullable=False),
        sa.Column('run_id', sa.Integer, server_default=sa.text('0'), nullable=False),
        sa.Column('restarts', sa.Integer, server_default=sa.text('0'), nullable=False),
        sa.Column('early_exit', exit_reason, nullable=True),
        sa.Column('parked', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('stop_requested', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('train_to', sa.Double, nullable=True),
        sa.Column('op_completed', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('total_batches', sa.Integer, server_default=sa.text('0'), nullable=False),
        sa.Column('progress', sa.Double, nullable=True),
        sa.Column('runner_state', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column('searcher_metric', sa.Double, nullable=True),
        sa.Column('best_validation_id', sa.BigInteger, nullable=True),
        sa.Column('latest_validation_id', sa.BigInteger, nullable=True),
        sa.Column('summary_metrics', JSONB, server_default=sa.text("'{}'"), nullable=False),
        sa.Column('metadata', JSONB, nullable=True),
        sa.Column('archived', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('task_id', sa.Text, nullable=False),
        sa.Column('warm_start_uuid', sa.Uuid, nullable=True),
        sa.Column('log_policy_matched', sa.Text, nullable=True),
        sa.Column('blocked_agents', sa.ARRAY(sa.Text), server_default=sa.text("'{}'"), nullable=False),
        sa.Column('log_retention_days', sa.Integer, nullable=True),
        sa.Column('heartbeat_at', TIME, nullable=True),
        sa.Column('started_at', TIME, nullable=False),
        sa.Column('ended_at', TIME, nullable=True),
        sa.Column('rested_run', sa.Integer, nullable=True),
        sa.CheckConstraint("(ended_at IS NOT NULL) = (state IN ('COMPLETED', 'CANCELED', 'ERROR'))", name=op.f('trials_ended_check')),
        sa.ForeignKeyConstraint(['experiment_id'], ['experiments.id'], name=op.f('trials_experiment_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('id', name=op.f('trials_pkey')),
        sa.UniqueConstraint('experiment_id', 'request_id', name=op.f('trials_experiment_id_request_id_key')),
        sa.UniqueConstraint('task_id', name=op.f('trials_task_id_key'))
    )
    op.create_index('trial_external_id', 'trials', ['experiment_id', 'external_id'], unique=True, postgresql_where=sa.text('external_id IS NOT NULL'))
    op.create_index('trials_by_heartbeat', 'trials', ['heartbeat_at'], unique=False, postgresql_where=sa.text('heartbeat_at IS NOT NULL AND ended_at IS NULL'))
    op.create_index('trials_live', 'trials', ['experiment_id'], unique=False, postgresql_where=sa.text('ended_at IS NULL'))
    op.create_table('metrics',
        sa.Column('id', sa.BigInteger, sa.Identity(always=True), nullable=False),
        sa.Column('trial_id', sa.Integer, nullable=False),
        sa.Column('run_id', sa.Integer, nullable=False),
        sa.Column('metric_group', sa.Text, nullable=False),
        sa.Column('total_batches', sa.Integer, nullable=True),
        sa.Column('metrics', JSONB, nullable=False),
        sa.Column('batch_metrics', JSONB, nullable=True),
        sa.Column('archived', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('reported_at', TIME, nullable=False),
        sa.ForeignKeyConstraint(['trial_id'], ['trials.id'], name=op.f('metrics_trial_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('id', name=op.f('metrics_pkey'))
    )
    op.create_index('one_report_a_step', 'metrics', ['trial_id', 'metric_group', 'total_batches'], unique=True, postgresql_where=sa.text('NOT archived AND total_batches IS NOT NULL'))
    op.create_table('tasks',
        sa.Column('id', sa.Text, nullable=False),
        sa.Column('kind', task_kind, nullable=False),
        sa.Column('job_id', sa.Uuid, nullable=False),
        sa.Column('trial_id', sa.Integer, nullable=True),
        sa.Column('experiment_id', sa.Integer, nullable=True),
        sa.Column('context_id', sa.Uuid, nullable=True),
        sa.Column('config', JSONB, nullable=True),
        sa.Column('sealed', sa.Text, nullable=True),
        sa.Column('started_at', TIME, nullable=False),
        sa.Column('ended_at', TIME, nullable=True),
        sa.ForeignKeyConstraint(['context_id'], ['contexts.id'], name=op.f('tasks_context_id_fkey')),
        sa.ForeignKeyConstraint(['experiment_id'], ['experiments.id'], name=op.f('tasks_experiment_id_fkey'), ondelete='CASCADE'),
        sa.ForeignKeyConstraint(['job_id'], ['jobs.id'], name=op.f('tasks_job_id_fkey')),
        sa.ForeignKeyConstraint(['trial_id'], ['trials.id'], name=op.f('tasks_trial_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('id', name=op.f('tasks_pkey'))
    )
    op.create_index('tasks_by_context', 'tasks', ['context_id'], unique=False, postgresql_where=sa.text('context_id IS NOT NULL'))
    op.create_index('tasks_by_experiment', 'tasks', ['experiment_id'], unique=False)
    op.create_index('tasks_by_job', 'tasks', ['job_id'], unique=False)
    op.create_index('tasks_by_trial', 'tasks', ['trial_id'], unique=False)
    op.create_index('tasks_unsealed', 'tasks', ['id'], unique=False, postgresql_where=sa.text('config IS NOT NULL AND sealed IS NULL'))
    op.create_table('allocations',
        sa.Column('id', sa.Text, nullable=False),
        sa.Column('task_id', sa.Text, nullable=False),
        sa.Column('trial_id', sa.Integer, nullable=True),
        sa.Column('job_id', sa.Uuid, nullable=False),
        sa.Column('run_id', sa.Integer, nullable=False),
        sa.Column('pool', sa.Text, nullable=False),
        sa.Column('slots', sa.Integer, nullable=False),
        sa.Column('state', allocation_state, nullable=False),
        sa.Column('epoch', sa.Integer, server_default=sa.text('0'), nullable=False),
        sa.Column('preemptible', sa.Boolean, nullable=False),
        sa.Column('single_agent', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('preempt_timeout_s', sa.Integer, server_default=sa.text('3600'), nullable=False),
        sa.Column('backfilled', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('ready', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('preempt_at', TIME, nullable=True),
        sa.Column('preempt_reason', sa.Text, nullable=True),
        sa.Column('preempt_acked', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('kill_at', TIME, nullable=True),
        sa.Column('killed', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('kill_before_exit', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('wait_code', wait_code, nullable=True),
        sa.Column('wait_reason', sa.Text, nullable=True),
        sa.Column('wait_since', TIME, nullable=True),
        sa.Column('machine_code', provision_code, nullable=True),
        sa.Column('machine_reason', sa.Text, nullable=True),
        sa.Column('machine_next_try', TIME, nullable=True),
        sa.Column('ports', JSONB, server_default=sa.text("'{}'"), nullable=False),
        sa.Column('token_expires_at', TIME, nullable=True),
        sa.Column('requested_at', TIME, nullable=False),
        sa.Column('assigned_at', TIME, nullable=True),
        sa.Column('pull_started_at', TIME, nullable=True),
        sa.Column('pull_ended_at', TIME, nullable=True),
        sa.Column('started_at', TIME, nullable=True),
        sa.Column('workspace_name', sa.Text, nullable=True),
        sa.Column('ended_at', TIME, nullable=True),
        sa.Column('exit_kind', exit_kind, nullable=True),
        sa.Column('exit_reason', sa.Text, nullable=True),
        sa.Column('pull_failed', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('exit_code', sa.Integer, nullable=True),
        sa.Column('peer_key', sa.Text, server_default=sa.text("replace(((gen_random_uuid())::text || (gen_random_uuid())::text), '-'::text, ''::text)"), nullable=False),
        sa.Column('setback', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('not_before', TIME, nullable=True),
        sa.CheckConstraint("(ended_at IS NOT NULL) = (state = 'TERMINATED')", name=op.f('allocations_ended_check')),
        sa.CheckConstraint('slots >= 0', name=op.f('allocations_slots_check')),
        sa.ForeignKeyConstraint(['job_id'], ['jobs.id'], name=op.f('allocations_job_id_fkey')),
        sa.ForeignKeyConstraint(['task_id'], ['tasks.id'], name=op.f('allocations_task_id_fkey'), ondelete='CASCADE'),
        sa.ForeignKeyConstraint(['trial_id'], ['trials.id'], name=op.f('allocations_trial_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('id', name=op.f('allocations_pkey'))
    )
    op.create_index('allocations_by_end', 'allocations', ['ended_at'], unique=False, postgresql_where=sa.text('started_at IS NOT NULL'))
    op.create_index('allocations_by_job', 'allocations', ['job_id'], unique=False)
    op.create_index('allocations_by_task', 'allocations', ['task_id'], unique=False)
    op.create_index('allocations_by_trial', 'allocations', ['trial_id'], unique=False)
    op.create_index('allocations_due', 'allocations', ['kill_at'], unique=False, postgresql_where=sa.text("state <> 'TERMINATED' AND kill_at IS NOT NULL"))
    op.create_index('allocations_live', 'allocations', ['pool', 'state'], unique=False, postgresql_where=sa.text("state <> 'TERMINATED'"))
    op.create_index('allocations_not_before', 'allocations', ['not_before'], unique=False, postgresql_where=sa.text("not_before IS NOT NULL AND state = 'QUEUED'"))
    op.create_index('one_live_allocation', 'allocations', ['task_id'], unique=True, postgresql_where=sa.text("state <> 'TERMINATED'"))
    op.create_table('checkpoints',
        sa.Column('uuid', sa.Uuid, nullable=False),
        sa.Column('task_id', sa.Text, nullable=True),
        sa.Column('allocation_id', sa.Text, nullable=True),
        sa.Column('storage_id', sa.Integer, nullable=True),
        sa.Column('trial_id', sa.Integer, nullable=True),
        sa.Column('experiment_id', sa.Integer, nullable=True),
        sa.Column('state', checkpoint_state, nullable=False),
        sa.Column('steps_completed', sa.Integer, server_default=sa.text('0'), nullable=False),
        sa.Column('resources', JSONB, server_default=sa.text("'{}'"), nullable=False),
        sa.Column('metadata', JSONB, server_default=sa.text("'{}'"), nullable=False),
        sa.Column('size', sa.BigInteger, server_default=sa.text('0'), nullable=False),
        sa.Column('reported_at', TIME, nullable=False),
        sa.ForeignKeyConstraint(['experiment_id'], ['experiments.id'], name=op.f('checkpoints_experiment_id_fkey'), ondelete='CASCADE'),
        sa.ForeignKeyConstraint(['task_id'], ['tasks.id'], name=op.f('checkpoints_task_id_fkey'), ondelete='CASCADE'),
        sa.ForeignKeyConstraint(['trial_id'], ['trials.id'], name=op.f('checkpoints_trial_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('uuid', name=op.f('checkpoints_pkey'))
    )
    op.create_index('checkpoints_by_experiment', 'checkpoints', ['experiment_id'], unique=False)
    op.create_index('checkpoints_by_task', 'checkpoints', ['task_id'], unique=False)
    op.create_index('checkpoints_by_trial', 'checkpoints', ['trial_id', 'steps_completed'], unique=False)
    op.create_table('containers',
        sa.Column('id', sa.Uuid, nullable=False),
        sa.Column('allocation_id', sa.Text, nullable=False),
        sa.Column('agent_id', sa.Text, nullable=False),
        sa.Column('epoch', sa.Integer, nullable=False),
        sa.Column('rank', sa.Integer, nullable=False),
        sa.Column('slot_ids', sa.ARRAY(sa.Integer), nullable=False),
        sa.Column('state', container_state, nullable=False),
        sa.Column('daemon', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('address', sa.Text, nullable=True),
        sa.Column('host_ports', JSONB, server_default=sa.text("'{}'"), nullable=False),
        sa.Column('runtime_id', sa.Text, nullable=True),
        sa.Column('rendezvous_at', TIME, nullable=True),
        sa.Column('exit_code', sa.Integer, nullable=True),
        sa.Column('failure', failure, nullable=True),
        sa.Column('message', sa.Text, nullable=True),
        sa.Column('assigned_at', TIME, nullable=False),
        sa.Column('started_at', TIME, nullable=True),
        sa.Column('ended_at', TIME, nullable=True),
        sa.CheckConstraint("(ended_at IS NOT NULL) = (state = 'TERMINATED')", name=op.f('containers_ended_check')),
        sa.ForeignKeyConstraint(['allocation_id'], ['allocations.id'], name=op.f('containers_allocation_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('id', name=op.f('containers_pkey')),
        sa.UniqueConstraint('allocation_id', 'epoch', 'rank', name=op.f('containers_allocation_id_epoch_rank_key'))
    )
    op.create_index('containers_by_agent_end', 'containers', ['agent_id', 'ended_at'], unique=False)
    op.create_index('containers_by_allocation', 'containers', ['allocation_id'], unique=False)
    op.create_index('containers_live', 'containers', ['agent_id'], unique=False, postgresql_where=sa.text("state <> 'TERMINATED'"))
    op.create_table('gathers',
        sa.Column('allocation_id', sa.Text, nullable=False),
        sa.Column('request_uuid', sa.Text, nullable=False),
        sa.Column('payload', JSONB, nullable=False),
        sa.Column('round', sa.Integer, server_default=sa.text('0'), nullable=False),
        sa.ForeignKeyConstraint(['allocation_id'], ['allocations.id'], name=op.f('gathers_allocation_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('allocation_id', 'request_uuid', name=op.f('gathers_pkey'))
    )
    op.create_table('model_versions',
        sa.Column('id', sa.Integer, sa.Identity(always=False), nullable=False),
        sa.Column('model_id', sa.Integer, nullable=False),
        sa.Column('version', sa.Integer, nullable=False),
        sa.Column('checkpoint_uuid', sa.Uuid, nullable=False),
        sa.Column('name', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column('comment', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column('notes', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column('metadata', JSONB, server_default=sa.text("'{}'"), nullable=False),
        sa.Column('labels', sa.ARRAY(sa.Text), server_default=sa.text("'{}'"), nullable=False),
        sa.Column('user_id', sa.Integer, nullable=False),
        sa.Column('created_at', TIME, nullable=False),
        sa.Column('updated_at', TIME, nullable=False),
        sa.ForeignKeyConstraint(['checkpoint_uuid'], ['checkpoints.uuid'], name=op.f('model_versions_checkpoint_uuid_fkey')),
        sa.ForeignKeyConstraint(['model_id'], ['models.id'], name=op.f('model_versions_model_id_fkey'), ondelete='CASCADE'),
        sa.ForeignKeyConstraint(['user_id'], ['users.id'], name=op.f('model_versions_user_id_fkey')),
        sa.PrimaryKeyConstraint('id', name=op.f('model_versions_pkey')),
        sa.UniqueConstraint('model_id', 'version', name=op.f('model_versions_model_id_version_key'))
    )
    op.create_index('model_versions_by_checkpoint', 'model_versions', ['checkpoint_uuid'], unique=False)
    op.create_table('trial_sources',
        sa.Column('trial_id', sa.Integer, nullable=False),
        sa.Column('checkpoint_uuid', sa.Uuid, nullable=False),
        sa.Column('model_id', sa.Integer, nullable=True),
        sa.Column('model_version', sa.Integer, nullable=True),
        sa.Column('kind', sa.Text, nullable=False),
        sa.ForeignKeyConstraint(['checkpoint_uuid'], ['checkpoints.uuid'], name=op.f('trial_sources_checkpoint_uuid_fkey'), ondelete='CASCADE'),
        sa.ForeignKeyConstraint(['trial_id'], ['trials.id'], name=op.f('trial_sources_trial_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('trial_id', 'checkpoint_uuid', name=op.f('trial_sources_pkey'))
    )
    op.create_index('trial_sources_by_checkpoint', 'trial_sources', ['checkpoint_uuid'], unique=False)
    op.create_table('slots',
        sa.Column('agent_id', sa.Text, nullable=False),
        sa.Column('slot_id', sa.Integer, nullable=False),
        sa.Column('device_type', device_type, nullable=False),
        sa.Column('device_uuid', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column('device_brand', sa.Text, server_default=sa.text("''"), nullable=False),
        sa.Column('enabled', sa.Boolean, server_default=sa.text('true'), nullable=False),
        sa.Column('draining', sa.Boolean, server_default=sa.text('false'), nullable=False),
        sa.Column('container_id', sa.Uuid, nullable=True),
        sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('slots_agent_id_fkey'), ondelete='CASCADE'),
        sa.ForeignKeyConstraint(['container_id'], ['containers.id'], name=op.f('slots_container_id_fkey'), ondelete='SET NULL'),
        sa.PrimaryKeyConstraint('agent_id', 'slot_id', name=op.f('slots_pkey'))
    )
    op.create_index('slots_by_container', 'slots', ['container_id'], unique=False, postgresql_where=sa.text('container_id IS NOT NULL'))


def add_built_in() -> None:
    """Add the cluster's identity, and accounts and homes. A password is set at first start (NULL cannot sign in)."""
    op.execute("INSERT INTO cluster DEFAULT VALUES")
    op.execute("INSERT INTO users (id, username, admin) VALUES (1, 'admin', true), (2, 'determined', false)")
    op.execute("INSERT INTO workspaces (id, name, user_id, immutable) VALUES (1, 'Uncategorized', 1, true)")
    op.execute(
        "INSERT INTO projects (id, workspace_id, name, key, user_id, immutable)"
        " VALUES (1, 1, 'Uncategorized', 'UNCAT', 1, true)"
    )
    op.execute("""
        SELECT setval(pg_get_serial_sequence('users', 'id'), 2), setval(pg_get_serial_sequence('workspaces', 'id'), 1),
               setval(pg_get_serial_sequence('projects', 'id'), 1)
    """)
