-- The tables of a Determined 0.38.1 database, for tests of imports. Defaults and references are left out, because
-- the tests write whole rows.

CREATE TYPE activity_type AS ENUM ('GET');
CREATE TYPE allocation_state AS ENUM ('PENDING', 'ASSIGNED', 'PULLING', 'STARTING', 'RUNNING', 'WAITING',
    'TERMINATING', 'TERMINATED');
CREATE TYPE checkpoint_state AS ENUM ('ACTIVE', 'COMPLETED', 'ERROR', 'DELETED', 'PARTIALLY_DELETED');
CREATE TYPE entity_type AS ENUM ('Project');
CREATE TYPE experiment_state AS ENUM ('ACTIVE', 'PAUSED', 'STOPPING_CANCELED', 'STOPPING_KILLED',
    'STOPPING_COMPLETED', 'STOPPING_ERROR', 'DELETING', 'CANCELED', 'COMPLETED', 'ERROR', 'DELETE_FAILED', 'RUNNING');
CREATE TYPE job_type AS ENUM ('EXPERIMENT', 'NOTEBOOK', 'SHELL', 'COMMAND', 'TENSORBOARD', 'CHECKPOINT_GC',
    'GENERIC');
CREATE TYPE stats_type AS ENUM ('QUEUED', 'IMAGEPULL');
CREATE TYPE task_state AS ENUM ('ACTIVE', 'CANCELED', 'COMPLETED', 'ERROR', 'PAUSED', 'STOPPING_PAUSED',
    'STOPPING_CANCELED', 'STOPPING_COMPLETED', 'STOPPING_ERROR');
CREATE TYPE task_type AS ENUM ('TRIAL', 'NOTEBOOK', 'SHELL', 'COMMAND', 'TENSORBOARD', 'CHECKPOINT_GC', 'GENERIC');
CREATE TYPE token_type AS ENUM ('USER_SESSION', 'ACCESS_TOKEN');
CREATE TYPE trial_source_info_type AS ENUM ('TRIAL_SOURCE_INFO_TYPE_INFERENCE', 'TRIAL_SOURCE_INFO_TYPE_FINE_TUNING');
CREATE TYPE trial_state AS ENUM ('ACTIVE', 'PAUSED', 'STOPPING_CANCELED', 'STOPPING_KILLED', 'STOPPING_COMPLETED',
    'STOPPING_ERROR', 'CANCELED', 'COMPLETED', 'ERROR', 'RUNNING');
CREATE TYPE trigger_type AS ENUM ('EXPERIMENT_STATE_CHANGE', 'METRIC_THRESHOLD_EXCEEDED', 'TASK_LOG', 'CUSTOM');
CREATE TYPE webhook_mode AS ENUM ('WORKSPACE', 'SPECIFIC');
CREATE TYPE webhook_type AS ENUM ('DEFAULT', 'SLACK');
CREATE TYPE workload_type AS ENUM ('EXPERIMENT', 'NTSC');
CREATE TYPE workspace_state AS ENUM ('UNSPECIFIED', 'DELETED', 'DELETING', 'DELETE_FAILED');

CREATE TABLE activity (user_id integer, activity_time timestamp with time zone NOT NULL, activity_type activity_type
    NOT NULL, entity_type entity_type NOT NULL, entity_id integer NOT NULL);
CREATE TABLE agent_stats (resource_pool text NOT NULL, agent_id text NOT NULL, slots smallint NOT NULL, start_time
    timestamp with time zone NOT NULL, end_time timestamp with time zone);
CREATE TABLE agent_user_groups (id integer NOT NULL, user_id integer NOT NULL, user_ text NOT NULL, uid integer NOT
    NULL, group_ text NOT NULL, gid integer NOT NULL);
CREATE TABLE allocation_accelerators (container_id text NOT NULL, allocation_id text NOT NULL, node_name text NOT
    NULL, accelerator_type text NOT NULL, accelerator_uuids text[], id integer NOT NULL);
CREATE TABLE allocation_resources (resource_id text NOT NULL, allocation_id text NOT NULL, rank integer, started
    jsonb, exited jsonb, daemon boolean);
CREATE TABLE allocation_sessions (id integer NOT NULL, allocation_id text NOT NULL, owner_id integer);
CREATE TABLE allocation_workspace_info (allocation_id text NOT NULL, workspace_id integer, workspace_name text,
    experiment_id integer);
CREATE TABLE allocations (task_id text NOT NULL, allocation_id text NOT NULL, resource_pool text NOT NULL, start_time
    timestamp without time zone, end_time timestamp without time zone, slots smallint NOT NULL, state
    allocation_state, is_ready boolean, ports jsonb NOT NULL, proxy_address text, exit_reason text, exit_error text,
    status_code integer, PRIMARY KEY (allocation_id));
