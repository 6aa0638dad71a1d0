"""State machines of experiments, trials, tasks, allocations, agents, machines and checkpoints.

Each module defines the states, the allowed transitions, and the reasons for which a transition is rejected."""
