"""`det experiment wait` follows experiments to their end."""

from tests.cli.conftest import Det
from tests.support.fake_api import Refusal
from tests.support.fake_cluster import NO_MODULE, FakeCluster


def test_wait_exits_with_0_for_completed_experiment(mine: FakeCluster, det: Det) -> None:
    assert det("e", "wait", 1).code == 0


def test_wait_prints_a_warning_about_a_metric_that_was_not_reported(
    mine: FakeCluster, det: Det
) -> None:
    reason = {"state": "COMPLETED", "code": "COMPLETED", "sentence": "", "warning": "no metric"}
    mine.on("GET", "/api/v1/why/experiment/1", lambda _: {"reasons": [reason]})
    result = det("e", "wait", 1)
    assert result.code == 0
    assert result.err.splitlines()[-1] == "Warning: no metric."


def test_wait_exits_with_0_if_the_warnings_cannot_be_read(mine: FakeCluster, det: Det) -> None:
    def refuse(_: object) -> object:
        raise Refusal(404, "no such path")

    mine.on("GET", "/api/v1/why/experiment/1", refuse)
    assert det("e", "wait", 1).code == 0


def test_wait_exits_with_1_for_failed_experiment(mine: FakeCluster, det: Det) -> None:
    mine.add(4, state="STATE_ERROR")
    result = det("e", "wait", 4)
    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines() == [
        "Experiment 4 is ERROR.",
        "exited with code 3.",
        "  details: trial 40: container failed with non-zero exit code: 3",
        "`det trial logs 40` shows the output of its code.",
    ]


def test_wait_for_several_experiments_has_the_worst_exit_code(mine: FakeCluster, det: Det) -> None:
    mine.add(5, state="STATE_COMPLETED")
    assert det("e", "wait", "1,5").code == 0
    mine.add(4, state="STATE_ERROR")
    result = det("e", "wait", 4, 5)
    assert result.code == 1
    assert "Experiment 4 is ERROR." in result.err
    assert "Experiment 5 is COMPLETED." in result.err
    missing = det("e", "wait", 5, 99)
    assert missing.code == 3
    assert "Experiment 5 is" not in missing.err


def test_wait_polls_until_the_end(mine: FakeCluster, det: Det) -> None:
    states = iter(["STATE_QUEUED", "STATE_RUNNING", "STATE_COMPLETED"])

    def answer(_: object) -> object:
        return {"experiment": {**mine.experiments[3], "state": next(states)}}

    mine.on("GET", "/api/v1/experiments/3", answer)
    result = det("e", "wait", 3, "--polling-interval", 0)
    assert result.code == 0
    assert [line.split()[-1] for line in result.err.splitlines()] == [
        "QUEUED.",
        "RUNNING.",
        "COMPLETED.",
    ]


def test_wait_says_to_fix_the_code(mine: FakeCluster, det: Det) -> None:
    mine.add(4, state="STATE_ERROR")
    mine.on("GET", "/api/v1/why/experiment/4", {"reasons": [NO_MODULE]})
    lines = det("e", "wait", 4).err.splitlines()
    assert lines[1] == "No module named 'numppy'."
    assert "Next step: fix the code and create it again." in lines
    assert lines[-1] == "`det trial logs 42` shows the output of its code."
