"""Most tests of replicas need torch. frameworks/test_pytorch_suite.py runs them with the interpreter that has it."""

import importlib.util

collect_ignore_glob = (
    [] if importlib.util.find_spec("torch") else ["test_slots.py", "test_replicator.py"]
)
