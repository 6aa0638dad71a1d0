"""Exit statuses of a container's entry (docs/reference/task-environment.md)."""

INVALID_CONTAINER = 80
AGENT_AWAY = (
    81  # the gateway did not answer while the container prepared: infrastructure, not the task
)