CREATE TABLE auth_token_keypair (public_key bytea NOT NULL, private_key bytea NOT NULL);
CREATE TABLE cert_and_key_info (serial_number bigint NOT NULL, cert bytea NOT NULL, key bytea NOT NULL, is_master
    boolean NOT NULL, is_ca boolean NOT NULL);
CREATE TABLE checkpoints_v2 (id bigint, uuid uuid NOT NULL, task_id text, allocation_id text, report_time timestamp
    with time zone NOT NULL, state checkpoint_state NOT NULL, resources jsonb, metadata jsonb, size bigint NOT NULL,
    storage_id integer, PRIMARY KEY (uuid));
CREATE TABLE cluster_id (cluster_id text NOT NULL, cluster_heartbeat timestamp without time zone NOT NULL);
CREATE TABLE cluster_messages (message text NOT NULL, created_by integer, start_time timestamp with time zone NOT
    NULL, end_time timestamp with time zone, created_time timestamp without time zone NOT NULL);
CREATE TABLE command_state (task_id text NOT NULL, registered_time timestamp with time zone NOT NULL, allocation_id
    text NOT NULL, generic_command_spec jsonb, generic_task_spec jsonb);
CREATE TABLE config_files (id integer NOT NULL, content bytea);
CREATE TABLE experiment_snapshots (id integer NOT NULL, experiment_id integer NOT NULL, content jsonb NOT NULL,
    version integer NOT NULL, created_at timestamp with time zone NOT NULL, updated_at timestamp with time zone NOT
    NULL);
CREATE TABLE experiments (id integer NOT NULL, state experiment_state NOT NULL, config jsonb NOT NULL,
    model_definition bytea NOT NULL, start_time timestamp with time zone NOT NULL, end_time timestamp with time zone,
    archived boolean NOT NULL, parent_id integer, owner_id integer NOT NULL, progress double precision,
    original_config text, notes text NOT NULL, job_id text NOT NULL, project_id integer NOT NULL, checkpoint_size
    bigint NOT NULL, checkpoint_count integer NOT NULL, best_trial_id integer, unmanaged boolean NOT NULL,
    external_experiment_id text, PRIMARY KEY (id));
CREATE TABLE gopg_migrations (id integer NOT NULL, version bigint, created_at timestamp with time zone);
CREATE TABLE groups (id integer NOT NULL, group_name text NOT NULL, user_id integer);
CREATE TABLE jobs (job_id text NOT NULL, job_type job_type NOT NULL, owner_id integer, q_position text NOT NULL);
CREATE TABLE local_id_redirect (run_id integer, project_id integer, project_key text NOT NULL, local_id integer NOT
    NULL);
CREATE TABLE log_policy_dont_retry (id integer NOT NULL, task_id text NOT NULL, node_name text NOT NULL, regex text
    NOT NULL, triggering_log text NOT NULL);
CREATE TABLE log_policy_retry_on_different_node (id integer NOT NULL, task_id text NOT NULL, node_name text NOT NULL,
    regex text NOT NULL, triggering_log text NOT NULL);
CREATE TABLE metrics (trial_id integer NOT NULL, end_time timestamp with time zone, metrics jsonb, total_batches
    integer, trial_run_id integer NOT NULL, archived boolean NOT NULL, id integer NOT NULL, metric_group text,
    partition_type text NOT NULL) PARTITION BY LIST (partition_type);
CREATE TABLE model_versions (version integer NOT NULL, checkpoint_uuid uuid NOT NULL, creation_time timestamp with
    time zone NOT NULL, last_updated_time timestamp with time zone, metadata jsonb, model_id integer NOT NULL, id
    integer NOT NULL, name text, comment text, user_id integer, labels text[], notes text, seq bigint);
CREATE TABLE models (name character varying NOT NULL, description character varying, creation_time timestamp with time
    zone NOT NULL, last_updated_time timestamp with time zone, metadata jsonb, id integer NOT NULL, labels text[],
    user_id integer NOT NULL, archived boolean NOT NULL, notes text, workspace_id integer NOT NULL, seq bigint);
CREATE TABLE notebook_sessions (id integer NOT NULL, task_id text NOT NULL, user_id integer NOT NULL);
CREATE TABLE permission_assignments (permission_id integer NOT NULL, role_id integer NOT NULL);
CREATE TABLE permissions (id integer NOT NULL, name text NOT NULL, global_only boolean NOT NULL);
CREATE TABLE project_hparams (project_id integer, hparam text NOT NULL, type text NOT NULL);
CREATE TABLE projects (id integer NOT NULL, name text NOT NULL, description text, archived boolean NOT NULL,
    created_at timestamp with time zone NOT NULL, notes jsonb, workspace_id integer, user_id integer, immutable
    boolean, state workspace_state, error_message text, seq bigint, key character varying, max_local_id integer NOT
    NULL);
