"""Expressions that PostgreSQL turns into the public API's JSON. Every field is always present."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, ColumnElement, Text, cast, func, literal_column

_RFC_3339 = """'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'"""


def time(column: str) -> str:
    """Return a time as RFC 3339 in UTC."""
    return f"to_char({column} AT TIME ZONE 'UTC', {_RFC_3339})"


def moment(column: ColumnElement[Any]) -> ColumnElement[str]:
    return func.to_char(func.timezone("UTC", column), literal_column(_RFC_3339))


def shown(*columns: Column[Any], **fields: Any) -> ColumnElement[Any]:
    """Return the JSON object of columns, under their names in camel case, and of other fields."""
    arguments: list[Any] = []
    for name, value in ({_camel_case(c.name): c for c in columns} | fields).items():
        arguments += literal_column(f"'{name}'"), value
    return func.json_build_object(*arguments)


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def deletion_state(column: ColumnElement[Any]) -> ColumnElement[str]:
    return func.concat("WORKSPACE_STATE_", func.coalesce(cast(column, Text), "UNSPECIFIED"))


# How far the most progressed of some live allocations is.
FURTHEST_STATE = """CASE max(CASE a.state WHEN 'RUNNING' THEN 4 WHEN 'TERMINATING' THEN 4 WHEN 'WAITING' THEN 4
    WHEN 'STARTING' THEN 3 WHEN 'PULLING' THEN 2 ELSE 1 END)
    WHEN 4 THEN 'RUNNING' WHEN 3 THEN 'STARTING' WHEN 2 THEN 'PULLING' ELSE 'QUEUED' END"""
# The same of a job or trial; QUEUED if it has none.
FURTHEST = f"""(SELECT {FURTHEST_STATE}
    FROM allocations a WHERE a.{{key}} AND a.state <> 'TERMINATED')"""

SHOWN_EXPERIMENT_STATE = f"""CASE WHEN e.state = 'ACTIVE' AND NOT e.unmanaged
    THEN {FURTHEST.format(key="job_id = e.job_id")} ELSE e.state::text END"""
EXPERIMENT_STATE = f"'STATE_' || {SHOWN_EXPERIMENT_STATE}"

# Only unmanaged trials have a heartbeat.
SHOWN_TRIAL_STATE = f"""CASE WHEN t.state <> 'ACTIVE' THEN t.state::text
    WHEN t.heartbeat_at IS NOT NULL THEN 'RUNNING' ELSE {FURTHEST.format(key="trial_id = t.id")} END"""
TRIAL_STATE = f"'STATE_' || {SHOWN_TRIAL_STATE}"


# Clients of Determined know no state for trials that the searcher stopped before their whole training.
STOPPED_EARLY = "(t.stopped_early AND t.state = 'COMPLETED')"
# They also know no state for trials that wait for their search: such a trial has no allocation and is in no queue.
WAITS_FOR_SEARCH = """(t.parked AND t.state = 'ACTIVE' AND t.heartbeat_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM allocations a WHERE a.trial_id = t.id AND a.state <> 'TERMINATED'))"""


# How a task is called in its log and in listings.
TASK_NAME = """CASE WHEN k.trial_id IS NULL THEN j.name
    ELSE concat('Trial ', k.trial_id, ' (Experiment ', k.experiment_id, ')') END"""


def fields(fields: Mapping[str, str]) -> str:
    """Write a JSON object's fields, each after a comma; no value may be NULL. Half the cost of json_build_object."""
    return ", ".join(f"""',"{name}":', {value}""" for name, value in fields.items())


def _or_null(column: str, sql: str) -> str:
    return f"CASE WHEN {column} IS NULL THEN 'null' ELSE {sql} END"


def quoted(value: str) -> str:
    return f"""'"', {value}, '"'"""


# The number of trials of experiment `e`.
NUMBER_OF_TRIALS = "(SELECT n.trials FROM trial_counts n WHERE n.experiment_id = e.id)"
_EXTERNAL_TRIAL = """coalesce((SELECT to_json(t.external_id)::text FROM trials t
    WHERE t.experiment_id = e.id AND t.external_id IS NOT NULL ORDER BY t.id LIMIT 1), 'null')"""
# The deadline of experiment `e`, with the last decision about it. The end of the experiment decides its state at last.
_DEADLINE = f"""coalesce((SELECT json_build_object(
    'time', {time("d.deadline")},
    'state', CASE WHEN e.ended_at <= d.deadline THEN 'MET' WHEN coalesce(e.ended_at, now()) > d.deadline THEN 'MISSED'
        ELSE d.state END,
    'choice', CASE WHEN e.ended_at IS NULL THEN d.way END,
    'predictedEnd', CASE WHEN e.ended_at IS NULL THEN {time("d.end_at")} END,
    'probability', CASE WHEN e.ended_at IS NULL THEN round(d.probability::numeric, 3) END,
    'reason', CASE WHEN e.ended_at IS NULL THEN d.sentence ELSE '' END,
    'decidedAt', {time("d.decided_at")})::text
    FROM deadlines d WHERE d.experiment_id = e.id), 'null')"""
