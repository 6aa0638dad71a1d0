"""Tasks and allocations as the API shows them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import text

from det_controlplane.core.config.pools import DEFAULT_PRIORITY, Scheduler
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.views import TASK_NAME, time

_ALLOCATION = f"""json_build_object('allocationId', a.id, 'taskId', a.task_id, 'slots', a.slots,
    'state', 'STATE_' || CASE WHEN a.state = 'ASSIGNED' THEN 'QUEUED' ELSE a.state::text END, 'isReady', a.ready,
    'startTime', {time("a.started_at")}, 'endTime', {time("a.ended_at")}, 'exitReason', a.exit_reason,
    'statusCode', a.exit_code, 'exitKind', a.exit_kind, 'agentIds', coalesce((
        SELECT json_agg(DISTINCT c.agent_id) FROM containers c WHERE c.allocation_id = a.id AND c.epoch = a.epoch), '[]'::json))"""
_BY_ID = text(f"SELECT {_ALLOCATION} FROM allocations a WHERE a.id = :id")
_TASK = text(f"""
    SELECT json_build_object('taskId', k.id, 'taskType', 'TASK_TYPE_' || k.kind, 'startTime', {time("k.started_at")},
        'endTime', {time("k.ended_at")}, 'allocations', coalesce((SELECT json_agg({_ALLOCATION} ORDER BY a.run_id DESC)
            FROM allocations a WHERE a.task_id = k.id), '[]'::json), 'config', coalesce(k.config->'_submitted',
            (SELECT jsonb_object_agg(c.key, c.value) FROM jsonb_each(k.config) c WHERE left(c.key, 1) <> '_'))::text,
        'parentId', k.parent_id, 'taskState', 'GENERIC_TASK_STATE_' || coalesce(k.state::text,
            CASE WHEN k.ended_at IS NULL THEN 'ACTIVE' ELSE 'COMPLETED' END), 'noPause', k.no_pause, 'forkedFrom', k.forked_from,
        'name', {TASK_NAME}, 'jobId', k.job_id, 'username', u.username, 'resourcePool', j.pool, 'workspaceId', j.workspace_id, 'exitStatus', coalesce(k.exit_status, ''))
    FROM tasks k JOIN jobs j ON j.id = k.job_id JOIN users u ON u.id = j.user_id WHERE k.id = :id
""")
_ACCELERATORS = text("""
    SELECT json_build_object('containerId', c.id, 'allocationId', a.id, 'taskId', a.task_id, 'nodeName', c.agent_id,
        'resourcePool', a.pool, 'acceleratorType', min(s.device_brand), 'acceleratorUuids', json_agg(s.device_uuid ORDER BY s.slot_id))
    FROM allocations a JOIN containers c ON c.allocation_id = a.id
    JOIN slots s ON s.agent_id = c.agent_id AND s.slot_id = ANY(c.slot_ids) AND s.device_type <> 'cpu'
    WHERE a.task_id = :id GROUP BY c.id, a.id ORDER BY c.assigned_at, c.rank
""")
_STARTED = """CASE WHEN c.started_at IS NOT NULL THEN json_build_object('nativeResourcesId', coalesce(c.runtime_id, ''),
    'addresses', coalesce((SELECT json_agg(json_build_object('containerIp', coalesce(c.address, ''), 'containerPort', p.key::int,
        'hostIp', coalesce(c.address, ''), 'hostPort', p.value::int) ORDER BY p.key::int)
        FROM json_each_text(c.host_ports::json) p), '[]'::json)) END"""
# Live allocations by id, as `det task list` and `det slot list` read them.
_SUMMARIES = text(f"""
    SELECT coalesce(json_object_agg(a.id, json_build_object('allocationId', a.id, 'taskId', a.task_id,
        'name', {TASK_NAME}, 'taskType', 'TASK_TYPE_' || k.kind, 'parentId', k.parent_id, 'username', u.username,
        'state', 'STATE_' || CASE WHEN k.state IN ('STOPPING_PAUSED', 'STOPPING_CANCELED') THEN k.state::text
            WHEN a.state = 'ASSIGNED' THEN 'QUEUED' ELSE a.state::text END,
        'priority', coalesce(j.priority, p.default_priority, {DEFAULT_PRIORITY}), 'registeredTime', {time("a.requested_at")},
        'resourcePool', a.pool, 'slotsNeeded', a.slots, 'schedulerType', coalesce(p.type, 'priority'),
        'proxyPorts', (SELECT coalesce(json_agg(json_build_object('port', (x.value->>'port')::integer, 'proxyTcp', x.value->'tcp',
            'serviceId', x.value->>'id', 'unauthenticated', x.value->'unauthenticated') ORDER BY x.ordinality), '[]'::json)
            FROM jsonb_array_elements(k.proxies) WITH ORDINALITY x),
        'resources', coalesce((SELECT json_agg(json_build_object('resourcesId', c.id, 'resourcesType', 'docker-container',
                'allocationId', a.id, 'containerId', c.id, 'agentDevices', json_build_object(c.agent_id,
                    json_build_object('devices', (SELECT coalesce(json_agg(json_build_object('id', s.slot_id,
                        'brand', s.device_brand, 'uuid', s.device_uuid, 'type', 'TYPE_' || upper(s.device_type::text))
                        ORDER BY s.slot_id), '[]')
                        FROM slots s WHERE s.container_id = c.id))), 'started', {_STARTED}, 'exited', NULL) ORDER BY c.rank)
            FROM containers c WHERE c.allocation_id = a.id AND c.epoch = a.epoch AND c.state <> 'TERMINATED'), '[]'::json)
        ) ORDER BY a.requested_at, a.id), '{{}}'::json)::text
    FROM allocations a JOIN tasks k ON k.id = a.task_id JOIN jobs j ON j.id = a.job_id JOIN users u ON u.id = j.user_id
    LEFT JOIN json_to_recordset(cast(:pools AS json)) AS p(name text, type text, default_priority integer) ON p.name = a.pool
    WHERE a.state <> 'TERMINATED' AND (cast(:within AS integer[]) IS NULL OR j.workspace_id = ANY(:within))
""")


def allocation(db: Database, allocation_id: str) -> dict[str, Any] | None:
    rows = db.read(_BY_ID, {"id": allocation_id})
    return rows[0][0] if rows else None


def task(db: Database, task_id: str) -> dict[str, Any] | None:
    rows = db.read(_TASK, {"id": task_id})
    return rows[0][0] if rows else None


def accelerators(db: Database, task_id: str) -> list[dict[str, Any]]:
    """Return the devices of the task's containers on existing agents."""
    return [row[0] for row in db.read(_ACCELERATORS, {"id": task_id})]


def live_allocations(
    db: Database, schedulers: Mapping[str, Scheduler], within: Sequence[int] | None
) -> str:
    """Return the allocations of some workspaces (None: of all) as JSON, by id."""
    pools = [
        {"name": name, "type": s.type, "default_priority": s.default_priority}
        for name, s in schedulers.items()
    ]
    params = {"pools": json.dumps(pools), "within": None if within is None else list(within)}
    return str(db.read(_SUMMARIES, params)[0][0])
