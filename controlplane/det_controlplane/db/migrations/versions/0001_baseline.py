"""Everything that 0.1.0 stores. PostgreSQL executes the statements of each block in their order."""

# fmt: off
from alembic import op

revision = "0001"
down_revision = None

TYPES = r"""
CREATE TYPE agent_state AS ENUM ('JOINED', 'SUSPECT', 'LOST');
CREATE TYPE allocation_state AS ENUM ('QUEUED', 'ASSIGNED', 'PULLING', 'STARTING', 'RUNNING', 'WAITING', 'TERMINATING', 'TERMINATED');
CREATE TYPE budget_period AS ENUM ('total', 'month');
CREATE TYPE budget_scope AS ENUM ('experiment', 'user', 'workspace', 'pool');
CREATE TYPE budget_state AS ENUM ('WITHIN', 'WARNED', 'DRAINING', 'STOPPED');
CREATE TYPE capacity AS ENUM ('spot', 'on-demand');
CREATE TYPE checkpoint_state AS ENUM ('ACTIVE', 'COMPLETED', 'ERROR', 'DELETED', 'PARTIALLY_DELETED');
CREATE TYPE container_state AS ENUM ('ASSIGNED', 'PULLING', 'STARTING', 'RUNNING', 'TERMINATED');
CREATE TYPE deletion_state AS ENUM ('DELETING', 'DELETE_FAILED', 'DELETED');
CREATE TYPE device_type AS ENUM ('cpu', 'cuda', 'rocm');
CREATE TYPE effect_kind AS ENUM ('checkpoint_gc', 'delete_experiment', 'delete_object', 'delete_project', 'delete_workspace', 'webhook');
CREATE TYPE exit_kind AS ENUM ('never ran', 'killed', 'preempted', 'clean', 'failed', 'infrastructure', 'unrecoverable');
CREATE TYPE exit_reason AS ENUM ('INVALID_HP', 'INIT_INVALID_HP', 'ERRORED', 'USER_CANCELED', 'USER_REQUESTED_STOP');
CREATE TYPE experiment_state AS ENUM ('ACTIVE', 'PAUSED', 'STOPPING_COMPLETED', 'STOPPING_CANCELED', 'STOPPING_KILLED', 'STOPPING_ERROR', 'COMPLETED', 'CANCELED', 'ERROR', 'DELETING', 'DELETE_FAILED');
CREATE TYPE failure AS ENUM ('container_failed', 'image_pull', 'agent_error', 'agent_lost', 'aborted');
CREATE TYPE generic_task_state AS ENUM ('ACTIVE', 'STOPPING_PAUSED', 'PAUSED', 'STOPPING_CANCELED', 'COMPLETED', 'CANCELED', 'ERROR');
CREATE TYPE instance_state AS ENUM ('REQUESTED', 'LAUNCHED', 'REGISTERED', 'DRAINING', 'TERMINATING', 'GONE', 'FAILED');
CREATE TYPE job_kind AS ENUM ('EXPERIMENT', 'NOTEBOOK', 'TENSORBOARD', 'SHELL', 'COMMAND', 'CHECKPOINT_GC', 'GENERIC');
CREATE TYPE log_level AS ENUM ('TRACE', 'DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL');
CREATE TYPE provision_code AS ENUM ('MACHINE_STARTING', 'BEHIND_HIGHER_PRIORITY', 'LAUNCHING', 'NO_OFFER_FITS', 'PRICE_CAP', 'MAX_INSTANCES', 'MAX_HOURLY_COST', 'COOLING_DOWN', 'POOL_HELD');
CREATE TYPE refusal_kind AS ENUM ('NO_CAPACITY', 'QUOTA', 'DENIED', 'INVALID', 'RETRYABLE');
CREATE TYPE session_kind AS ENUM ('user', 'access', 'allocation');
CREATE TYPE task_kind AS ENUM ('TRIAL', 'NOTEBOOK', 'SHELL', 'COMMAND', 'TENSORBOARD', 'CHECKPOINT_GC', 'GENERIC');
CREATE TYPE trial_state AS ENUM ('ACTIVE', 'PAUSED', 'STOPPING_COMPLETED', 'STOPPING_CANCELED', 'STOPPING_KILLED', 'STOPPING_ERROR', 'COMPLETED', 'CANCELED', 'ERROR');
CREATE TYPE trigger_type AS ENUM ('EXPERIMENT_STATE_CHANGE', 'TASK_LOG', 'CUSTOM');
CREATE TYPE wait_code AS ENUM ('NO_AGENTS', 'TOO_LARGE', 'NO_FREE_SLOTS', 'NO_WHOLE_AGENTS', 'AUX_LIMIT', 'AGENT_DRAINING', 'AGENT_OUT_OF_SERVICE', 'BLOCKED_NODES', 'MAX_SLOTS', 'BEHIND_HIGHER_PRIORITY', 'WAITING_FOR_PREEMPTION', 'FAIR_SHARE', 'BACKING_OFF');
CREATE TYPE webhook_mode AS ENUM ('WORKSPACE', 'SPECIFIC');
CREATE TYPE webhook_type AS ENUM ('DEFAULT', 'SLACK');
CREATE TYPE workload_type AS ENUM ('EXPERIMENT', 'NTSC');
"""