CREATE TABLE provisioner_instance_stats (resource_pool text NOT NULL, instance_id text NOT NULL, slots smallint NOT
    NULL, start_time timestamp with time zone NOT NULL, end_time timestamp with time zone);
CREATE TABLE resource_aggregates (date date NOT NULL, aggregation_type text NOT NULL, aggregation_key text NOT NULL,
    seconds double precision NOT NULL);
CREATE TABLE resourcemanagers_agent_agentstate (id integer NOT NULL, agent_id text NOT NULL, uuid text NOT NULL,
    resource_pool_name text NOT NULL, label text NOT NULL, user_enabled boolean, user_draining boolean,
    max_zero_slot_containers integer NOT NULL, slots jsonb, containers jsonb);
CREATE TABLE resourcemanagers_agent_containers (container_id text NOT NULL, resource_id text NOT NULL, agent_id text
    NOT NULL, state text, devices jsonb);
CREATE TABLE resourcemanagers_dispatcher_dispatches (dispatch_id text NOT NULL, resource_id text, allocation_id text
    NOT NULL, impersonated_user text NOT NULL);
CREATE TABLE resourcemanagers_dispatcher_rm_state (id integer, disabled_agents text[] NOT NULL);
CREATE TABLE role_assignment_scopes (id integer NOT NULL, scope_workspace_id integer);
CREATE TABLE role_assignments (group_id integer, role_id integer, scope_id integer);
CREATE TABLE roles (id integer NOT NULL, role_name text NOT NULL, created_at timestamp without time zone NOT NULL);
CREATE TABLE rp_workspace_bindings (workspace_id integer NOT NULL, pool_name text NOT NULL, valid boolean NOT NULL);
CREATE TABLE run_checkpoints (run_id integer NOT NULL, checkpoint_id uuid NOT NULL);
CREATE TABLE run_hparams (run_id integer, hparam text NOT NULL, number_val double precision, text_val text, bool_val
    boolean);
CREATE TABLE run_id_task_id (run_id integer NOT NULL, task_id text NOT NULL);
CREATE TABLE runs (id integer NOT NULL, experiment_id integer NOT NULL, state trial_state NOT NULL, start_time
    timestamp with time zone NOT NULL, end_time timestamp with time zone, hparams jsonb NOT NULL,
    warm_start_checkpoint_id integer, best_validation_id integer, runner_state text NOT NULL, restart_id integer NOT
    NULL, restarts integer NOT NULL, tags jsonb, checkpoint_size bigint NOT NULL, checkpoint_count integer NOT NULL,
    searcher_metric_value double precision, total_batches integer NOT NULL, searcher_metric_value_signed double
    precision, latest_validation_id integer, summary_metrics jsonb NOT NULL, summary_metrics_timestamp timestamp with
    time zone, last_activity timestamp with time zone, external_run_id text, project_id integer NOT NULL,
    log_retention_days smallint, archived boolean NOT NULL, local_id integer, log_policy_matched text, PRIMARY KEY
    (id));
CREATE TABLE runs_metadata (run_id integer NOT NULL, metadata jsonb);
CREATE TABLE runs_metadata_index (id integer NOT NULL, run_id integer, flat_key character varying, string_value
    character varying, integer_value integer, float_value double precision, boolean_value boolean, timestamp_value
    timestamp without time zone, project_id integer, is_array_element boolean);
CREATE TABLE storage_backend (id integer NOT NULL, shared_fs_id integer, s3_id integer, gcs_id integer, azure_id
    integer, directory_id integer);
CREATE TABLE storage_backend_azure (id integer NOT NULL, container text NOT NULL, connection_string text, account_url
    text, credential text);
CREATE TABLE storage_backend_directory (id integer NOT NULL, container_path text);
CREATE TABLE storage_backend_gcs (id integer NOT NULL, bucket text NOT NULL, prefix text);
CREATE TABLE storage_backend_s3 (id integer NOT NULL, bucket text NOT NULL, access_key text, secret_key text,
    endpoint_url text, prefix text);
CREATE TABLE storage_backend_shared_fs (id integer NOT NULL, host_path text NOT NULL, container_path text,
    checkpoint_path text, tensorboard_path text, storage_path text, propagation text NOT NULL);
CREATE TABLE task_config_policies (workspace_id integer, workload_type workload_type NOT NULL, last_updated_by integer
    NOT NULL, last_updated_time timestamp with time zone NOT NULL, invariant_config jsonb, constraints jsonb);
CREATE TABLE task_context_directory (task_id text NOT NULL, context_directory bytea NOT NULL);
CREATE TABLE task_logs (id bigint NOT NULL, task_id text NOT NULL, allocation_id text, agent_id text, container_id
    text, rank_id smallint, source text, stdtype text, level text, "timestamp" timestamp without time zone, log bytea
    NOT NULL);
