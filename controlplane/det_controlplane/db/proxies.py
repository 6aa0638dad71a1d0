"""Ports of tasks that are reached through `/proxy/`."""


def of_config(config: str, task_id: str) -> str:
    """Return the SQL that makes `tasks.proxies` of a trial from `environment.proxy_ports` of its configuration.

    The port with the default service id comes first and has the task's id; the others have `<task>:<port>`."""
    return f"""(SELECT coalesce(jsonb_agg(jsonb_build_object('port', (p.value->>'proxy_port')::integer,
            'tcp', coalesce((p.value->>'proxy_tcp')::boolean, false),
            'unauthenticated', coalesce((p.value->>'unauthenticated')::boolean, false),
            'id', CASE WHEN (p.value->>'default_service_id')::boolean THEN {task_id}
                  ELSE concat({task_id}, ':', p.value->>'proxy_port') END)
            ORDER BY coalesce((p.value->>'default_service_id')::boolean, false) DESC, p.ordinality), '[]')
        FROM jsonb_array_elements(coalesce(nullif(({config}#>'{{environment,proxy_ports}}')::jsonb, 'null'), '[]')) WITH ORDINALITY p)"""