TABLES = r"""
CREATE TABLE agents (
    id text NOT NULL,
    pool text NOT NULL,
    state agent_state NOT NULL,
    agent_key_hash bytea NOT NULL,
    incarnation uuid NOT NULL,
    token_hash bytea NOT NULL,
    version text DEFAULT ''::text NOT NULL,
    hostname text DEFAULT ''::text NOT NULL,
    runtime text DEFAULT ''::text NOT NULL,
    addresses text[] DEFAULT '{}'::text[] NOT NULL,
    enabled boolean DEFAULT true NOT NULL,
    draining boolean DEFAULT false NOT NULL,
    joined_at timestamp with time zone NOT NULL,
    last_seen_at timestamp with time zone NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    lost_after timestamp with time zone NOT NULL,
    poll_seq bigint DEFAULT 0 NOT NULL,
    leaving boolean DEFAULT false NOT NULL,
    out_of_service text DEFAULT ''::text NOT NULL,
    product_version text DEFAULT ''::text NOT NULL,
    unsent_at timestamp with time zone,
    relay_dials integer DEFAULT 0 NOT NULL
)
WITH (fillfactor='30', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');

CREATE TABLE allocations (
    id text NOT NULL,
    task_id text NOT NULL,
    trial_id integer,
    job_id uuid NOT NULL,
    run_id integer NOT NULL,
    pool text NOT NULL,
    slots integer NOT NULL,
    state allocation_state NOT NULL,
    epoch integer DEFAULT 0 NOT NULL,
    preemptible boolean NOT NULL,
    single_agent boolean DEFAULT false NOT NULL,
    preempt_timeout_s integer DEFAULT 3600 NOT NULL,
    backfilled boolean DEFAULT false NOT NULL,
    ready boolean DEFAULT false NOT NULL,
    preempt_at timestamp with time zone,
    preempt_reason text,
    preempt_acked boolean DEFAULT false NOT NULL,
    kill_at timestamp with time zone,
    killed boolean DEFAULT false NOT NULL,
    kill_before_exit boolean DEFAULT false NOT NULL,
    wait_code wait_code,
    wait_reason text,
    wait_since timestamp with time zone,
    machine_code provision_code,
    machine_reason text,
    machine_next_try timestamp with time zone,
    ports jsonb DEFAULT '{}'::jsonb NOT NULL,
    token_expires_at timestamp with time zone,
    requested_at timestamp with time zone NOT NULL,
    assigned_at timestamp with time zone,
    pull_started_at timestamp with time zone,
    pull_ended_at timestamp with time zone,
    started_at timestamp with time zone,
    workspace_name text,
    ended_at timestamp with time zone,
    exit_kind exit_kind,
    exit_reason text,
    pull_failed boolean DEFAULT false NOT NULL,
    exit_code integer,
    peer_key text DEFAULT replace(((gen_random_uuid())::text || (gen_random_uuid())::text), '-'::text, ''::text) NOT NULL,
    setback boolean DEFAULT false NOT NULL,
    not_before timestamp with time zone,
    start_checkpoint uuid,
    start_steps integer,
    awaited_until timestamp with time zone,
    wait_reason_id bigint,
    CONSTRAINT allocations_ended_check CHECK (((ended_at IS NOT NULL) = (state = 'TERMINATED'::allocation_state))),
    CONSTRAINT allocations_slots_check CHECK ((slots >= 0))
);

CREATE TABLE audit_log (
    id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    at timestamp with time zone NOT NULL,
    user_id integer NOT NULL,
    username text NOT NULL,
    via text NOT NULL,
    session_id bigint,
    task_id text,
    address text NOT NULL,
    action text NOT NULL,
    object text NOT NULL,
    details jsonb NOT NULL
);

CREATE TABLE budgets (
    id integer GENERATED ALWAYS AS IDENTITY NOT NULL,
    scope budget_scope NOT NULL,
    scope_id text NOT NULL,
    limit_usd numeric(14,2) NOT NULL,
    period budget_period NOT NULL,
    state budget_state DEFAULT 'WITHIN'::budget_state NOT NULL,
    set_at timestamp with time zone NOT NULL,
    checked_at timestamp with time zone NOT NULL,
    CONSTRAINT budgets_limit_check CHECK ((limit_usd > (0)::numeric))
);

CREATE TABLE changed_days (
    id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    day timestamp with time zone NOT NULL
);

CREATE TABLE checkpoint_counts (
    experiment_id integer NOT NULL,
    complete integer DEFAULT 0 NOT NULL,
    size bigint DEFAULT 0 NOT NULL
);

CREATE TABLE checkpoints (
    uuid uuid NOT NULL,
    task_id text,
    allocation_id text,
    storage_id integer,
    trial_id integer,
    experiment_id integer,
    state checkpoint_state NOT NULL,
    steps_completed integer DEFAULT 0 NOT NULL,
    resources jsonb DEFAULT '{}'::jsonb NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    size bigint DEFAULT 0 NOT NULL,
    reported_at timestamp with time zone NOT NULL,
    files_looked_at timestamp with time zone,
    looks_without_files smallint DEFAULT 0 NOT NULL
);

CREATE TABLE closed_days (
    day timestamp with time zone NOT NULL,
    fence bigint,
    summed_at timestamp with time zone
);

CREATE TABLE cluster (
    only_row boolean DEFAULT true NOT NULL,
    cluster_id uuid DEFAULT gen_random_uuid() NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    log_level log_level,
    log_color boolean,
    cleaned_at timestamp with time zone,
    ticking boolean DEFAULT true NOT NULL,
    ticked_at timestamp with time zone,
    answering_since timestamp with time zone,
    watched_since timestamp with time zone,
    CONSTRAINT cluster_only_row_check CHECK (only_row)
);

CREATE TABLE cluster_message (
    only_row boolean DEFAULT true NOT NULL,
    message text NOT NULL,
    starts_at timestamp with time zone NOT NULL,
    ends_at timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT cluster_message_message_check CHECK ((length(message) <= 250)),
    CONSTRAINT cluster_message_only_row_check CHECK (only_row)
);

CREATE TABLE config_policies (
    workspace_id integer NOT NULL,
    workload_type workload_type NOT NULL,
    policy json NOT NULL,
    sealed text
);

CREATE TABLE containers (
    id uuid NOT NULL,
    allocation_id text NOT NULL,
    agent_id text NOT NULL,
    epoch integer NOT NULL,
    rank integer NOT NULL,
    slot_ids integer[] NOT NULL,
    state container_state NOT NULL,
    daemon boolean DEFAULT false NOT NULL,
    address text,
    host_ports jsonb DEFAULT '{}'::jsonb NOT NULL,
    runtime_id text,
    rendezvous_at timestamp with time zone,
    exit_code integer,
    failure failure,
    message text,
    assigned_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    CONSTRAINT containers_ended_check CHECK (((ended_at IS NOT NULL) = (state = 'TERMINATED'::container_state)))
);

CREATE TABLE contexts (
    id uuid NOT NULL,
    size bigint NOT NULL,
    sha256 text NOT NULL,
    content bytea,
    object_key text,
    uploaded boolean DEFAULT false NOT NULL,
    user_id integer,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT contexts_content_check CHECK (((content IS NOT NULL) OR (object_key IS NOT NULL)))
);

CREATE TABLE cooldowns (
    provider text NOT NULL,
    region text NOT NULL,
    zone text NOT NULL,
    machine_type text NOT NULL,
    capacity text NOT NULL,
    pool text DEFAULT ''::text NOT NULL,
    kind refusal_kind NOT NULL,
    until timestamp with time zone NOT NULL,
    sentence text NOT NULL,
    failures integer NOT NULL,
    refused_at timestamp with time zone NOT NULL,
    hint jsonb DEFAULT '[]'::jsonb NOT NULL
);

CREATE TABLE deleted_allocations (
    id text NOT NULL,
    task_kind task_kind NOT NULL,
    user_id integer NOT NULL,
    workspace_name text NOT NULL,
    experiment_id integer,
    labels text[] NOT NULL,
    slots integer NOT NULL,
    pool text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone NOT NULL,
    pull_s double precision NOT NULL
);

CREATE TABLE deleted_containers (
    id uuid NOT NULL,
    allocation_id text NOT NULL,
    trial_id integer,
    experiment_id integer,
    user_id integer NOT NULL,
    workspace_id integer NOT NULL,
    labels text[] NOT NULL,
    task_kind task_kind NOT NULL,
    allocation_slots integer NOT NULL,
    agent_id text NOT NULL,
    slots integer NOT NULL,
    assigned_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone NOT NULL
);

CREATE TABLE experiments (
    id integer GENERATED BY DEFAULT AS IDENTITY NOT NULL,
    job_id uuid NOT NULL,
    state experiment_state NOT NULL,
    config json NOT NULL,
    original_config text NOT NULL,
    sealed text,
    name text NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    notes text DEFAULT ''::text NOT NULL,
    labels text[] DEFAULT '{}'::text[] NOT NULL,
    user_id integer NOT NULL,
    project_id integer NOT NULL,
    context_id uuid,
    parent_id integer,
    archived boolean DEFAULT false NOT NULL,
    unmanaged boolean DEFAULT false NOT NULL,
    external_id text,
    progress double precision,
    best_trial_id integer,
    best_metric double precision,
    seed bigint NOT NULL,
    error text DEFAULT ''::text NOT NULL,
    idempotency_key text,
    log_retention_days integer,
    created_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    metric_name text GENERATED ALWAYS AS (COALESCE((config #>> '{searcher,metric}'::text[]), ''::text)) STORED NOT NULL,
    smaller_is_better boolean GENERATED ALWAYS AS (COALESCE(((config #>> '{searcher,smaller_is_better}'::text[]))::boolean, true)) STORED NOT NULL,
    max_restarts integer GENERATED ALWAYS AS (COALESCE(((config ->> 'max_restarts'::text))::integer, 5)) STORED NOT NULL,
    slots_per_trial integer GENERATED ALWAYS AS (COALESCE(((config #>> '{resources,slots_per_trial}'::text[]))::integer, 1)) STORED NOT NULL,
    searcher_name text GENERATED ALWAYS AS ((config #>> '{searcher,name}'::text[])) STORED,
    hyperparameters json GENERATED ALWAYS AS ((config -> 'hyperparameters'::text)) STORED,
    pachyderm json GENERATED ALWAYS AS ((config #> '{integrations,pachyderm}'::text[])) STORED,
    CONSTRAINT experiments_ended_check CHECK (((ended_at IS NOT NULL) = (state = ANY (ARRAY['COMPLETED'::experiment_state, 'CANCELED'::experiment_state, 'ERROR'::experiment_state, 'DELETING'::experiment_state, 'DELETE_FAILED'::experiment_state]))))
)
WITH (toast_tuple_target='8160');

CREATE TABLE gathers (
    allocation_id text NOT NULL,
    request_uuid text NOT NULL,
    payload jsonb NOT NULL,
    round integer DEFAULT 0 NOT NULL
);

CREATE TABLE group_members (
    group_id integer NOT NULL,
    user_id integer NOT NULL
);

CREATE TABLE groups (
    id integer GENERATED BY DEFAULT AS IDENTITY NOT NULL,
    name text NOT NULL,
    CONSTRAINT groups_name_check CHECK ((btrim(name) <> ''::text))
);

CREATE TABLE instances (
    id uuid NOT NULL,
    pool text NOT NULL,
    state instance_state NOT NULL,
    offers jsonb NOT NULL,
    provider text NOT NULL,
    region text NOT NULL,
    zone text NOT NULL,
    machine_type text NOT NULL,
    capacity capacity NOT NULL,
    slots integer NOT NULL,
    price_usd_hour numeric(14,6) NOT NULL,
    section integer DEFAULT 0 NOT NULL,
    purpose text,
    cloud_id text,
    attempt integer DEFAULT 1 NOT NULL,
    claimed_until timestamp with time zone,
    not_before timestamp with time zone,
    agent_id text,
    requested_at timestamp with time zone NOT NULL,
    launched_at timestamp with time zone,
    registered_at timestamp with time zone,
    draining_since timestamp with time zone,
    terminating_since timestamp with time zone,
    ended_at timestamp with time zone,
    seen_at timestamp with time zone,
    unseen integer DEFAULT 0 NOT NULL,
    stopped boolean DEFAULT false NOT NULL,
    reason text,
    console text,
    no_show boolean DEFAULT false NOT NULL,
    CONSTRAINT instances_ended_check CHECK (((ended_at IS NOT NULL) = (NOT (state <> ALL (ARRAY['GONE'::instance_state, 'FAILED'::instance_state]))))),
    CONSTRAINT instances_launched_check CHECK (((state <> 'LAUNCHED'::instance_state) OR (cloud_id IS NOT NULL))),
    CONSTRAINT instances_positive_check CHECK (((price_usd_hour >= (0)::numeric) AND (slots >= 0)))
);

CREATE TABLE interruptions (
    instance_id uuid NOT NULL,
    provider text NOT NULL,
    region text NOT NULL,
    zone text NOT NULL,
    machine_type text NOT NULL,
    noticed_at timestamp with time zone NOT NULL
);

CREATE TABLE jobs (
    id uuid NOT NULL,
    kind job_kind NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    pool text NOT NULL,
    priority integer,
    weight double precision DEFAULT 1 NOT NULL,
    max_slots integer,
    "position" numeric NOT NULL,
    user_id integer NOT NULL,
    workspace_id integer NOT NULL,
    submitted_at timestamp with time zone NOT NULL,
    in_queue boolean DEFAULT false NOT NULL,
    CONSTRAINT jobs_max_slots_check CHECK ((max_slots >= 0)),
    CONSTRAINT jobs_priority_check CHECK (((priority >= 1) AND (priority <= 99))),
    CONSTRAINT jobs_weight_check CHECK ((weight > (0)::double precision))
);

CREATE TABLE join_proofs (
    proof_hash bytea NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

CREATE TABLE join_tokens (
    id integer GENERATED BY DEFAULT AS IDENTITY NOT NULL,
    token_hash bytea NOT NULL,
    description text NOT NULL,
    user_id integer NOT NULL,
    max_uses integer,
    uses integer DEFAULT 0 NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    last_used_at timestamp with time zone
);

CREATE TABLE log_batches (
    batch_id uuid NOT NULL,
    stored_at timestamp with time zone NOT NULL
);

CREATE TABLE machine_costs_of_days (
    day timestamp with time zone NOT NULL,
    pool text NOT NULL,
    usd numeric NOT NULL
);

CREATE TABLE market_prices (
    provider text NOT NULL,
    region text NOT NULL,
    zone text NOT NULL,
    machine_type text NOT NULL,
    capacity capacity NOT NULL,
    price_usd_hour numeric(14,6) NOT NULL,
    since timestamp with time zone,
    read_at timestamp with time zone NOT NULL,
    CONSTRAINT market_prices_positive_check CHECK ((price_usd_hour > (0)::numeric))
);

CREATE TABLE market_reads (
    provider text NOT NULL,
    region text NOT NULL,
    due_at timestamp with time zone NOT NULL,
    read_at timestamp with time zone,
    problem text DEFAULT ''::text NOT NULL
);

CREATE TABLE market_types (
    provider text NOT NULL,
    region text NOT NULL,
    machine_type text NOT NULL,
    zones jsonb NOT NULL,
    slots integer NOT NULL
);

CREATE TABLE master_logs (
    id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    logged_at timestamp with time zone DEFAULT now() NOT NULL,
    level text NOT NULL,
    message text NOT NULL
);

CREATE TABLE metric_names (
    experiment_id integer NOT NULL,
    names jsonb DEFAULT '{}'::jsonb NOT NULL
);

CREATE TABLE metrics (
    id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    trial_id integer NOT NULL,
    run_id integer NOT NULL,
    metric_group text NOT NULL,
    total_batches integer,
    metrics jsonb NOT NULL,
    batch_metrics jsonb,
    archived boolean DEFAULT false NOT NULL,
    reported_at timestamp with time zone NOT NULL
);

CREATE TABLE model_versions (
    id integer GENERATED BY DEFAULT AS IDENTITY NOT NULL,
    model_id integer NOT NULL,
    version integer NOT NULL,
    checkpoint_uuid uuid NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    comment text DEFAULT ''::text NOT NULL,
    notes text DEFAULT ''::text NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    labels text[] DEFAULT '{}'::text[] NOT NULL,
    user_id integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL
);

CREATE TABLE models (
    id integer GENERATED BY DEFAULT AS IDENTITY NOT NULL,
    name text NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    labels text[] DEFAULT '{}'::text[] NOT NULL,
    notes text DEFAULT ''::text NOT NULL,
    user_id integer NOT NULL,
    workspace_id integer NOT NULL,
    archived boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL
);

CREATE TABLE offered_names (
    project_id integer NOT NULL,
    kind text NOT NULL,
    path text NOT NULL,
    type text NOT NULL,
    smallest integer NOT NULL
);

CREATE TABLE outbox (
    id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    kind effect_kind NOT NULL,
    payload jsonb NOT NULL,
    due_at timestamp with time zone NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    created_at timestamp with time zone NOT NULL
);

CREATE TABLE pool_bindings (
    pool text NOT NULL,
    workspace_id integer NOT NULL
);

CREATE TABLE pool_holds (
    pool text NOT NULL,
    sentence text NOT NULL,
    until timestamp with time zone,
    by_operator boolean NOT NULL,
    held_at timestamp with time zone NOT NULL
);

CREATE TABLE pools (
    name text NOT NULL,
    marked bigint DEFAULT 1 NOT NULL,
    answered bigint DEFAULT 0 NOT NULL,
    dirty boolean GENERATED ALWAYS AS ((marked > answered)) STORED NOT NULL,
    scheduled_at timestamp with time zone,
    provision_at timestamp with time zone,
    resumed_at timestamp with time zone
);

CREATE TABLE project_views (
    user_id integer NOT NULL,
    project_id integer NOT NULL,
    viewed_at timestamp with time zone NOT NULL
);

CREATE TABLE projects (
    id integer GENERATED BY DEFAULT AS IDENTITY NOT NULL,
    workspace_id integer NOT NULL,
    name text NOT NULL,
    key text NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    notes jsonb DEFAULT '[]'::jsonb NOT NULL,
    user_id integer NOT NULL,
    archived boolean DEFAULT false NOT NULL,
    immutable boolean DEFAULT false NOT NULL,
    state deletion_state,
    error_message text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT projects_key_check CHECK ((key ~ '^[A-Z0-9]{1,5}$'::text)),
    CONSTRAINT projects_name_check CHECK ((btrim(name) <> ''::text))
);

CREATE TABLE refused_metrics (
    trial_id integer NOT NULL,
    reports bigint NOT NULL
);

CREATE TABLE role_assignments (
    id integer GENERATED BY DEFAULT AS IDENTITY NOT NULL,
    role text NOT NULL,
    user_id integer,
    group_id integer,
    workspace_id integer,
    CONSTRAINT role_assignments_holder_check CHECK (((user_id IS NULL) <> (group_id IS NULL)))
);

CREATE TABLE run_values (
    trial_id integer NOT NULL,
    name_id integer NOT NULL,
    experiment_id integer NOT NULL,
    number double precision,
    text text
);

CREATE TABLE search_events (
    experiment_id integer NOT NULL,
    seq bigint NOT NULL,
    event jsonb NOT NULL
);

CREATE TABLE searches (
    experiment_id integer NOT NULL,
    seq bigint DEFAULT 0 NOT NULL,
    snapshot_seq bigint DEFAULT 0 NOT NULL,
    snapshot json,
    closed boolean DEFAULT false NOT NULL,
    CONSTRAINT searches_snapshot_seq_check CHECK ((snapshot_seq <= seq))
);

CREATE TABLE sessions (
    id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    token_hash bytea NOT NULL,
    kind session_kind NOT NULL,
    user_id integer NOT NULL,
    allocation_id text,
    description text,
    narrow boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    address text,
    program text,
    waits_for_agent text,
    CONSTRAINT sessions_allocation_check CHECK (((kind = 'allocation'::session_kind) = (allocation_id IS NOT NULL)))
);

CREATE TABLE sign_in_failures (
    username text NOT NULL,
    address text NOT NULL,
    failures integer NOT NULL,
    last_at timestamp with time zone NOT NULL
);

CREATE TABLE slots (
    agent_id text NOT NULL,
    slot_id integer NOT NULL,
    device_type device_type NOT NULL,
    device_uuid text DEFAULT ''::text NOT NULL,
    device_brand text DEFAULT ''::text NOT NULL,
    enabled boolean DEFAULT true NOT NULL,
    draining boolean DEFAULT false NOT NULL,
    container_id uuid
);

CREATE TABLE storages (
    id integer GENERATED ALWAYS AS IDENTITY NOT NULL,
    config jsonb NOT NULL,
    sealed text,
    fingerprint text DEFAULT ''::text NOT NULL,
    user_id integer DEFAULT 0 NOT NULL
);

CREATE TABLE task_log_spans (
    task_id text NOT NULL,
    span bigint NOT NULL,
    first_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone NOT NULL
);

CREATE TABLE task_logs (
    id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    task_id text NOT NULL,
    allocation_id text,
    agent_id text,
    container_id text,
    rank_id integer,
    logged_at timestamp with time zone NOT NULL,
    level text,
    source text,
    stdtype text,
    log text NOT NULL
);

CREATE TABLE tasks (
    id text NOT NULL,
    kind task_kind NOT NULL,
    job_id uuid NOT NULL,
    trial_id integer,
    experiment_id integer,
    context_id uuid,
    config jsonb,
    sealed text,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    logs_followed_until timestamp with time zone,
    proxies jsonb DEFAULT '[]'::jsonb NOT NULL,
    proxied_at timestamp with time zone,
    exit_status text,
    access_key text,
    idle_timeout_s double precision,
    active_at timestamp with time zone,
    state generic_task_state,
    parent_id text,
    forked_from text,
    no_pause boolean DEFAULT false NOT NULL,
    project_id integer,
    idempotency_key text,
    CONSTRAINT tasks_state_check CHECK (((state IS NULL) OR (kind = 'GENERIC'::task_kind)))
);

CREATE TABLE templates (
    name text NOT NULL,
    config json NOT NULL,
    sealed text,
    workspace_id integer NOT NULL,
    user_id integer,
    CONSTRAINT templates_name_check CHECK ((btrim(name) <> ''::text))
);

CREATE TABLE trial_counts (
    experiment_id integer NOT NULL,
    project_id integer NOT NULL,
    trials integer DEFAULT 0 NOT NULL
);

CREATE TABLE trial_sources (
    trial_id integer NOT NULL,
    checkpoint_uuid uuid NOT NULL,
    model_id integer,
    model_version integer,
    kind text NOT NULL
);

CREATE TABLE trials (
    id integer GENERATED BY DEFAULT AS IDENTITY NOT NULL,
    experiment_id integer NOT NULL,
    request_id uuid NOT NULL,
    external_id text,
    state trial_state NOT NULL,
    hparams json NOT NULL,
    seed bigint NOT NULL,
    run_id integer DEFAULT 0 NOT NULL,
    restarts integer DEFAULT 0 NOT NULL,
    early_exit exit_reason,
    parked boolean DEFAULT false NOT NULL,
    stop_requested boolean DEFAULT false NOT NULL,
    train_to double precision,
    op_completed boolean DEFAULT false NOT NULL,
    total_batches integer DEFAULT 0 NOT NULL,
    progress double precision,
    runner_state text DEFAULT ''::text NOT NULL,
    searcher_metric double precision,
    best_validation_id bigint,
    latest_validation_id bigint,
    summary_metrics jsonb DEFAULT '{}'::jsonb NOT NULL,
    metadata jsonb,
    archived boolean DEFAULT false NOT NULL,
    task_id text NOT NULL,
    warm_start_uuid uuid,
    log_policy_matched text,
    blocked_agents text[] DEFAULT '{}'::text[] NOT NULL,
    log_retention_days integer,
    heartbeat_at timestamp with time zone,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    rested_run integer,
    has_values boolean,
    CONSTRAINT trials_ended_check CHECK (((ended_at IS NOT NULL) = (state = ANY (ARRAY['COMPLETED'::trial_state, 'CANCELED'::trial_state, 'ERROR'::trial_state]))))
);

CREATE TABLE usage_of_days (
    day timestamp with time zone NOT NULL,
    user_id integer NOT NULL,
    pool text NOT NULL,
    labels text[] NOT NULL,
    seconds numeric NOT NULL
);

CREATE TABLE users (
    id integer GENERATED BY DEFAULT AS IDENTITY NOT NULL,
    username text NOT NULL,
    password_hash text,
    display_name text,
    admin boolean DEFAULT false NOT NULL,
    active boolean DEFAULT true NOT NULL,
    remote boolean DEFAULT false NOT NULL,
    agent_user jsonb,
    settings jsonb DEFAULT '{}'::jsonb NOT NULL,
    modified_at timestamp with time zone DEFAULT now() NOT NULL,
    last_auth_at timestamp with time zone,
    identity text,
    writes bigint DEFAULT 0 NOT NULL,
    CONSTRAINT users_username_check CHECK ((username <> ''::text))
);

CREATE TABLE value_names (
    id integer GENERATED ALWAYS AS IDENTITY NOT NULL,
    name text NOT NULL
);

CREATE TABLE wait_reasons (
    id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    pool text NOT NULL,
    code wait_code NOT NULL,
    sentence text NOT NULL
);

CREATE TABLE webhook_deliveries (
    id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    webhook_id integer NOT NULL,
    at timestamp with time zone NOT NULL,
    event_id text NOT NULL,
    event_type text NOT NULL,
    experiment_id integer,
    attempt integer NOT NULL,
    failure text,
    next_at timestamp with time zone,
    CONSTRAINT webhook_deliveries_again_check CHECK (((next_at IS NULL) OR (failure IS NOT NULL)))
);

CREATE TABLE webhook_log_matches (
    task_id text NOT NULL,
    trigger_id integer NOT NULL
);

CREATE TABLE webhook_triggers (
    id integer GENERATED BY DEFAULT AS IDENTITY NOT NULL,
    webhook_id integer NOT NULL,
    type trigger_type NOT NULL,
    condition jsonb NOT NULL
);

CREATE TABLE webhooks (
    id integer GENERATED BY DEFAULT AS IDENTITY NOT NULL,
    name text NOT NULL,
    url text NOT NULL,
    type webhook_type NOT NULL,
    mode webhook_mode NOT NULL,
    workspace_id integer,
    created_at timestamp with time zone NOT NULL,
    arrived_at timestamp with time zone,
    failed_at timestamp with time zone,
    failure text,
    sealed text
);

CREATE TABLE work_costs_of_days (
    day timestamp with time zone NOT NULL,
    user_id integer NOT NULL,
    workspace_id integer NOT NULL,
    pool text NOT NULL,
    labels text[] NOT NULL,
    slot_seconds numeric NOT NULL,
    usd numeric NOT NULL
);

CREATE TABLE workspace_pins (
    workspace_id integer NOT NULL,
    user_id integer NOT NULL,
    pinned_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE workspaces (
    id integer GENERATED BY DEFAULT AS IDENTITY NOT NULL,
    name text NOT NULL,
    user_id integer NOT NULL,
    archived boolean DEFAULT false NOT NULL,
    immutable boolean DEFAULT false NOT NULL,
    state deletion_state,
    error_message text DEFAULT ''::text NOT NULL,
    agent_user jsonb,
    checkpoint_storage jsonb,
    sealed text,
    default_compute_pool text,
    default_aux_pool text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT workspaces_name_check CHECK (((btrim(name) <> ''::text) AND (length(name) <= 80)))
);
"""

