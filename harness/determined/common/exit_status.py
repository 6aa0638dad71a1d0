"""Exit statuses of a container's entry script (docs/reference/task-environment.md)."""

INVALID_CONTAINER = 80
AGENT_AWAY = 81  # the gateway did not answer while the container started: an infrastructure failure
