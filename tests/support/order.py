"""Start the files of tests that take longest first, so that no worker is left with one at the end.

A plugin of pytest. With xdist a worker takes whole files, in the order of collection.
"""

from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# Long files first, because there are more workers than processors and some files mostly wait. Files with slow
# environments come later.
FIRST = (
    "e2e/test_long_outages.py",  # waits
    "e2e/test_boxed_machines_fail.py",  # waits
    "e2e/stock_client/test_stock_client.py",
    "e2e/test_distributed.py",
    "sim/test_world.py",
    "e2e/test_commands.py",  # waits
    "sim/test_machine_world.py",
    "terraform/test_stacks.py",
    "e2e/test_boxed_machines.py",  # waits
    "sim/test_mutations.py",
    "e2e/test_gallery.py",
    "e2e/test_frameworks.py",
    "e2e/test_custom_search.py",  # waits
    "harness/frameworks/test_pytorch_suite.py",
    "e2e/test_traffic.py",  # waits
    "e2e/test_walking.py",
    "e2e/test_ssh_launchers.py",
    "api/test_declared_requests.py",
    "e2e/test_searchers_stop.py",  # waits
    "e2e/test_horovod.py",
    "harness/frameworks/test_horovod.py",
    "harness/frameworks/test_deepspeed_trial.py",
    "webui/test_pages.py",
    "cli/test_deploy_aws.py",
    "cli/test_deploy_elsewhere.py",
    "cli/test_pipelines.py",
    "entry/test_aws_distribution.py",
    "entry/test_lambda.py",
    "entry/test_local_cluster.py",
    "harness/frameworks/test_keras_trial.py",
    "harness/frameworks/test_transformers_callback.py",
    "harness/frameworks/test_keras_callback.py",
    "agent/test_agent_docker.py",
)
# The others: folders of long files first, so that the last files are short.
FOLDERS = ("webui", "e2e", "harness", "entry", "agent", "cli", "db", "contracts", "api")


def place(path: Path) -> int:
    """Return where a file of tests comes: the lower, the earlier."""
    if not path.is_relative_to(TESTS):
        return len(FIRST)
    name = path.relative_to(TESTS).as_posix()
    if name in FIRST:
        return FIRST.index(name)
    folder = name.partition("/")[0]
    return len(FIRST) + (FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: place(item.path))


def pytest_configure(config: pytest.Config) -> None:
    # xdist would start with the files that have most tests, which are not the longest.
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False