FUNCTIONS = r"""
CREATE FUNCTION count_added_checkpoint() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
    UPDATE checkpoint_counts SET complete = complete + (NEW.state = 'COMPLETED')::integer,
        size = size + CASE WHEN NEW.state IN ('COMPLETED', 'PARTIALLY_DELETED') THEN NEW.size ELSE 0 END
    WHERE experiment_id = NEW.experiment_id; RETURN NULL; END $$;

CREATE FUNCTION count_added_trials() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
    UPDATE trial_counts c SET trials = c.trials + x.trials
    FROM (SELECT experiment_id, count(*) AS trials FROM changed GROUP BY experiment_id) x
    WHERE c.experiment_id = x.experiment_id; RETURN NULL; END $$;

CREATE FUNCTION count_changed_checkpoint() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
    UPDATE checkpoint_counts SET
        complete = complete + (NEW.state = 'COMPLETED')::integer - (OLD.state = 'COMPLETED')::integer,
        size = size + CASE WHEN NEW.state IN ('COMPLETED', 'PARTIALLY_DELETED') THEN NEW.size ELSE 0 END - CASE WHEN OLD.state IN ('COMPLETED', 'PARTIALLY_DELETED') THEN OLD.size ELSE 0 END
    WHERE experiment_id = NEW.experiment_id; RETURN NULL; END $$;

CREATE FUNCTION count_deleted_checkpoints() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
    UPDATE checkpoint_counts c SET complete = c.complete - x.complete, size = c.size - x.size
    FROM (SELECT experiment_id, count(*) FILTER (WHERE state = 'COMPLETED') AS complete,
              coalesce(sum(size), 0)::bigint AS size
          FROM changed WHERE changed.state IN ('COMPLETED', 'PARTIALLY_DELETED') GROUP BY experiment_id) x
    WHERE c.experiment_id = x.experiment_id; RETURN NULL; END $$;

CREATE FUNCTION count_deleted_trials() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
    UPDATE trial_counts c SET trials = c.trials - x.trials
    FROM (SELECT experiment_id, count(*) AS trials FROM changed GROUP BY experiment_id) x
    WHERE c.experiment_id = x.experiment_id; RETURN NULL; END $$;

CREATE FUNCTION count_new_experiment() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
    INSERT INTO trial_counts (experiment_id, project_id) VALUES (NEW.id, NEW.project_id);
    INSERT INTO checkpoint_counts (experiment_id) VALUES (NEW.id); RETURN NULL; END $$;

CREATE FUNCTION cover_task_logs() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
    BEGIN

    INSERT INTO task_log_spans (task_id, span, first_at, last_at)
    SELECT n.task_id, n.span, date_trunc('minute', n.first_at), date_trunc('minute', n.last_at) + interval '1 minute'
    FROM (SELECT task_id, id >> 16 AS span, min(logged_at) AS first_at, max(logged_at) AS last_at
          FROM stored GROUP BY task_id, id >> 16) n
    WHERE NOT EXISTS (SELECT 1 FROM task_log_spans s WHERE s.task_id = n.task_id AND s.span = n.span
                      AND s.first_at <= n.first_at AND s.last_at >= n.last_at)
;
        RETURN NULL;
    END $$;

CREATE FUNCTION forget_values_of_run() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
        DELETE FROM run_values WHERE trial_id = NEW.id;
        NEW.has_values := NULL;
        RETURN NEW;
    END $$;

CREATE FUNCTION json_leaves(document jsonb) RETURNS TABLE(path text, type text)
    LANGUAGE sql IMMUTABLE
    AS $$
        WITH RECURSIVE leaf (path, value) AS (
            SELECT h.key, h.value
            FROM jsonb_each(CASE WHEN jsonb_typeof(document) = 'object' THEN document ELSE '{}'::jsonb END) h (key, value)
            UNION ALL SELECT leaf.path || '.' || h.key, h.value FROM leaf,
                jsonb_each(CASE WHEN jsonb_typeof(leaf.value) = 'object' THEN leaf.value ELSE '{}'::jsonb END) h (key, value))
        SELECT leaf.path, jsonb_typeof(leaf.value) FROM leaf WHERE jsonb_typeof(leaf.value) NOT IN ('object', 'null')
    $$;

CREATE FUNCTION keep_audit_log() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
    BEGIN
        IF TG_OP = 'DELETE' THEN
            IF OLD.at < now() - interval '30 days' THEN
                RETURN OLD;
            END IF;
        END IF;
        RAISE EXCEPTION 'the audit log only grows';
    END $$;

CREATE FUNCTION mark_jobs_in_queue() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
        UPDATE jobs SET in_queue = true WHERE NOT in_queue AND id IN (
            SELECT job_id FROM added WHERE state = 'QUEUED' AND not_before IS NULL);
        RETURN NULL;
    END $$;

CREATE FUNCTION move_counts_of_experiment() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN UPDATE trial_counts SET project_id = NEW.project_id WHERE experiment_id = NEW.id; RETURN NULL; END $$;

CREATE FUNCTION note_change_of_allocations() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
        IF TG_OP = 'INSERT' THEN
            PERFORM note_change_of_days(NEW.started_at, coalesce(NEW.ended_at, 'infinity'));
        ELSIF TG_OP = 'DELETE' THEN
            IF NOT EXISTS (SELECT FROM deleted_allocations d WHERE d.id = OLD.id) THEN
                PERFORM note_change_of_days(OLD.started_at, coalesce(OLD.ended_at, 'infinity'));
            END IF;
        ELSIF (OLD.started_at, OLD.slots, OLD.pool) IS NOT DISTINCT FROM (NEW.started_at, NEW.slots, NEW.pool) THEN
            PERFORM note_change_of_days(least(coalesce(OLD.ended_at, 'infinity'), coalesce(NEW.ended_at, 'infinity')),
                greatest(coalesce(OLD.ended_at, 'infinity'), coalesce(NEW.ended_at, 'infinity')));
        ELSE
            PERFORM note_change_of_days(least(OLD.started_at, NEW.started_at), 'infinity');
        END IF;
        RETURN NULL;
    END $$;

CREATE FUNCTION note_change_of_containers() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
        IF TG_OP = 'INSERT' THEN
            PERFORM note_change_of_days(NEW.assigned_at, coalesce(NEW.ended_at, 'infinity'));
        ELSIF TG_OP = 'DELETE' THEN
            IF NOT EXISTS (SELECT FROM deleted_containers d WHERE d.id = OLD.id) THEN
                PERFORM note_change_of_days(OLD.assigned_at, coalesce(OLD.ended_at, 'infinity'));
            END IF;
        ELSIF (OLD.assigned_at, OLD.agent_id, OLD.slot_ids) IS NOT DISTINCT FROM (NEW.assigned_at, NEW.agent_id, NEW.slot_ids) THEN
            PERFORM note_change_of_days(least(coalesce(OLD.ended_at, 'infinity'), coalesce(NEW.ended_at, 'infinity')),
                greatest(coalesce(OLD.ended_at, 'infinity'), coalesce(NEW.ended_at, 'infinity')));
        ELSE
            PERFORM note_change_of_days(least(OLD.assigned_at, NEW.assigned_at), 'infinity');
        END IF;
        RETURN NULL;
    END $$;

CREATE FUNCTION note_change_of_days(after timestamp with time zone, before timestamp with time zone) RETURNS void
    LANGUAGE sql
    AS $$
        INSERT INTO changed_days (day) SELECT c.day FROM closed_days c
        WHERE c.day > after - interval '24 hours' AND c.day < before
    $$;

CREATE FUNCTION note_change_of_experiments() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
        PERFORM note_change_of_days(x.after, x.before) FROM (
            SELECT min(a.requested_at) AS after, max(coalesce(a.ended_at, 'infinity')) AS before FROM allocations a WHERE a.job_id = NEW.job_id) x
        WHERE x.after IS NOT NULL;
        RETURN NULL;
    END $$;

CREATE FUNCTION note_change_of_instances() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
        IF TG_OP = 'INSERT' THEN
            PERFORM note_change_of_days(NEW.launched_at, coalesce(NEW.ended_at, 'infinity'));
        ELSIF TG_OP = 'DELETE' THEN
            IF NOT false THEN
                PERFORM note_change_of_days(OLD.launched_at, coalesce(OLD.ended_at, 'infinity'));
            END IF;
        ELSIF (OLD.launched_at, OLD.agent_id, OLD.pool, OLD.slots, OLD.price_usd_hour) IS NOT DISTINCT FROM (NEW.launched_at, NEW.agent_id, NEW.pool, NEW.slots, NEW.price_usd_hour) THEN
            PERFORM note_change_of_days(least(coalesce(OLD.ended_at, 'infinity'), coalesce(NEW.ended_at, 'infinity')),
                greatest(coalesce(OLD.ended_at, 'infinity'), coalesce(NEW.ended_at, 'infinity')));
        ELSE
            PERFORM note_change_of_days(least(OLD.launched_at, NEW.launched_at), 'infinity');
        END IF;
        RETURN NULL;
    END $$;

CREATE FUNCTION note_change_of_jobs() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
        PERFORM note_change_of_days(x.after, x.before) FROM (
            SELECT min(a.requested_at) AS after, max(coalesce(a.ended_at, 'infinity')) AS before FROM allocations a WHERE a.job_id = NEW.id) x
        WHERE x.after IS NOT NULL;
        RETURN NULL;
    END $$;

CREATE FUNCTION note_change_of_projects() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
        PERFORM note_change_of_days(x.after, x.before) FROM (
            SELECT min(a.requested_at) AS after, max(coalesce(a.ended_at, 'infinity')) AS before FROM allocations a JOIN experiments e ON e.job_id = a.job_id WHERE e.project_id = NEW.id) x
        WHERE x.after IS NOT NULL;
        RETURN NULL;
    END $$;

CREATE FUNCTION offer_names_of_metrics() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
    INSERT INTO offered_names AS o (project_id, kind, path, type, smallest)
    SELECT project_id, kind, path, type, min(size) FROM (
    SELECT e.project_id, 'metric' AS kind, concat(g.key, '.', n.key) AS path, n.value AS type,
        count(*) OVER (PARTITION BY m.experiment_id)::integer AS size
    FROM added m JOIN experiments e ON e.id = m.experiment_id, jsonb_each(m.names) g, jsonb_each_text(g.value) n) d
    WHERE octet_length(path) <= 2000 AND NOT EXISTS (
        SELECT FROM offered_names k WHERE k.project_id = d.project_id AND k.kind = d.kind AND k.path = d.path
            AND k.type = d.type AND k.smallest <= d.size)
    GROUP BY project_id, kind, path, type ORDER BY project_id, kind, path, type
    ON CONFLICT (project_id, kind, path, type) DO UPDATE SET smallest = excluded.smallest
        WHERE excluded.smallest < o.smallest; RETURN NULL; END $$;

CREATE FUNCTION offer_names_of_moved() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
    INSERT INTO offered_names AS o (project_id, kind, path, type, smallest)
    SELECT project_id, kind, path, type, min(size) FROM (
    SELECT e.project_id, 'hparam' AS kind, l.path, l.type, count(*) OVER (PARTITION BY t.id)::integer AS size
    FROM (SELECT * FROM trials WHERE experiment_id = NEW.id) t JOIN experiments e ON e.id = t.experiment_id, json_leaves(t.hparams::jsonb) l
    WHERE t.hparams IS NOT NULL UNION ALL
    SELECT e.project_id, 'metadata' AS kind, l.path, l.type, count(*) OVER (PARTITION BY t.id)::integer AS size
    FROM (SELECT * FROM trials WHERE experiment_id = NEW.id) t JOIN experiments e ON e.id = t.experiment_id, json_leaves(t.metadata::jsonb) l
    WHERE t.metadata IS NOT NULL UNION ALL
    SELECT e.project_id, 'metric' AS kind, concat(g.key, '.', n.key) AS path, n.value AS type,
        count(*) OVER (PARTITION BY m.experiment_id)::integer AS size
    FROM (SELECT * FROM metric_names WHERE experiment_id = NEW.id) m JOIN experiments e ON e.id = m.experiment_id, jsonb_each(m.names) g, jsonb_each_text(g.value) n) d
    WHERE octet_length(path) <= 2000 AND NOT EXISTS (
        SELECT FROM offered_names k WHERE k.project_id = d.project_id AND k.kind = d.kind AND k.path = d.path
            AND k.type = d.type AND k.smallest <= d.size)
    GROUP BY project_id, kind, path, type ORDER BY project_id, kind, path, type
    ON CONFLICT (project_id, kind, path, type) DO UPDATE SET smallest = excluded.smallest
        WHERE excluded.smallest < o.smallest; RETURN NULL; END $$;

CREATE FUNCTION offer_names_of_trial() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
    INSERT INTO offered_names AS o (project_id, kind, path, type, smallest)
    SELECT project_id, kind, path, type, min(size) FROM (
    SELECT e.project_id, 'hparam' AS kind, l.path, l.type, count(*) OVER (PARTITION BY t.id)::integer AS size
    FROM (SELECT NEW.id, NEW.experiment_id, NEW.hparams, NEW.metadata) t JOIN experiments e ON e.id = t.experiment_id, json_leaves(t.hparams::jsonb) l
    WHERE t.hparams IS NOT NULL UNION ALL
    SELECT e.project_id, 'metadata' AS kind, l.path, l.type, count(*) OVER (PARTITION BY t.id)::integer AS size
    FROM (SELECT NEW.id, NEW.experiment_id, NEW.hparams, NEW.metadata) t JOIN experiments e ON e.id = t.experiment_id, json_leaves(t.metadata::jsonb) l
    WHERE t.metadata IS NOT NULL) d
    WHERE octet_length(path) <= 2000 AND NOT EXISTS (
        SELECT FROM offered_names k WHERE k.project_id = d.project_id AND k.kind = d.kind AND k.path = d.path
            AND k.type = d.type AND k.smallest <= d.size)
    GROUP BY project_id, kind, path, type ORDER BY project_id, kind, path, type
    ON CONFLICT (project_id, kind, path, type) DO UPDATE SET smallest = excluded.smallest
        WHERE excluded.smallest < o.smallest; RETURN NULL; END $$;

CREATE FUNCTION offer_names_of_trials() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
    INSERT INTO offered_names AS o (project_id, kind, path, type, smallest)
    SELECT project_id, kind, path, type, min(size) FROM (
    SELECT e.project_id, 'hparam' AS kind, l.path, l.type, count(*) OVER (PARTITION BY t.id)::integer AS size
    FROM added t JOIN experiments e ON e.id = t.experiment_id, json_leaves(t.hparams::jsonb) l
    WHERE t.hparams IS NOT NULL UNION ALL
    SELECT e.project_id, 'metadata' AS kind, l.path, l.type, count(*) OVER (PARTITION BY t.id)::integer AS size
    FROM added t JOIN experiments e ON e.id = t.experiment_id, json_leaves(t.metadata::jsonb) l
    WHERE t.metadata IS NOT NULL) d
    WHERE octet_length(path) <= 2000 AND NOT EXISTS (
        SELECT FROM offered_names k WHERE k.project_id = d.project_id AND k.kind = d.kind AND k.path = d.path
            AND k.type = d.type AND k.smallest <= d.size)
    GROUP BY project_id, kind, path, type ORDER BY project_id, kind, path, type
    ON CONFLICT (project_id, kind, path, type) DO UPDATE SET smallest = excluded.smallest
        WHERE excluded.smallest < o.smallest; RETURN NULL; END $$;

CREATE FUNCTION values_of_run(hparams jsonb, summaries jsonb) RETURNS TABLE(name text, value jsonb)
    LANGUAGE sql IMMUTABLE
    AS $$
        WITH RECURSIVE leaf (path, value) AS (
            SELECT ARRAY[h.key], h.value
            FROM jsonb_each(CASE WHEN jsonb_typeof(hparams) = 'object' THEN hparams ELSE '{}'::jsonb END) h (key, value)
            UNION ALL SELECT leaf.path || h.key, h.value FROM leaf,
                jsonb_each(CASE WHEN jsonb_typeof(leaf.value) = 'object' THEN leaf.value ELSE '{}'::jsonb END) h (key, value))
        SELECT 'hp.' || array_to_string(leaf.path, '.'), leaf.value FROM leaf
        WHERE jsonb_typeof(leaf.value) NOT IN ('object', 'null')
            AND NOT EXISTS (SELECT FROM unnest(leaf.path) key WHERE strpos(key, '.') > 0)
        UNION ALL
        SELECT concat(CASE g.key WHEN 'avg_metrics' THEN 'training' WHEN 'validation_metrics' THEN 'validation'
                          ELSE g.key END, '.', m.key, '.', s.key), s.value
        FROM jsonb_each(summaries) g (key, value),
            jsonb_each(CASE WHEN jsonb_typeof(g.value) = 'object' THEN g.value ELSE '{}'::jsonb END) m (key, value),
            jsonb_each(CASE WHEN jsonb_typeof(m.value) = 'object' THEN m.value ELSE '{}'::jsonb END) s (key, value)
        WHERE s.key IN ('last', 'min', 'max', 'mean') AND jsonb_typeof(s.value) <> 'null'
            AND g.key NOT IN ('hp', 'training', 'validation') AND strpos(g.key, '.') = 0
    $$;
"""

