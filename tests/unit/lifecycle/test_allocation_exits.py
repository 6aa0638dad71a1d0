"""The combined meaning of the exits of an allocation's containers."""

import pytest
from det_controlplane.core.lifecycle.allocation import (
    ContainerExit,
    Exit,
    ExitKind,
    Failure,
    classify,
    end_sentence,
)

FAILED = ContainerExit(1, Failure.CONTAINER_FAILED, "container failed with non-zero exit code: 1")
ABORTED = ContainerExit(None, Failure.ABORTED, "the container was killed")
LOST = ContainerExit(None, Failure.AGENT_LOST)
CLEAN = ContainerExit(0, None)
DAEMON_ABORTED = ContainerExit(None, Failure.ABORTED, "the container was killed", daemon=True)


@pytest.mark.parametrize(
    ("exits", "kind"),
    [
        ([FAILED, ABORTED], ExitKind.FAILED),
        ([ABORTED, FAILED], ExitKind.FAILED),
        ([LOST, FAILED], ExitKind.INFRASTRUCTURE),
        ([FAILED, LOST], ExitKind.INFRASTRUCTURE),
        ([CLEAN, ABORTED], ExitKind.INFRASTRUCTURE),
        ([CLEAN, DAEMON_ABORTED], ExitKind.CLEAN),
        ([CLEAN, CLEAN], ExitKind.CLEAN),
        ([], ExitKind.NEVER_RAN),
    ],
)
def test_user_failure_counts_although_its_peers_were_killed(
    exits: list[ContainerExit], kind: ExitKind
) -> None:
    assert classify(exits, killed_before_exit=False, preempt_acked=False).kind is kind


def test_failed_gang_has_the_exit_of_its_failed_container() -> None:
    exit = classify([FAILED, ABORTED], killed_before_exit=False, preempt_acked=False)
    assert (exit.exit_code, exit.message) == (1, FAILED.message)


def test_log_line_has_the_exit_code_and_the_message_of_the_task() -> None:
    begin = "allocation failed: resources failed with non-zero exit code: "
    own = Exit(ExitKind.FAILED, "JupyterLab is not installed", exit_code=80)
    assert end_sentence(own, "") == f"{begin}80 (JupyterLab is not installed)"
    plain = Exit(ExitKind.FAILED, FAILED.message, exit_code=1)
    assert end_sentence(plain, "") == f"{begin}{FAILED.message}"


def test_a_kill_by_the_user_hides_how_the_containers_ended() -> None:
    exit = classify([FAILED, ABORTED], killed_before_exit=True, preempt_acked=False)
    assert exit.kind is ExitKind.KILLED