_EXPERIMENT_FIELDS = fields(
    {
        "id": "e.id",
        "state": quoted(EXPERIMENT_STATE),
        "duration": "floor(date_part('epoch', coalesce(e.ended_at, now()) - e.started_at))::integer",
        "name": "to_json(e.name)",
        "description": "to_json(e.description)",
        "labels": "to_json(e.labels)",
        "notes": "to_json(e.notes)",
        "archived": "e.archived::text",
        "startTime": quoted(time("e.started_at")),
        "endTime": _or_null("e.ended_at", f"""concat('"', {time("e.ended_at")}, '"')"""),
        "userId": "e.user_id",
        "username": "to_json(u.username)",
        "displayName": "to_json(coalesce(u.display_name, ''))",
        "projectId": "p.id",
        "projectName": "to_json(p.name)",
        "projectOwnerId": "p.user_id",
        "parentArchived": "(p.archived OR w.archived)::text",
        "workspaceId": "w.id",
        "workspaceName": "to_json(w.name)",
        "jobId": quoted("e.job_id"),
        "resourcePool": "to_json(j.pool)",
        "unmanaged": "e.unmanaged::text",
        "externalExperimentId": _or_null("e.external_id", "to_json(e.external_id)"),
        "externalTrialId": f"CASE WHEN e.unmanaged THEN {_EXTERNAL_TRIAL} ELSE 'null' END",
        "forkedFrom": "coalesce(e.parent_id::text, 'null')",
        "originalConfig": "to_json(e.original_config)",
        "modelDefinitionSize": "coalesce((SELECT x.size FROM contexts x WHERE x.id = e.context_id), 0)",
        "numTrials": f"coalesce({NUMBER_OF_TRIALS}, 0)",
        "progress": "coalesce(e.progress::text, 'null')",
        "bestTrialId": "coalesce(e.best_trial_id::text, 'null')",
        "bestTrialSearcherMetric": _or_null("e.best_metric", "to_json(e.best_metric)::text"),
        "pachydermIntegration": "coalesce(e.pachyderm, 'null')",
        "searcherType": _or_null("e.searcher_name", "to_json(e.searcher_name)::text"),
        "searcherMetric": "to_json(e.metric_name)",
        "hyperparameters": "coalesce(e.hyperparameters, 'null')",
        "deadline": _DEADLINE,
    }
)
_CHECKPOINTS_OF_EXPERIMENT = """(SELECT concat(',"checkpointCount":', c.complete, ',"checkpointSize":"', c.size, '"')
    FROM checkpoint_counts c WHERE c.experiment_id = e.id)"""
_TRIAL_IDS = "(SELECT coalesce(json_agg(t.id ORDER BY t.id), '[]') FROM trials t WHERE t.experiment_id = e.id)"


def _experiment(trial_ids: str) -> str:
    """Return the JSON of an experiment as one expression, which PostgreSQL evaluates for the rows of the page only."""
    return f"""concat('{{"config":', e.config, {_EXPERIMENT_FIELDS}, {_CHECKPOINTS_OF_EXPERIMENT},
        ',"trialIds":', {trial_ids}, '}}')"""


EXPERIMENT = _experiment(_TRIAL_IDS)
# The trials of a search may be thousands, and a page has many experiments.
LISTED_EXPERIMENT = _experiment("'[]'")
EXPERIMENT_FROM = """experiments e JOIN jobs j ON j.id = e.job_id JOIN users u ON u.id = e.user_id
    JOIN projects p ON p.id = e.project_id JOIN workspaces w ON w.id = p.workspace_id"""

# Listings show each trial with its reports: without long texts, lists and objects, and without very many batches.
# Workloads and streams of metrics have all of a report. The size as stored says cheaply that a report is small.
LONGEST_LISTED, MOST_LISTED_BATCHES = 1_000, 64 * 1024  # bytes of JSON
_LISTED_METRICS = f"""CASE WHEN pg_column_size(m.metrics) <= 2000 THEN m.metrics ELSE (SELECT jsonb_object_agg(x.key,
    CASE WHEN octet_length(x.value::text) <= {LONGEST_LISTED} THEN x.value END) FROM jsonb_each(m.metrics) x) END"""
_LISTED_BATCHES = f"""CASE WHEN m.batch_metrics IS NULL OR pg_column_size(m.batch_metrics) > {MOST_LISTED_BATCHES} THEN '[]'
    WHEN octet_length(m.batch_metrics::text) > {MOST_LISTED_BATCHES} THEN '[]' ELSE m.batch_metrics END"""
VALIDATION = f"""json_build_object('totalBatches', coalesce(m.total_batches, 0), 'endTime', {time("m.reported_at")},
    'numInputs', 0, 'metrics', json_build_object('avgMetrics', {_LISTED_METRICS}, 'batchMetrics', {_LISTED_BATCHES}))"""