CONSTRAINTS = r"""
ALTER TABLE agents ADD CONSTRAINT agents_pkey PRIMARY KEY (id);
ALTER TABLE agents ADD CONSTRAINT agents_token_hash_key UNIQUE (token_hash);
ALTER TABLE allocations ADD CONSTRAINT allocations_pkey PRIMARY KEY (id);
ALTER TABLE audit_log ADD CONSTRAINT audit_log_pkey PRIMARY KEY (id);
ALTER TABLE budgets ADD CONSTRAINT budgets_pkey PRIMARY KEY (id);
ALTER TABLE changed_days ADD CONSTRAINT changed_days_pkey PRIMARY KEY (id);
ALTER TABLE checkpoint_counts ADD CONSTRAINT checkpoint_counts_pkey PRIMARY KEY (experiment_id);
ALTER TABLE checkpoints ADD CONSTRAINT checkpoints_pkey PRIMARY KEY (uuid);
ALTER TABLE closed_days ADD CONSTRAINT closed_days_pkey PRIMARY KEY (day);
ALTER TABLE cluster_message ADD CONSTRAINT cluster_message_pkey PRIMARY KEY (only_row);
ALTER TABLE cluster ADD CONSTRAINT cluster_pkey PRIMARY KEY (only_row);
ALTER TABLE config_policies ADD CONSTRAINT config_policies_pkey PRIMARY KEY (workspace_id, workload_type);
ALTER TABLE containers ADD CONSTRAINT containers_allocation_id_epoch_rank_key UNIQUE (allocation_id, epoch, rank);
ALTER TABLE containers ADD CONSTRAINT containers_pkey PRIMARY KEY (id);
ALTER TABLE contexts ADD CONSTRAINT contexts_pkey PRIMARY KEY (id);
ALTER TABLE cooldowns ADD CONSTRAINT cooldowns_pkey PRIMARY KEY (provider, region, zone, machine_type, capacity, pool);
ALTER TABLE deleted_allocations ADD CONSTRAINT deleted_allocations_pkey PRIMARY KEY (id);
ALTER TABLE deleted_containers ADD CONSTRAINT deleted_containers_pkey PRIMARY KEY (id);
ALTER TABLE experiments ADD CONSTRAINT experiments_external_id_key UNIQUE (external_id);
ALTER TABLE experiments ADD CONSTRAINT experiments_idempotency_key_key UNIQUE (idempotency_key);
ALTER TABLE experiments ADD CONSTRAINT experiments_job_id_key UNIQUE (job_id);
ALTER TABLE experiments ADD CONSTRAINT experiments_pkey PRIMARY KEY (id);
ALTER TABLE gathers ADD CONSTRAINT gathers_pkey PRIMARY KEY (allocation_id, request_uuid);
ALTER TABLE group_members ADD CONSTRAINT group_members_pkey PRIMARY KEY (group_id, user_id);
ALTER TABLE groups ADD CONSTRAINT groups_name_key UNIQUE (name);
ALTER TABLE groups ADD CONSTRAINT groups_pkey PRIMARY KEY (id);
ALTER TABLE instances ADD CONSTRAINT instances_pkey PRIMARY KEY (id);
ALTER TABLE interruptions ADD CONSTRAINT interruptions_pkey PRIMARY KEY (instance_id);
ALTER TABLE jobs ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);
ALTER TABLE join_proofs ADD CONSTRAINT join_proofs_pkey PRIMARY KEY (proof_hash);
ALTER TABLE join_tokens ADD CONSTRAINT join_tokens_pkey PRIMARY KEY (id);
ALTER TABLE join_tokens ADD CONSTRAINT join_tokens_token_hash_key UNIQUE (token_hash);
ALTER TABLE log_batches ADD CONSTRAINT log_batches_pkey PRIMARY KEY (batch_id);
ALTER TABLE market_prices ADD CONSTRAINT market_prices_pkey PRIMARY KEY (provider, region, zone, machine_type, capacity);
ALTER TABLE market_reads ADD CONSTRAINT market_reads_pkey PRIMARY KEY (provider, region);
ALTER TABLE market_types ADD CONSTRAINT market_types_pkey PRIMARY KEY (provider, region, machine_type);
ALTER TABLE master_logs ADD CONSTRAINT master_logs_pkey PRIMARY KEY (id);
ALTER TABLE metric_names ADD CONSTRAINT metric_names_pkey PRIMARY KEY (experiment_id);
ALTER TABLE metrics ADD CONSTRAINT metrics_pkey PRIMARY KEY (id);
ALTER TABLE model_versions ADD CONSTRAINT model_versions_model_id_version_key UNIQUE (model_id, version);
ALTER TABLE model_versions ADD CONSTRAINT model_versions_pkey PRIMARY KEY (id);
ALTER TABLE models ADD CONSTRAINT models_name_key UNIQUE (name);
ALTER TABLE models ADD CONSTRAINT models_pkey PRIMARY KEY (id);
ALTER TABLE offered_names ADD CONSTRAINT offered_names_pkey PRIMARY KEY (project_id, kind, path, type);
ALTER TABLE outbox ADD CONSTRAINT outbox_pkey PRIMARY KEY (id);
ALTER TABLE pool_bindings ADD CONSTRAINT pool_bindings_pkey PRIMARY KEY (pool, workspace_id);
ALTER TABLE pool_holds ADD CONSTRAINT pool_holds_pkey PRIMARY KEY (pool);
ALTER TABLE pools ADD CONSTRAINT pools_pkey PRIMARY KEY (name);
ALTER TABLE project_views ADD CONSTRAINT project_views_pkey PRIMARY KEY (user_id, project_id);
ALTER TABLE projects ADD CONSTRAINT projects_key_key UNIQUE (key);
ALTER TABLE projects ADD CONSTRAINT projects_pkey PRIMARY KEY (id);
ALTER TABLE refused_metrics ADD CONSTRAINT refused_metrics_pkey PRIMARY KEY (trial_id);
ALTER TABLE role_assignments ADD CONSTRAINT role_assignments_pkey PRIMARY KEY (id);
ALTER TABLE run_values ADD CONSTRAINT run_values_pkey PRIMARY KEY (trial_id, name_id);
ALTER TABLE search_events ADD CONSTRAINT search_events_pkey PRIMARY KEY (experiment_id, seq);
ALTER TABLE searches ADD CONSTRAINT searches_pkey PRIMARY KEY (experiment_id);
ALTER TABLE sessions ADD CONSTRAINT sessions_pkey PRIMARY KEY (id);
ALTER TABLE sessions ADD CONSTRAINT sessions_token_hash_key UNIQUE (token_hash);
ALTER TABLE sign_in_failures ADD CONSTRAINT sign_in_failures_pkey PRIMARY KEY (username, address);
ALTER TABLE slots ADD CONSTRAINT slots_pkey PRIMARY KEY (agent_id, slot_id);
ALTER TABLE storages ADD CONSTRAINT storages_config_fingerprint_user_id_key UNIQUE (config, fingerprint, user_id);
ALTER TABLE storages ADD CONSTRAINT storages_pkey PRIMARY KEY (id);
ALTER TABLE task_logs ADD CONSTRAINT task_logs_pkey PRIMARY KEY (id);
ALTER TABLE tasks ADD CONSTRAINT tasks_pkey PRIMARY KEY (id);
ALTER TABLE templates ADD CONSTRAINT templates_pkey PRIMARY KEY (name);
ALTER TABLE trial_counts ADD CONSTRAINT trial_counts_pkey PRIMARY KEY (experiment_id);
ALTER TABLE trial_sources ADD CONSTRAINT trial_sources_pkey PRIMARY KEY (trial_id, checkpoint_uuid);
ALTER TABLE trials ADD CONSTRAINT trials_experiment_id_request_id_key UNIQUE (experiment_id, request_id);
ALTER TABLE trials ADD CONSTRAINT trials_pkey PRIMARY KEY (id);
ALTER TABLE trials ADD CONSTRAINT trials_task_id_key UNIQUE (task_id);
ALTER TABLE users ADD CONSTRAINT users_identity_key UNIQUE (identity);
ALTER TABLE users ADD CONSTRAINT users_pkey PRIMARY KEY (id);
ALTER TABLE users ADD CONSTRAINT users_username_key UNIQUE (username);
ALTER TABLE value_names ADD CONSTRAINT value_names_name_key UNIQUE (name);
ALTER TABLE value_names ADD CONSTRAINT value_names_pkey PRIMARY KEY (id);
ALTER TABLE wait_reasons ADD CONSTRAINT wait_reasons_pkey PRIMARY KEY (id);
ALTER TABLE webhook_deliveries ADD CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (id);
ALTER TABLE webhook_log_matches ADD CONSTRAINT webhook_log_matches_pkey PRIMARY KEY (task_id, trigger_id);
ALTER TABLE webhook_triggers ADD CONSTRAINT webhook_triggers_pkey PRIMARY KEY (id);
ALTER TABLE webhooks ADD CONSTRAINT webhooks_pkey PRIMARY KEY (id);
ALTER TABLE workspace_pins ADD CONSTRAINT workspace_pins_pkey PRIMARY KEY (workspace_id, user_id);
ALTER TABLE workspaces ADD CONSTRAINT workspaces_pkey PRIMARY KEY (id);
ALTER TABLE allocations ADD CONSTRAINT allocations_job_id_fkey FOREIGN KEY (job_id) REFERENCES jobs(id);
ALTER TABLE allocations ADD CONSTRAINT allocations_task_id_fkey FOREIGN KEY (task_id) REFERENCES tasks(id) ON DELETE CASCADE;
ALTER TABLE allocations ADD CONSTRAINT allocations_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES trials(id) ON DELETE CASCADE;
ALTER TABLE checkpoint_counts ADD CONSTRAINT checkpoint_counts_experiment_id_fkey FOREIGN KEY (experiment_id) REFERENCES experiments(id) ON DELETE CASCADE;
ALTER TABLE checkpoints ADD CONSTRAINT checkpoints_experiment_id_fkey FOREIGN KEY (experiment_id) REFERENCES experiments(id) ON DELETE CASCADE;
ALTER TABLE checkpoints ADD CONSTRAINT checkpoints_storage_id_fkey FOREIGN KEY (storage_id) REFERENCES storages(id);
ALTER TABLE checkpoints ADD CONSTRAINT checkpoints_task_id_fkey FOREIGN KEY (task_id) REFERENCES tasks(id) ON DELETE CASCADE;
ALTER TABLE checkpoints ADD CONSTRAINT checkpoints_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES trials(id) ON DELETE CASCADE;
ALTER TABLE containers ADD CONSTRAINT containers_allocation_id_fkey FOREIGN KEY (allocation_id) REFERENCES allocations(id) ON DELETE CASCADE;
ALTER TABLE contexts ADD CONSTRAINT contexts_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE SET NULL;
ALTER TABLE deleted_allocations ADD CONSTRAINT deleted_allocations_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id);
ALTER TABLE deleted_containers ADD CONSTRAINT deleted_containers_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id);
ALTER TABLE experiments ADD CONSTRAINT experiments_context_id_fkey FOREIGN KEY (context_id) REFERENCES contexts(id);
ALTER TABLE experiments ADD CONSTRAINT experiments_job_id_fkey FOREIGN KEY (job_id) REFERENCES jobs(id);
ALTER TABLE experiments ADD CONSTRAINT experiments_parent_id_fkey FOREIGN KEY (parent_id) REFERENCES experiments(id) ON DELETE SET NULL;
ALTER TABLE experiments ADD CONSTRAINT experiments_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id);
ALTER TABLE experiments ADD CONSTRAINT experiments_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id);
ALTER TABLE gathers ADD CONSTRAINT gathers_allocation_id_fkey FOREIGN KEY (allocation_id) REFERENCES allocations(id) ON DELETE CASCADE;
ALTER TABLE group_members ADD CONSTRAINT group_members_group_id_fkey FOREIGN KEY (group_id) REFERENCES groups(id) ON DELETE CASCADE;
ALTER TABLE group_members ADD CONSTRAINT group_members_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE;
ALTER TABLE interruptions ADD CONSTRAINT interruptions_instance_id_fkey FOREIGN KEY (instance_id) REFERENCES instances(id);
ALTER TABLE jobs ADD CONSTRAINT jobs_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id);
ALTER TABLE jobs ADD CONSTRAINT jobs_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE;
ALTER TABLE join_tokens ADD CONSTRAINT join_tokens_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id);
ALTER TABLE metric_names ADD CONSTRAINT metric_names_experiment_id_fkey FOREIGN KEY (experiment_id) REFERENCES experiments(id) ON DELETE CASCADE;
ALTER TABLE metrics ADD CONSTRAINT metrics_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES trials(id) ON DELETE CASCADE;
ALTER TABLE model_versions ADD CONSTRAINT model_versions_checkpoint_uuid_fkey FOREIGN KEY (checkpoint_uuid) REFERENCES checkpoints(uuid);
ALTER TABLE model_versions ADD CONSTRAINT model_versions_model_id_fkey FOREIGN KEY (model_id) REFERENCES models(id) ON DELETE CASCADE;
ALTER TABLE model_versions ADD CONSTRAINT model_versions_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id);
ALTER TABLE models ADD CONSTRAINT models_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id);
ALTER TABLE models ADD CONSTRAINT models_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id);
ALTER TABLE offered_names ADD CONSTRAINT offered_names_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE;
ALTER TABLE pool_bindings ADD CONSTRAINT pool_bindings_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE;
ALTER TABLE project_views ADD CONSTRAINT project_views_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE;
ALTER TABLE project_views ADD CONSTRAINT project_views_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE;
ALTER TABLE projects ADD CONSTRAINT projects_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id);
ALTER TABLE projects ADD CONSTRAINT projects_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE;
ALTER TABLE refused_metrics ADD CONSTRAINT refused_metrics_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES trials(id) ON DELETE CASCADE;
ALTER TABLE role_assignments ADD CONSTRAINT role_assignments_group_id_fkey FOREIGN KEY (group_id) REFERENCES groups(id) ON DELETE CASCADE;
ALTER TABLE role_assignments ADD CONSTRAINT role_assignments_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE;
ALTER TABLE role_assignments ADD CONSTRAINT role_assignments_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE;
ALTER TABLE run_values ADD CONSTRAINT run_values_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES trials(id) ON DELETE CASCADE;
ALTER TABLE search_events ADD CONSTRAINT search_events_experiment_id_fkey FOREIGN KEY (experiment_id) REFERENCES experiments(id) ON DELETE CASCADE;
ALTER TABLE searches ADD CONSTRAINT searches_experiment_id_fkey FOREIGN KEY (experiment_id) REFERENCES experiments(id) ON DELETE CASCADE;
ALTER TABLE sessions ADD CONSTRAINT sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE;
ALTER TABLE slots ADD CONSTRAINT slots_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agents(id) ON DELETE CASCADE;
ALTER TABLE slots ADD CONSTRAINT slots_container_id_fkey FOREIGN KEY (container_id) REFERENCES containers(id) ON DELETE SET NULL;
ALTER TABLE tasks ADD CONSTRAINT tasks_context_id_fkey FOREIGN KEY (context_id) REFERENCES contexts(id);
ALTER TABLE tasks ADD CONSTRAINT tasks_experiment_id_fkey FOREIGN KEY (experiment_id) REFERENCES experiments(id) ON DELETE CASCADE;
ALTER TABLE tasks ADD CONSTRAINT tasks_job_id_fkey FOREIGN KEY (job_id) REFERENCES jobs(id);
ALTER TABLE tasks ADD CONSTRAINT tasks_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE SET NULL;
ALTER TABLE tasks ADD CONSTRAINT tasks_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES trials(id) ON DELETE CASCADE;
ALTER TABLE templates ADD CONSTRAINT templates_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id);
ALTER TABLE templates ADD CONSTRAINT templates_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE;
ALTER TABLE trial_counts ADD CONSTRAINT trial_counts_experiment_id_fkey FOREIGN KEY (experiment_id) REFERENCES experiments(id) ON DELETE CASCADE;
ALTER TABLE trial_sources ADD CONSTRAINT trial_sources_checkpoint_uuid_fkey FOREIGN KEY (checkpoint_uuid) REFERENCES checkpoints(uuid) ON DELETE CASCADE;
ALTER TABLE trial_sources ADD CONSTRAINT trial_sources_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES trials(id) ON DELETE CASCADE;
ALTER TABLE trials ADD CONSTRAINT trials_experiment_id_fkey FOREIGN KEY (experiment_id) REFERENCES experiments(id) ON DELETE CASCADE;
ALTER TABLE webhook_deliveries ADD CONSTRAINT webhook_deliveries_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES webhooks(id) ON DELETE CASCADE;
ALTER TABLE webhook_log_matches ADD CONSTRAINT webhook_log_matches_task_id_fkey FOREIGN KEY (task_id) REFERENCES tasks(id) ON DELETE CASCADE;
ALTER TABLE webhook_log_matches ADD CONSTRAINT webhook_log_matches_trigger_id_fkey FOREIGN KEY (trigger_id) REFERENCES webhook_triggers(id) ON DELETE CASCADE;
ALTER TABLE webhook_triggers ADD CONSTRAINT webhook_triggers_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES webhooks(id) ON DELETE CASCADE;
ALTER TABLE webhooks ADD CONSTRAINT webhooks_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE;
ALTER TABLE workspace_pins ADD CONSTRAINT workspace_pins_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE;
ALTER TABLE workspace_pins ADD CONSTRAINT workspace_pins_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE;
ALTER TABLE workspaces ADD CONSTRAINT workspaces_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id);
"""

