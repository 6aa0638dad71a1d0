"""The plugins of this suite: tests/support/skips.py, leftovers.py and order.py."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support import memory, order, second_tries, skips
from tests.support.cluster import ROOT
from tests.support.leftovers import VARIABLE, leftovers
from tests.support.processes import alive, eventually

SKIPPING = """
import pytest
from tests.support import skips

@pytest.mark.parametrize("n", range(3))
def test_of_a_tool(n):
    skips.skip("there is no tool", "apt-get install tool")

def test_of_a_gpu():
    skips.skip(f"{skips.GPU} in this machine", "a machine with a GPU")

@pytest.mark.skip(reason="just so")
def test_without_a_remedy():
    pass

def test_that_runs():
    pass
"""
HEAVY = """
import pytest

pytestmark = pytest.mark.heavy("minutes of training")

@pytest.mark.parametrize("n", range(4))
def test_of_minutes(n):
    pass
"""
HEAVY_IN_PART = """
import pytest

pytestmark = pytest.mark.heavy("hours of training", n=1, way="long")

@pytest.mark.parametrize("n", range(3))
@pytest.mark.parametrize("way", ["short", "long"])
def test_of_hours(n, way):
    pass

@pytest.mark.parametrize("n", range(3))
def test_of_no_way(n):
    pass
"""
BUSY = """
import time

def test_that_works():
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass
"""
UNSTEADY = """
import os, pytest

@pytest.mark.parametrize("n", range(2))
def test_that_fails_in_company(n):
    assert "DET_TEST_SECOND_TRY" in os.environ, "in company"

def test_that_passes():
    pass
"""
LEAVING = """
import os, subprocess

def start(**options):
    process = subprocess.Popen(["sleep", "600"], start_new_session=True, **options)
    process.returncode = 0
    with open(os.environ["PIDS"], "a") as pids:
        print(process.pid, file=pids)

def test_that_leaves_a_process():
    start()

def test_that_leaves_one_with_an_environment_of_its_own(tmp_path):
    start(env={}, cwd=tmp_path)
"""
LOOKING = """
from tests.support.leftovers import LeftoversPlugin

def pytest_configure(config):
    config.pluginmanager.register(LeftoversPlugin(grace_s=0.1))