CHECKPOINT_WORKLOAD = f"""json_build_object('uuid', c.uuid, 'endTime', {time("c.reported_at")},
    'state', 'STATE_' || c.state, 'resources', c.resources, 'totalBatches', c.steps_completed, 'metadata', c.metadata)"""

TRIAL = f"""json_build_object(
    'id', t.id, 'experimentId', t.experiment_id, 'state', {TRIAL_STATE}, 'hparams', t.hparams,
    'stoppedEarly', {STOPPED_EARLY}, 'waitsForSearch', {WAITS_FOR_SEARCH},
    'startTime', {time("t.started_at")}, 'endTime', {time("t.ended_at")}, 'restarts', t.restarts,
    'totalBatchesProcessed', t.total_batches, 'runnerState', t.runner_state, 'taskId', t.task_id,
    'taskIds', (SELECT json_agg(k.id ORDER BY k.started_at, k.id) FROM tasks k WHERE k.trial_id = t.id),
    'searcherMetricValue', t.searcher_metric, 'summaryMetrics', t.summary_metrics, 'metadata', t.metadata,
    'warmStartCheckpointUuid', t.warm_start_uuid, 'logRetentionDays', t.log_retention_days,
    'logPolicyMatched', t.log_policy_matched,
    'wallClockTime', (SELECT coalesce(sum(extract(epoch FROM coalesce(a.ended_at, now()) - a.started_at)), 0)
                      FROM allocations a WHERE a.trial_id = t.id AND a.started_at IS NOT NULL),
    'firstRunTime', (SELECT {time("min(a.started_at)")} FROM allocations a WHERE a.trial_id = t.id),
    'checkpointCount', (SELECT count(*) FROM checkpoints c WHERE c.trial_id = t.id AND c.state = 'COMPLETED'),
    'totalCheckpointSize', (SELECT coalesce(sum(c.size), 0)::bigint::text FROM checkpoints c
                            WHERE c.trial_id = t.id AND c.state IN ('COMPLETED', 'PARTIALLY_DELETED')),
    'bestValidation', (SELECT {VALIDATION} FROM metrics m WHERE m.id = t.best_validation_id),
    'latestValidation', (SELECT {VALIDATION} FROM metrics m WHERE m.id = t.latest_validation_id),
    'bestCheckpoint', (SELECT {CHECKPOINT_WORKLOAD} FROM experiments x
        JOIN checkpoints c ON c.trial_id = t.id AND c.state = 'COMPLETED'
        JOIN metrics m ON m.trial_id = t.id AND m.metric_group = 'validation' AND m.total_batches = c.steps_completed
             AND NOT m.archived
        WHERE x.id = t.experiment_id AND jsonb_typeof(m.metrics->x.metric_name) = 'number'
        ORDER BY (m.metrics->>x.metric_name)::double precision
             * CASE WHEN x.smaller_is_better THEN 1 ELSE -1 END, c.reported_at DESC
        LIMIT 1))"""

# The validation that belongs to a checkpoint: the one of exactly its step.
_AT_STEP = """(SELECT {metrics} FROM metrics m WHERE m.trial_id = c.trial_id AND m.metric_group = '{group}'
    AND m.total_batches = c.steps_completed AND NOT m.archived LIMIT 1)"""


def checkpoint_metric(name: str) -> str:
    """Return a validation metric of checkpoint `c`, where it is a number; `name` is SQL."""
    at_step = _AT_STEP.format(group="validation", metrics="m.metrics")
    metric = f"({at_step}->{name})"
    return f"CASE WHEN jsonb_typeof({metric}) = 'number' THEN {metric}::double precision END"


# One look can be wrong, as one at a deletion that is under way.
LOOKS_WITHOUT_FILES = 2
CHECKPOINT_METRIC = checkpoint_metric("e.metric_name")


def _listed_at_step(group: str) -> str:
    metrics = _AT_STEP.format(group=group, metrics=_LISTED_METRICS)
    return (
        f"json_build_object('avgMetrics', coalesce({metrics}, '{{}}'), 'batchMetrics', '[]'::json)"
    )


CHECKPOINT = f"""json_build_object(
    'uuid', c.uuid, 'taskId', c.task_id, 'allocationId', c.allocation_id, 'reportTime', {time("c.reported_at")},
    'state', 'STATE_' || c.state, 'resources', c.resources, 'metadata', c.metadata, 'storageId', c.storage_id,
    'filesMissing', c.looks_without_files >= {LOOKS_WITHOUT_FILES} AND c.state IN ('COMPLETED', 'PARTIALLY_DELETED'),
    'training', json_build_object('trialId', c.trial_id, 'experimentId', c.experiment_id, 'experimentConfig', e.config,
        'hparams', t.hparams,
        'trainingMetrics', {_listed_at_step("training")}, 'validationMetrics', {_listed_at_step("validation")},
        'searcherMetric', {CHECKPOINT_METRIC}))"""
CHECKPOINT_FROM = "checkpoints c LEFT JOIN trials t ON t.id = c.trial_id LEFT JOIN experiments e ON e.id = c.experiment_id"