INDEXES = r"""
CREATE INDEX agents_by_pool ON agents (pool) WHERE (state <> 'LOST'::agent_state);
CREATE INDEX allocations_by_assignment ON allocations (pool, assigned_at) INCLUDE (requested_at) WHERE (assigned_at IS NOT NULL);
CREATE INDEX allocations_by_end ON allocations (ended_at) WHERE (started_at IS NOT NULL);
CREATE INDEX allocations_by_job ON allocations (job_id);
CREATE INDEX allocations_by_task ON allocations (task_id);
CREATE INDEX allocations_by_trial ON allocations (trial_id);
CREATE INDEX allocations_due ON allocations (kill_at) WHERE ((state <> 'TERMINATED'::allocation_state) AND (kill_at IS NOT NULL));
CREATE INDEX allocations_live ON allocations (pool, state) WHERE (state <> 'TERMINATED'::allocation_state);
CREATE INDEX allocations_not_before ON allocations (not_before) WHERE ((not_before IS NOT NULL) AND (state = 'QUEUED'::allocation_state));
CREATE INDEX audit_log_by_action ON audit_log (action text_pattern_ops, id);
CREATE INDEX audit_log_by_object ON audit_log (object);
CREATE INDEX audit_log_by_time ON audit_log (at);
CREATE INDEX audit_log_by_user ON audit_log (username, id);
CREATE UNIQUE INDEX budgets_by_scope ON budgets (scope, scope_id);
CREATE INDEX changed_days_by_day ON changed_days (day);
CREATE INDEX checkpoint_counts_by_complete ON checkpoint_counts (complete, experiment_id);
CREATE INDEX checkpoint_counts_by_size ON checkpoint_counts (size, experiment_id);
CREATE INDEX checkpoints_by_experiment ON checkpoints (experiment_id);
CREATE INDEX checkpoints_by_task ON checkpoints (task_id);
CREATE INDEX checkpoints_by_trial ON checkpoints (trial_id, steps_completed);
CREATE INDEX checkpoints_to_look_for ON checkpoints (COALESCE(files_looked_at, '-infinity'::timestamp with time zone), uuid) WHERE ((state = ANY (ARRAY['COMPLETED'::checkpoint_state, 'PARTIALLY_DELETED'::checkpoint_state])) AND (size > 0));
CREATE INDEX containers_by_agent_end ON containers (agent_id, ended_at);
CREATE INDEX containers_by_allocation ON containers (allocation_id);
CREATE INDEX containers_live ON containers (agent_id) WHERE (state <> 'TERMINATED'::container_state);
CREATE INDEX contexts_sent ON contexts (user_id, created_at) INCLUDE (size) WHERE (size > 16384);
CREATE INDEX deleted_allocations_by_end ON deleted_allocations (ended_at);
CREATE INDEX deleted_containers_by_agent ON deleted_containers (agent_id);
CREATE INDEX experiments_by_context ON experiments (context_id);
CREATE INDEX experiments_by_label ON experiments USING gin (labels);
CREATE INDEX experiments_by_parent ON experiments (parent_id) WHERE (parent_id IS NOT NULL);
CREATE INDEX experiments_by_start ON experiments (started_at, id);
CREATE INDEX experiments_by_state ON experiments (state, id);
CREATE INDEX experiments_by_user ON experiments (user_id, id);
CREATE INDEX experiments_counted ON experiments (id) INCLUDE (archived, project_id, user_id, state, job_id);
CREATE INDEX experiments_live ON experiments (id) WHERE (state = ANY (ARRAY['ACTIVE'::experiment_state, 'PAUSED'::experiment_state, 'STOPPING_COMPLETED'::experiment_state, 'STOPPING_CANCELED'::experiment_state, 'STOPPING_KILLED'::experiment_state, 'STOPPING_ERROR'::experiment_state]));
CREATE INDEX experiments_of_project ON experiments (project_id, id) INCLUDE (state, started_at);
CREATE INDEX experiments_unsealed ON experiments (id) WHERE (sealed IS NULL);
CREATE INDEX instances_agent ON instances (agent_id) WHERE (agent_id IS NOT NULL);
CREATE INDEX instances_by_end ON instances (ended_at) WHERE (launched_at IS NOT NULL);
CREATE UNIQUE INDEX instances_cloud_id ON instances (provider, cloud_id) WHERE (cloud_id IS NOT NULL);
CREATE INDEX instances_live ON instances (pool) WHERE (state <> ALL (ARRAY['GONE'::instance_state, 'FAILED'::instance_state]));
CREATE INDEX interruptions_by_time ON interruptions (noticed_at);
CREATE INDEX jobs_by_user ON jobs (user_id);
CREATE INDEX jobs_by_workspace ON jobs (workspace_id);
CREATE INDEX jobs_in_queue ON jobs (pool, priority, "position", id) WHERE in_queue;
CREATE INDEX join_proofs_by_end ON join_proofs (expires_at);
CREATE INDEX log_batches_by_time ON log_batches (stored_at);
CREATE INDEX machine_costs_of_days_by_day ON machine_costs_of_days (day);
CREATE INDEX master_logs_by_time ON master_logs (logged_at);
CREATE INDEX metrics_by_trial ON metrics (trial_id);
CREATE INDEX model_versions_by_checkpoint ON model_versions (checkpoint_uuid);
CREATE INDEX offered_names_in_order ON offered_names (kind, project_id, smallest, path);
CREATE UNIQUE INDEX one_live_allocation ON allocations (task_id) WHERE (state <> 'TERMINATED'::allocation_state);
CREATE UNIQUE INDEX one_report_a_step ON metrics (trial_id, metric_group, total_batches) WHERE ((NOT archived) AND (total_batches IS NOT NULL));
CREATE INDEX outbox_due ON outbox (due_at);
CREATE UNIQUE INDEX project_name ON projects (workspace_id, lower(name));
CREATE UNIQUE INDEX role_assignment ON role_assignments (COALESCE(user_id, 0), COALESCE(group_id, 0), COALESCE(workspace_id, 0), role);
CREATE INDEX role_assignments_by_group ON role_assignments (group_id);
CREATE INDEX role_assignments_by_user ON role_assignments (user_id);
CREATE INDEX role_assignments_by_workspace ON role_assignments (workspace_id);
CREATE INDEX run_values_by_number ON run_values (name_id, number, trial_id) INCLUDE (experiment_id) WHERE (number IS NOT NULL);
CREATE INDEX run_values_by_text ON run_values (name_id, text, trial_id) INCLUDE (experiment_id) WHERE (text IS NOT NULL);
CREATE INDEX sessions_by_allocation ON sessions (allocation_id) WHERE (allocation_id IS NOT NULL);
CREATE INDEX sessions_by_user ON sessions (user_id);
CREATE INDEX sessions_that_wait ON sessions (waits_for_agent) WHERE (waits_for_agent IS NOT NULL);
CREATE INDEX slots_by_container ON slots (container_id) WHERE (container_id IS NOT NULL);
CREATE INDEX task_log_spans_of_task ON task_log_spans (task_id, span);
CREATE INDEX task_logs_in_order ON task_logs (task_id, id);
CREATE INDEX tasks_by_context ON tasks (context_id) WHERE (context_id IS NOT NULL);
CREATE INDEX tasks_by_experiment ON tasks (experiment_id);
CREATE UNIQUE INDEX tasks_by_idempotency_key ON tasks (idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX tasks_by_job ON tasks (job_id);
CREATE INDEX tasks_by_kind ON tasks (kind, started_at) WHERE (trial_id IS NULL);
CREATE INDEX tasks_by_parent ON tasks (parent_id) WHERE (parent_id IS NOT NULL);
CREATE INDEX tasks_by_project ON tasks (project_id) WHERE (project_id IS NOT NULL);
CREATE INDEX tasks_by_trial ON tasks (trial_id);
CREATE INDEX tasks_that_idle ON tasks (id) WHERE ((idle_timeout_s IS NOT NULL) AND (ended_at IS NULL));
CREATE INDEX tasks_unsealed ON tasks (id) WHERE ((config IS NOT NULL) AND (sealed IS NULL));
CREATE INDEX trial_counts_by_project ON trial_counts (project_id) INCLUDE (trials);
CREATE INDEX trial_counts_in_order ON trial_counts (trials, experiment_id);
CREATE UNIQUE INDEX trial_external_id ON trials (experiment_id, external_id) WHERE (external_id IS NOT NULL);
CREATE INDEX trial_sources_by_checkpoint ON trial_sources (checkpoint_uuid);
CREATE INDEX trials_awaiting_values ON trials (id) WHERE ((has_values IS NULL) AND (ended_at IS NOT NULL));
CREATE INDEX trials_by_heartbeat ON trials (heartbeat_at) WHERE ((heartbeat_at IS NOT NULL) AND (ended_at IS NULL));
CREATE INDEX trials_listed ON trials (experiment_id, id) INCLUDE (archived);
CREATE INDEX trials_live ON trials (experiment_id) WHERE (ended_at IS NULL);
CREATE INDEX trials_with_blocked_agents ON trials (id) WHERE ((blocked_agents <> '{}'::text[]) AND (ended_at IS NULL));
CREATE INDEX trials_without_values ON trials (experiment_id, id) WHERE (has_values IS NOT TRUE);
CREATE INDEX usage_of_days_by_day ON usage_of_days (day);
CREATE INDEX wait_reasons_by_pool ON wait_reasons (pool);
CREATE INDEX webhook_deliveries_by_webhook ON webhook_deliveries (webhook_id, id);
CREATE INDEX webhook_log_matches_by_trigger ON webhook_log_matches (trigger_id);
CREATE INDEX webhook_triggers_by_webhook ON webhook_triggers (webhook_id);
CREATE INDEX webhooks_by_workspace ON webhooks (workspace_id);
CREATE INDEX work_costs_of_days_by_day ON work_costs_of_days (day);
CREATE INDEX work_costs_of_days_by_user ON work_costs_of_days (user_id, day);
CREATE INDEX work_costs_of_days_by_workspace ON work_costs_of_days (workspace_id, day);
CREATE UNIQUE INDEX workspace_name ON workspaces (lower(name));
"""

