"""Programs that run in a task's container before, around and instead of user code."""
