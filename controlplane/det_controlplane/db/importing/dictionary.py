"""The tables and columns of Determined 0.28 to 0.38.1. A source may have others, which are named and do not move."""

from collections.abc import Mapping

# Columns of the tables that are imported.
COLUMNS = {
    "agent_user_groups": "id user_id user_ uid group_ gid",
    "allocation_workspace_info": "allocation_id workspace_id workspace_name experiment_id",
    "allocations": (
        "task_id allocation_id resource_pool start_time end_time slots state is_ready ports proxy_address "
        "exit_reason exit_error status_code"
    ),
    "checkpoints_v2": "id uuid task_id allocation_id report_time state resources metadata size storage_id",
    "cluster_id": "cluster_id cluster_heartbeat",
    "experiments": (
        "id state config model_definition start_time end_time archived parent_id owner_id progress "
        "original_config notes job_id project_id checkpoint_size checkpoint_count best_trial_id unmanaged "
        "external_experiment_id"
    ),
    "groups": "id group_name user_id",
    "jobs": "job_id job_type owner_id q_position",
    "metrics": "trial_id end_time metrics total_batches trial_run_id archived id metric_group partition_type",
    "model_versions": (
        "version checkpoint_uuid creation_time last_updated_time metadata model_id id name comment user_id "
        "labels notes seq"
    ),
    "models": (
        "name description creation_time last_updated_time metadata id labels user_id archived notes "
        "workspace_id seq"
    ),
    "projects": (
        "id name description archived created_at notes workspace_id user_id immutable state error_message seq "
        "key max_local_id"
    ),
    "role_assignment_scopes": "id scope_workspace_id",
    "role_assignments": "group_id role_id scope_id",
    "roles": "id role_name created_at",
    "run_checkpoints": "run_id checkpoint_id",
    "run_id_task_id": "run_id task_id",
    "runs": (
        "id experiment_id state start_time end_time hparams warm_start_checkpoint_id best_validation_id "
        "runner_state restart_id restarts tags checkpoint_size checkpoint_count searcher_metric_value "
        "total_batches searcher_metric_value_signed latest_validation_id summary_metrics "
        "summary_metrics_timestamp last_activity external_run_id project_id log_retention_days archived "
        "local_id log_policy_matched"
    ),
    "runs_metadata": "run_id metadata",
    "storage_backend": "id shared_fs_id s3_id gcs_id azure_id directory_id",
    "storage_backend_azure": "id container connection_string account_url credential",
    "storage_backend_directory": "id container_path",
    "storage_backend_gcs": "id bucket prefix",
    "storage_backend_s3": "id bucket access_key secret_key endpoint_url prefix",
    "storage_backend_shared_fs": "id host_path container_path checkpoint_path tensorboard_path storage_path propagation",
    "task_config_policies": "workspace_id workload_type last_updated_by last_updated_time invariant_config constraints",
    "task_logs": "id task_id allocation_id agent_id container_id rank_id source stdtype level timestamp log",
    "tasks": (
        "task_id task_type start_time end_time job_id log_version config forked_from parent_id task_state "
        "no_pause log_policy_matched"
    ),
    "templates": "name config workspace_id",
    "trials": (
        "archived best_validation_id checkpoint_count checkpoint_size end_time experiment_id external_run_id "
        "hparams id last_activity latest_validation_id local_id log_policy_matched log_retention_days "
        "not_trial_id project_id request_id restart_id restarts run_id runner_state searcher_metric_value "
        "searcher_metric_value_signed seed start_time state summary_metrics summary_metrics_timestamp tags "
        "task_id total_batches warm_start_checkpoint_id"
    ),
    "trials_v2": "not_trial_id run_id request_id seed",
    "user_group_membership": "user_id group_id",
    "users": "id username password_hash admin active display_name modified_at remote last_auth_at",
    "webhook_triggers": "id trigger_type condition webhook_id",
    "webhooks": "id url webhook_type workspace_id name mode",
    "workspace_pins": "id workspace_id user_id created_at",
    "workspaces": (
        "id name archived created_at user_id immutable state error_message uid user_ gid group_ "
        "checkpoint_storage_config default_compute_pool default_aux_pool auto_created_namespace_name"
    ),
}
# Tables and views that are not imported, or that are read in other ways.
OTHERS = (
    "activity agent_stats allocation_accelerators allocation_resources allocation_sessions "
    "auth_token_keypair cert_and_key_info checkpoints checkpoints_old_view checkpoints_v1 "
    "checkpoints_view cluster_messages command_state config_files experiment_snapshots generic_metrics "
    "gopg_migrations local_id_redirect log_policy_dont_retry log_policy_retry_on_different_node "
    "notebook_sessions permission_assignments permissions project_hparams proto_checkpoints_view "
    "provisioner_instance_stats raw_checkpoints raw_steps raw_validations resource_aggregates "
    "resourcemanagers_agent_agentstate resourcemanagers_agent_containers "
    "resourcemanagers_dispatcher_dispatches resourcemanagers_dispatcher_rm_state rp_workspace_bindings "
    "run_hparams runs_metadata_index steps system_metrics task_context_directory task_stats "
    "trial_id_task_id trial_logs trial_profiler_metrics trial_source_infos trials_augmented_view "
    "trials_collections user_profile_images user_sessions user_web_settings validation_metrics "
    "validations views_and_triggers_hash webhook_events_queue webhook_task_log_triggers "
    "workspace_namespace_bindings"
)


def unknown(catalog: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Return the tables, and the columns as table.column, that no version up to 0.38.1 has."""
    tables = set(catalog) - set(COLUMNS) - set(OTHERS.split())
    columns = {
        f"{table}.{column}"
        for table, names in COLUMNS.items()
        for column in catalog.get(table, frozenset()) - set(names.split())
    }
    return tuple(sorted(tables | columns))