TRIGGERS = r"""
CREATE TRIGGER allocations_mark_jobs AFTER INSERT ON allocations REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION mark_jobs_in_queue();

CREATE TRIGGER allocations_note_delete AFTER DELETE ON allocations FOR EACH ROW WHEN ((old.started_at IS NOT NULL)) EXECUTE FUNCTION note_change_of_allocations();

CREATE TRIGGER allocations_note_insert AFTER INSERT ON allocations FOR EACH ROW WHEN ((new.started_at IS NOT NULL)) EXECUTE FUNCTION note_change_of_allocations();

CREATE TRIGGER allocations_note_update AFTER UPDATE OF started_at, ended_at, slots, pool ON allocations FOR EACH ROW WHEN ((((old.started_at IS NOT NULL) OR (new.started_at IS NOT NULL)) AND ((((old.started_at IS DISTINCT FROM new.started_at) OR (old.slots IS DISTINCT FROM new.slots)) OR (old.pool IS DISTINCT FROM new.pool)) OR (old.ended_at IS DISTINCT FROM new.ended_at)))) EXECUTE FUNCTION note_change_of_allocations();

CREATE TRIGGER audit_log_only_grows BEFORE DELETE OR UPDATE ON audit_log FOR EACH ROW EXECUTE FUNCTION keep_audit_log();

CREATE TRIGGER audit_log_stays BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION keep_audit_log();

CREATE TRIGGER containers_note_delete AFTER DELETE ON containers FOR EACH ROW WHEN ((old.assigned_at IS NOT NULL)) EXECUTE FUNCTION note_change_of_containers();

CREATE TRIGGER containers_note_insert AFTER INSERT ON containers FOR EACH ROW WHEN ((new.assigned_at IS NOT NULL)) EXECUTE FUNCTION note_change_of_containers();

CREATE TRIGGER containers_note_update AFTER UPDATE OF assigned_at, ended_at, agent_id, slot_ids ON containers FOR EACH ROW WHEN ((((old.assigned_at IS NOT NULL) OR (new.assigned_at IS NOT NULL)) AND ((((old.assigned_at IS DISTINCT FROM new.assigned_at) OR (old.agent_id IS DISTINCT FROM new.agent_id)) OR (old.slot_ids IS DISTINCT FROM new.slot_ids)) OR (old.ended_at IS DISTINCT FROM new.ended_at)))) EXECUTE FUNCTION note_change_of_containers();

CREATE TRIGGER count_added_checkpoint AFTER INSERT ON checkpoints FOR EACH ROW WHEN ((new.state = ANY (ARRAY['COMPLETED'::checkpoint_state, 'PARTIALLY_DELETED'::checkpoint_state]))) EXECUTE FUNCTION count_added_checkpoint();

CREATE TRIGGER count_added_trials AFTER INSERT ON trials REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_added_trials();

CREATE TRIGGER count_changed_checkpoint AFTER UPDATE OF state, size ON checkpoints FOR EACH ROW WHEN (((old.state IS DISTINCT FROM new.state) OR (old.size IS DISTINCT FROM new.size))) EXECUTE FUNCTION count_changed_checkpoint();

CREATE TRIGGER count_deleted_checkpoints AFTER DELETE ON checkpoints REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_deleted_checkpoints();

CREATE TRIGGER count_deleted_trials AFTER DELETE ON trials REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_deleted_trials();

CREATE TRIGGER count_new_experiment AFTER INSERT ON experiments FOR EACH ROW EXECUTE FUNCTION count_new_experiment();

CREATE TRIGGER experiments_note_update AFTER UPDATE OF labels, project_id ON experiments FOR EACH ROW WHEN (((old.labels IS DISTINCT FROM new.labels) OR (old.project_id IS DISTINCT FROM new.project_id))) EXECUTE FUNCTION note_change_of_experiments();

CREATE TRIGGER experiments_offer_names AFTER UPDATE OF project_id ON experiments FOR EACH ROW WHEN ((old.project_id IS DISTINCT FROM new.project_id)) EXECUTE FUNCTION offer_names_of_moved();

CREATE TRIGGER instances_note_delete AFTER DELETE ON instances FOR EACH ROW WHEN ((old.launched_at IS NOT NULL)) EXECUTE FUNCTION note_change_of_instances();

CREATE TRIGGER instances_note_insert AFTER INSERT ON instances FOR EACH ROW WHEN ((new.launched_at IS NOT NULL)) EXECUTE FUNCTION note_change_of_instances();

CREATE TRIGGER instances_note_update AFTER UPDATE OF launched_at, ended_at, agent_id, pool, slots, price_usd_hour ON instances FOR EACH ROW WHEN ((((old.launched_at IS NOT NULL) OR (new.launched_at IS NOT NULL)) AND ((((((old.launched_at IS DISTINCT FROM new.launched_at) OR (old.agent_id IS DISTINCT FROM new.agent_id)) OR (old.pool IS DISTINCT FROM new.pool)) OR (old.slots IS DISTINCT FROM new.slots)) OR (old.price_usd_hour IS DISTINCT FROM new.price_usd_hour)) OR (old.ended_at IS DISTINCT FROM new.ended_at)))) EXECUTE FUNCTION note_change_of_instances();

CREATE TRIGGER jobs_note_update AFTER UPDATE OF user_id, workspace_id ON jobs FOR EACH ROW WHEN (((old.user_id IS DISTINCT FROM new.user_id) OR (old.workspace_id IS DISTINCT FROM new.workspace_id))) EXECUTE FUNCTION note_change_of_jobs();

CREATE TRIGGER metric_names_offer_names_on_insert AFTER INSERT ON metric_names REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION offer_names_of_metrics();

CREATE TRIGGER metric_names_offer_names_on_update AFTER UPDATE ON metric_names REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION offer_names_of_metrics();

CREATE TRIGGER move_counts_of_experiment AFTER UPDATE OF project_id ON experiments FOR EACH ROW WHEN ((old.project_id IS DISTINCT FROM new.project_id)) EXECUTE FUNCTION move_counts_of_experiment();

CREATE TRIGGER projects_note_update AFTER UPDATE OF workspace_id ON projects FOR EACH ROW WHEN ((old.workspace_id IS DISTINCT FROM new.workspace_id)) EXECUTE FUNCTION note_change_of_projects();

CREATE TRIGGER task_logs_are_covered AFTER INSERT ON task_logs REFERENCING NEW TABLE AS stored FOR EACH STATEMENT EXECUTE FUNCTION cover_task_logs();

CREATE TRIGGER trials_forget_values BEFORE UPDATE OF ended_at, summary_metrics, hparams ON trials FOR EACH ROW WHEN (((old.has_values IS NOT NULL) AND ((new.ended_at IS NULL) OR (new.summary_metrics IS DISTINCT FROM old.summary_metrics) OR ((new.hparams)::text IS DISTINCT FROM (old.hparams)::text)))) EXECUTE FUNCTION forget_values_of_run();

CREATE TRIGGER trials_offer_names_on_insert AFTER INSERT ON trials REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION offer_names_of_trials();

CREATE TRIGGER trials_offer_names_on_update AFTER UPDATE OF hparams, metadata ON trials FOR EACH ROW EXECUTE FUNCTION offer_names_of_trial();
"""