CREATE TABLE task_stats (allocation_id text NOT NULL, event_type stats_type NOT NULL, start_time timestamp with time
    zone NOT NULL, end_time timestamp with time zone, container_id text);
CREATE TABLE tasks (task_id text NOT NULL, task_type task_type NOT NULL, start_time timestamp without time zone NOT
    NULL, end_time timestamp without time zone, job_id text, log_version smallint, config jsonb, forked_from text,
    parent_id text, task_state task_state, no_pause boolean, log_policy_matched text, PRIMARY KEY (task_id));
CREATE TABLE templates (name character varying NOT NULL, config jsonb NOT NULL, workspace_id integer NOT NULL);
CREATE TABLE trial_logs (trial_id integer NOT NULL, message bytea NOT NULL, agent_id text, container_id text, rank_id
    smallint, log bytea, "timestamp" timestamp without time zone, level text, source text, stdtype text, id bigint NOT
    NULL);
CREATE TABLE trial_profiler_metrics (id bigint NOT NULL, "values" float4[] NOT NULL, batches int4[] NOT NULL, ts
    timestamptz[] NOT NULL, labels jsonb NOT NULL);
CREATE TABLE trial_source_infos (trial_id integer NOT NULL, checkpoint_uuid uuid NOT NULL, model_id integer,
    model_version integer, trial_source_info_type trial_source_info_type NOT NULL);
CREATE TABLE trials_collections (id integer NOT NULL, user_id integer NOT NULL, project_id integer NOT NULL, name text
    NOT NULL, filters jsonb NOT NULL, sorter jsonb NOT NULL);
CREATE TABLE trials_v2 (not_trial_id integer NOT NULL, run_id integer, request_id text, seed integer NOT NULL);
CREATE TABLE user_group_membership (user_id integer NOT NULL, group_id integer NOT NULL);
CREATE TABLE user_profile_images (id integer NOT NULL, user_id integer, file_data bytea NOT NULL);
CREATE TABLE user_sessions (id integer NOT NULL, user_id integer NOT NULL, expiry timestamp without time zone NOT
    NULL, created_at timestamp without time zone, token_type token_type NOT NULL, revoked_at timestamp without time
    zone, description text);
CREATE TABLE user_web_settings (user_id integer NOT NULL, key text NOT NULL, storage_path text NOT NULL, value jsonb);
CREATE TABLE users (id integer NOT NULL, username text NOT NULL, password_hash text, admin boolean, active boolean,
    display_name text, modified_at timestamp with time zone, remote boolean NOT NULL, last_auth_at timestamp with time
    zone, PRIMARY KEY (id));
CREATE TABLE views_and_triggers_hash (hash text NOT NULL);
CREATE TABLE webhook_events_queue (id integer NOT NULL, url text NOT NULL, payload bytea NOT NULL);
CREATE TABLE webhook_task_log_triggers (task_id text NOT NULL, trigger_id integer NOT NULL);
CREATE TABLE webhook_triggers (id integer NOT NULL, trigger_type trigger_type NOT NULL, condition jsonb NOT NULL,
    webhook_id integer NOT NULL);
CREATE TABLE webhooks (id integer NOT NULL, url text NOT NULL, webhook_type webhook_type NOT NULL, workspace_id
    integer, name text NOT NULL, mode webhook_mode NOT NULL);
CREATE TABLE workspace_namespace_bindings (workspace_id integer NOT NULL, cluster_name text NOT NULL, namespace text
    NOT NULL, auto_create_namespace boolean);
CREATE TABLE workspace_pins (id integer NOT NULL, workspace_id integer, user_id integer, created_at timestamp with
    time zone NOT NULL);
CREATE TABLE workspaces (id integer NOT NULL, name text NOT NULL, archived boolean NOT NULL, created_at timestamp with
    time zone NOT NULL, user_id integer, immutable boolean, state workspace_state, error_message text, uid integer,
    user_ text, gid integer, group_ text, checkpoint_storage_config jsonb, default_compute_pool text, default_aux_pool
    text, auto_created_namespace_name text);
CREATE TABLE raw_validations PARTITION OF metrics FOR VALUES IN ('VALIDATION');
CREATE INDEX ON raw_validations (trial_id);
CREATE TABLE raw_steps PARTITION OF metrics FOR VALUES IN ('TRAINING');
CREATE INDEX ON raw_steps (trial_id);
CREATE TABLE generic_metrics PARTITION OF metrics FOR VALUES IN ('GENERIC');
CREATE INDEX ON generic_metrics (trial_id);
CREATE TABLE system_metrics PARTITION OF metrics FOR VALUES IN ('PROFILING');
CREATE INDEX ON system_metrics (trial_id);
CREATE INDEX ON task_logs (task_id);
CREATE INDEX ON runs (experiment_id);