"""


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "CI", "DET_TEST_NO_SKIPS", "DET_TEST_FRAMEWORKS", "PYTEST_ADDOPTS", second_tries.VARIABLE
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv(VARIABLE, os.environ[VARIABLE])


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    # Workers of xdist need a process that is their own controller.
    runner = pytester.runpytest_subprocess if "-n" in options else pytester.runpytest_inprocess
    return runner("-p", "tests.support.skips", *options)


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "with a worker"])
def test_run_ends_with_a_table_of_skipped_tests(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    pytester.makepyfile(test_skipping=SKIPPING, test_heavy=HEAVY)
    result = run(pytester, *workers)
    assert result.ret == 0
    rows = [re.split(r"  +", line.strip()) for line in result.outlines]
    assert ["3", "there is no tool", "apt-get install tool"] in rows
    assert ["1", "no GPU in this machine", "a machine with a GPU"] in rows
    assert ["1", "just so", "not told"] in rows
    assert ["4", "minutes of training", "make test-all"] in rows


def test_costs_list_the_files_with_most_processor_time(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_busy=BUSY, test_idle="def test_idle(): pass")
    result = pytester.runpytest_subprocess("-p", "tests.support.costs", "--costs", "-n", "1")
    assert result.ret == 0
    matches = (re.match(r" +([\d.]+) s  ([\w./]+)$", line) for line in result.outlines)
    costs = [match.groups() for match in matches if match]
    assert [name for _, name in costs] == ["./", "test_busy.py", "test_idle.py"]
    assert float(costs[0][0]) >= float(costs[1][0]) >= 0.5
    (busy,) = (line for line in result.outlines if line.startswith("all processors"))
    assert float(busy.split()[7]) > 0


def test_shared_servers_do_not_count_for_the_last_file(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "import pytest, subprocess, sys\n"
        "@pytest.fixture(scope='session', autouse=True)\n"
        "def server():\n"
        "    yield\n"
        "    subprocess.run([sys.executable, '-c', 'while __import__(\"time\").process_time() < 0.5: pass'])\n"
    )
    pytester.makepyfile(test_idle="def test_idle(): pass")
    result = pytester.runpytest_subprocess("-p", "tests.support.costs", "--costs", "-n", "1")
    assert result.ret == 0
    matches = (re.match(r" +([\d.]+) s  (\S.*)", line) for line in result.outlines)
    costs = [match.groups() for match in matches if match]
    assert [name for _, name in costs[-2:]] == ["(servers of all files)", "test_idle.py"]
    assert float(costs[-2][0]) >= 0.5


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, False),
        ({"CI": "false"}, False),
        ({"CI": "true"}, True),
        ({"CI": "1"}, True),
        ({"DET_TEST_NO_SKIPS": "1"}, True),
    ],
)
def test_ci_and_a_setting_forbid_skips(environ: dict[str, str], expected: bool) -> None:
    assert skips.forbidden(environ) is expected


def test_ci_fails_if_a_test_is_skipped(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    pytester.makepyfile(SKIPPING)
    result = run(pytester)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["FAILED: continuous integration skips nothing but no GPU*"])


def test_ci_needs_no_gpu(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    pytester.makepyfile(SKIPPING)
    result = run(pytester, "-k", "of_a_gpu or that_runs")
    result.assert_outcomes(passed=1, skipped=1, deselected=4)
    assert result.ret == 0


def test_run_without_skips_has_no_table(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SKIPPING)
    assert "did not run" not in run(pytester, "-k", "that_runs").stdout.str()


def test_heavy_tests_do_not_count_as_skips_and_run_on_demand(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    pytester.makepyfile(test_heavy=HEAVY, test_light="def test_light(): pass")
    result = run(pytester)
    result.assert_outcomes(passed=1, deselected=4)
    assert result.ret == 0
    monkeypatch.setenv("DET_TEST_FRAMEWORKS", "1")
    run(pytester).assert_outcomes(passed=5)


def test_one_test_can_be_heavy_only_with_some_parameters(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(HEAVY_IN_PART)
    result = run(pytester)
    result.assert_outcomes(passed=8, deselected=1)
    result.stdout.fnmatch_lines(["*1  hours of training*make test-all"])


def run_with_second_tries(
    pytester: pytest.Pytester, workers: tuple[str, ...] = ()
) -> pytest.RunResult:
    plugins = ("-p", "tests.support.second_tries", "-p", "tests.support.skips")
    return pytester.runpytest_subprocess(*plugins, *workers)


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "with workers"])
def test_ci_passes_and_names_tests_that_pass_alone(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    pytester.makepyfile(UNSTEADY)
    assert run_with_second_tries(pytester, workers).ret == 1
    monkeypatch.setenv("CI", "true")
    result = run_with_second_tries(pytester, workers)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["*in company*", "*UNSTEADY*", "*fails_in_company*0*", "*fails_in_company*1*"]
    )


def test_failed_second_try_fails_the_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    pytester.makepyfile(UNSTEADY + "    assert False")
    result = run_with_second_tries(pytester)
    assert result.ret == 1
    result.stdout.no_fnmatch_line("*UNSTEADY*")


def test_second_try_does_not_excuse_a_skip(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    pytester.makepyfile(UNSTEADY, test_skipping=SKIPPING)
    assert run_with_second_tries(pytester).ret == 1


def test_failures_in_many_files_get_no_second_try(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    names = [f"test_{n}" for n in range(second_tries.MOST_FILES + 1)]
    pytester.makepyfile(**dict.fromkeys(names, UNSTEADY))
    assert run_with_second_tries(pytester).ret == 1


def test_remaining_processes_of_tests_are_named_killed_and_fail_the_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIDS", str(pytester.path / "pids"))
    pytester.makepyfile(LEAVING)
    pytester.makeconftest(LOOKING)
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=2)
    assert result.ret == 1
    pids = [int(pid) for pid in (pytester.path / "pids").read_text().split()]
    result.stdout.fnmatch_lines([f"process {pid}: sleep 600" for pid in sorted(pids)])
    assert eventually(lambda: not any(alive(pid) for pid in pids))


def test_run_without_remaining_processes_passes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_nothing(): pass")
    pytester.makeconftest(LOOKING)
    result = pytester.runpytest_inprocess()
    assert result.ret == 0
    assert "left behind" not in result.stdout.str()


def test_processes_of_another_run_are_not_found() -> None:
    assert VARIABLE in os.environ
    assert leftovers("another", Path("/nowhere/near")) == []


def test_container_with_a_mount_of_the_run_is_found(tmp_path: Path) -> None:
    run, other = tmp_path / "one" / "of-me" / "run-0", tmp_path / "other" / "of-me" / "run-0"
    (run / "mounted").mkdir(parents=True)
    script = 'mount --bind "$0" /mnt && echo ready && exec sleep 600'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    with subprocess.Popen(
        [*command, str(run / "mounted")],
        env={"PATH": os.environ["PATH"]},
        cwd="/",
        stdout=subprocess.PIPE,
    ) as container:
        assert container.stdout is not None
        if not container.stdout.readline():
            skips.skip(
                "this machine allows no mount namespaces", "a machine or container that does"
            )
        try:
            assert [leftover.pid for leftover in leftovers("another", run)] == [container.pid]
            assert leftovers("another", other) == [], "the mount of another run is ignored"
        finally:
            container.kill()


def test_files_named_in_the_order_exist() -> None:
    assert [name for name in order.FIRST if not (ROOT / "tests" / name).is_file()] == []


def test_process_of_another_user_counts_as_alive_and_is_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr("os.kill", refuse)
    assert alive(os.getpid())
    assert leftovers("another") == []


def test_folders_in_memory_of_killed_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MEMORY", tmp_path)
    true = subprocess.Popen(["true"])
    true.wait()
    (tmp_path / f"det-test-{true.pid}-a" / "base").mkdir(parents=True)
    (tmp_path / f"det-test-{os.getppid()}-b").mkdir()
    with memory.temporary_folder(1) as folder:
        assert folder.parent == tmp_path
        names = {path.name for path in tmp_path.iterdir()}
        assert names == {f"det-test-{os.getppid()}-b", folder.name}
    assert not folder.exists()


def test_temporary_folder_is_on_disk_if_memory_is_too_small(tmp_path: Path) -> None:
    with memory.temporary_folder(2**60) as folder:
        assert folder.parent == Path(tempfile.gettempdir())