# Managed databases and the embedded one have the extension. Others, or users without the right, continue without the index.
INDEX_OF_NAMES = """
    DO $$ BEGIN
        BEGIN
            CREATE EXTENSION IF NOT EXISTS pg_trgm;
        EXCEPTION WHEN OTHERS THEN
            RAISE NOTICE 'names are searched without an index: %', SQLERRM;
        END;
        IF EXISTS (SELECT FROM pg_opclass WHERE opcname = 'gin_trgm_ops' AND pg_opclass_is_visible(oid)) THEN
            CREATE INDEX experiments_by_name ON experiments USING gin (lower(name) gin_trgm_ops);
        END IF;
    END $$"""
# The cluster's identity, the built-in accounts without passwords, and their workspace and project.
ROWS = """
INSERT INTO cluster DEFAULT VALUES;
INSERT INTO users (id, username, admin) VALUES (1, 'admin', true), (2, 'determined', false);
INSERT INTO workspaces (id, name, user_id, immutable) VALUES (1, 'Uncategorized', 1, true);
INSERT INTO projects (id, workspace_id, name, key, user_id, immutable) VALUES (1, 1, 'Uncategorized', 'UNCAT', 1, true);
SELECT setval(pg_get_serial_sequence('users', 'id'), 2), setval(pg_get_serial_sequence('workspaces', 'id'), 1),
    setval(pg_get_serial_sequence('projects', 'id'), 1);
"""


def upgrade() -> None:
    for block in (TYPES, TABLES, FUNCTIONS, CONSTRAINTS, INDEXES, INDEX_OF_NAMES, TRIGGERS, ROWS):
        op.get_bind().exec_driver_sql(block)
