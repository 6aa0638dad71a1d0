"""Start the files of tests that take longest first, so that no worker is left with one at the end.

A plugin of pytest. With xdist a worker takes whole files, in the order of collection.
"""

from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# By CPU seconds, but that files whose environment takes longest to make come later.
FIRST = (
    "e2e/stock_client/test_stock_client.py",
    "e2e/test_distributed.py",
    "sim/test_world.py",
    "sim/test_machine_world.py",
    "sim/test_mutations.py",
    "e2e/test_frameworks.py",
    "harness/frameworks/test_pytorch_suite.py",
    "e2e/test_gallery.py",
    "e2e/test_boxed_machines.py",
    "e2e/test_boxed_machines_fail.py",
    "e2e/test_walking.py",
    "e2e/test_custom_search.py",
    "e2e/test_horovod.py",
    "e2e/test_ssh_launchers.py",
    "harness/frameworks/test_horovod.py",
    "harness/frameworks/test_deepspeed_trial.py",
    "webui/test_pages.py",
    "webui/test_steering.py",
    "webui/in_process/test_people.py",
    "webui/in_process/test_administration.py",
    "webui/test_own_things.py",
    "webui/test_links.py",
    "e2e/test_checkpoint_storage.py",
    "harness/frameworks/test_keras_trial.py",
    "harness/frameworks/test_transformers_callback.py",
    "harness/frameworks/test_keras_callback.py",
    "entry/test_local_cluster.py",
    "agent/test_agent_processes.py",
    "agent/test_agent_docker.py",
    "unit/schedule/test_safety.py",
    "harness/core/test_storage_objects.py",
    "harness/storage/test_storage_faults.py",
    "e2e/test_local_test_mode.py",
    "e2e/test_every_command.py",
    "harness/frameworks/test_tf_config.py",
)


def place(path: Path) -> int:
    """Return where a file of tests comes: the lower, the earlier."""
    named = path.is_relative_to(TESTS) and path.relative_to(TESTS).as_posix() in FIRST
    return FIRST.index(path.relative_to(TESTS).as_posix()) if named else len(FIRST)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: place(item.path))


def pytest_configure(config: pytest.Config) -> None:
    # xdist would start with the files that have most tests, which are not the longest.
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False
