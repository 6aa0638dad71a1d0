"""Help, usage errors, exit codes, and errors of unreachable clusters."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest
from det_cli import __version__, product_version
from det_cli.render import counted
from det_controlplane.entry.local.files import Desired, LocalFiles, default_folder

from tests.cli.conftest import Det
from tests.support.fake_api import Raw, RecordedRequest, Refusal
from tests.support.fake_cluster import FakeCluster
from tests.support.ports import free_port


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_help_lists_every_group(det: Det, words: list[str]) -> None:
    result = det(*words)
    assert result.code == 0
    assert "experiment (e)" in result.out
    assert "-m, --master ADDRESS" in result.out


@pytest.mark.parametrize("words", [["experiment", "help"], ["e", "--help"], ["help", "experiment"]])
def test_group_help_lists_commands(det: Det, words: list[str]) -> None:
    result = det(*words)
    assert result.code == 0
    assert "list-checkpoints (lc)" in result.out


@pytest.mark.parametrize("words", [["e", "create", "--help"], ["help", "e", "create"]])
def test_command_help_lists_arguments(det: Det, words: list[str]) -> None:
    result = det(*words)
    assert result.code == 0
    assert "--dry-run" in result.out


def test_group_without_list_command_prints_help(det: Det) -> None:
    assert "cluster-up" in det("deploy", "local").out


@pytest.mark.parametrize("flag", ["-v", "--version"])
def test_version_option_prints_version(det: Det, flag: str) -> None:
    own = importlib.metadata.version("determined-serverless")
    assert det(flag).out == f"det {__version__} (Determined Serverless {own})\n"


def test_misspelt_option_gets_suggestion(det: Det) -> None:
    result = det("e", "create", "--dryrun", "x.yaml")
    assert result.code == 2
    assert "unrecognized arguments: --dryrun; did you mean --dry-run?" in result.err


def test_missing_file_and_missing_template_exit_with_3(
    cluster: FakeCluster, det: Det, tmp_path: Path
) -> None:
    def missing(_: RecordedRequest) -> dict[str, object]:
        raise Refusal(404, "template 'none' not found")

    config = tmp_path / "config.yaml"
    config.write_text("name: a\n")
    cluster.on("POST", "/api/v1/experiments", missing)
    for words in (
        ["none.yaml"],
        [config, tmp_path / "none"],
        [config, tmp_path, "--template", "none"],
    ):
        assert det("e", "create", *words).code == 3


@pytest.mark.parametrize(("number", "text"), [(0, "0 days"), (1, "1 day"), (2, "2 days")])
def test_nouns_follow_their_numbers(number: int, text: str) -> None:
    assert counted(number, "day") == text


FORK = (
    "`det experiment config ID` and `det experiment download-model-def ID` give the parts of a fork for"
    " `det experiment create`; `det experiment continue ID` trains further"
)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["oauth", "client", "list"], "identity provider"),
        (["deploy", "gke-experimental", "up"], "use `det deploy gcp`"),
        (["w", "bindings", "list", "ours"], "det resource-pool bindings"),
        (["workspace", "resource-quota", "set", "ours", 3], "det budget"),
        (["w", "create", "ours", "--namespace", "n"], "leave --namespace out"),
    ],
)
def test_unsupported_commands_name_their_replacement(
    det: Det, words: list[object], hint: str
) -> None:
    result = det(*words)
    assert (result.code, result.out) == (2, "")
    assert hint in result.err.partition("hint: ")[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["template", "describe", ""], "template_name is empty"),
        (["e", "describe", " "], "experiment_ids is empty"),
        (["cmd", "kill", "a", ""], "command_id is empty"),
        (["user", "change-password", ""], "target_user is empty"),
        (["slot", "enable", "a1", ""], "slot_id is empty"),
        (["rbac", "describe-role", ""], "role_name is empty"),
    ],
)
def test_empty_name_is_rejected_before_any_request(
    cluster: FakeCluster, det: Det, words: list[object], message: str
) -> None:
    result = det(*words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert cluster.asked == []


def test_empty_text_is_accepted(cluster: FakeCluster, det: Det) -> None:
    cluster.add(1)
    assert det("e", "set", "description", 1, "").code == 0
    assert "there is no command to run" not in det("cmd", "run", "printf", "").err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["experimnt"], "did you mean `det experiment` or `det export`?"),
        (["e", "creat"], "did you mean `det experiment create`?"),
        (["e", "set", "piority", 1], "did you mean `det experiment set priority`?"),
        (["qqq"], "`det --help` lists the commands"),
        (["exp"], "did you mean `det experiment`?"),
        (["expe", "list"], "did you mean `det experiment`?"),
        (["list-trials", 1], "did you mean `det experiment list-trials`?"),
        (["logs", 1], "did you mean `det experiment logs` or `det trial logs` or `det task logs`?"),
        (["whoami"], "did you mean `det user whoami`?"),
        (["queue"], "did you mean `det job list`?"),
        (["e", "stop", 1], "did you mean `det experiment cancel` or `det experiment kill`?"),
        (["e", "rm", 1], "did you mean `det experiment delete`?"),
        (["e", "desc", 1], "did you mean `det experiment describe`?"),
        (["deploy", "local", "up"], "did you mean `det deploy local cluster-up`?"),
        (["deploy", "local", "start"], "did you mean `det deploy local cluster-up`?"),
        (["fork", 1], FORK),
        (["e", "fork", 1], FORK),
    ],
)
def test_misspelt_command_gets_suggestion(det: Det, words: list[object], hint: str) -> None:
    result = det(*words)
    assert (result.code, result.out) == (2, "")
    assert result.err.endswith(f"\n\nhint: {hint}\n")


@pytest.mark.parametrize(
    "words",
    [
        ["e", "describe"],
        ["e", "pause", "x"],
        ["e", "list", "--nope"],
        ["--nope"],
        ["-m"],
        ["e", "create", "c", "d", "-f", "--paused"],
    ],
)
def test_usage_errors_exit_with_2(det: Det, words: list[str]) -> None:
    result = det(*words)
    assert (result.code, result.out) == (2, "")
    assert "Traceback" not in result.err


def test_unreachable_cluster_error_names_det_master(home: object, det: Det) -> None:
    result = det("-m", f"127.0.0.1:{free_port()}", "e", "list")
    assert result.code == 1
    assert "cannot reach http://127.0.0.1" in result.err
    assert "DET_MASTER" in result.err
    assert "Traceback" not in result.err


def test_refused_connection_is_explained(home: object, det: Det) -> None:
    result = det("-m", f"127.0.0.1:{free_port()}", "e", "list")
    assert "connection refused" in result.err
    assert "ConnectionRefusedError" not in result.err
    assert "`det deploy local cluster-up` starts a cluster here" in result.err


def test_unknown_host_is_explained(home: object, det: Det) -> None:
    result = det("-m", "http://no-such-host.invalid:8080", "e", "list")
    assert "cannot reach http://no-such-host.invalid:8080: unknown host" in result.err


def test_https_to_a_plain_address_is_explained(cluster: FakeCluster, det: Det) -> None:
    result = det("-m", cluster.url.replace("http:", "https:"), "e", "list")
    assert result.code == 1
    assert "this address speaks plain HTTP" in result.err
    assert "hint: write http:// before its address" in result.err


def test_address_of_a_stopped_local_cluster_names_the_command_that_starts_it(
    home: Path, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    port = free_port()
    files = LocalFiles(default_folder("ux"))
    files.folder.mkdir(parents=True)
    files.write_desired(Desired("ux", "127.0.0.1", port))
    result = det("-m", f"127.0.0.1:{port}", "e", "list")
    assert "cluster 'ux' is down: `det deploy local cluster-up --cluster-name ux`" in result.err


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, 1), (401, 4), (403, 4), (404, 3), (409, 5), (429, 1), (500, 1), (501, 1)],
)
def test_each_http_status_has_an_exit_code(
    cluster: FakeCluster, det: Det, status: int, code: int
) -> None:
    def refuse(_: RecordedRequest) -> None:
        raise Refusal(status, "because of that")

    cluster.on("GET", "/api/v1/agents", refuse)
    result = det("agent", "list")
    assert (result.code, result.out) == (code, "")
    assert "because of that" in result.err


def test_gateway_errors_are_retried(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("determined.common.http.time.sleep", lambda _: None)
    answers = iter([Raw(b"", status=502), Raw(b"", status=503), {"agents": []}])
    cluster.on("GET", "/api/v1/agents", lambda _: next(answers))
    assert det("agent", "list").code == 0


def test_html_response_is_reported(cluster: FakeCluster, det: Det) -> None:
    cluster.on("GET", "/api/v1/agents", Raw(b"<html>"))
    result = det("agent", "list")
    assert result.code == 1
    assert "did not answer with JSON: '<html>'" in result.err
    assert "unexpected failure" not in result.err


def test_unexpected_json_is_reported_without_traceback(cluster: FakeCluster, det: Det) -> None:
    cluster.on("GET", "/api/v1/agents", {"agents": [5]})
    result = det("agent", "list")
    assert result.code == 1
    assert "unexpected failure" in result.err
    assert "DET_DEBUG=1" in result.err


def test_det_debug_raises_the_exception(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_DEBUG", "1")
    cluster.on("GET", "/api/v1/agents", {"agents": [5]})
    with pytest.raises((TypeError, AttributeError)):
        det("agent", "list")


INTERRUPTED_IMPORT = """
import sys

class Interrupt:
    def find_spec(self, name, *_):
        if name == sys.argv[1]:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from det_cli.main import main
sys.exit(main(["deploy", "local", "cluster-up"]))
"""


@pytest.mark.parametrize(
    "module",
    ["det_cli.errors", "det_cli.find", "det_cli.parse", "det_controlplane.entry.local.commands"],
)
def test_ctrl_c_during_an_import_exits_with_130_and_no_traceback(module: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED_IMPORT, module]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 130
    assert result.stderr.endswith("interrupted\n")
    assert "Traceback" not in result.stderr


def test_version_works_without_a_cluster(home: object, det: Det) -> None:
    result = det("-m", f"127.0.0.1:{free_port()}", "version")
    assert result.code == 0
    assert "master: null" in result.out
    assert f"product_version: {product_version()}\n" in result.out


def test_master_option_selects_the_cluster(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_MASTER", "127.0.0.1:1")
    assert det("-m", cluster.url, "user", "whoami").code == 0
    assert det(f"--master={cluster.url}", "user", "whoami").code == 0


def test_closed_output_pipe_is_not_an_error(cluster: FakeCluster) -> None:
    for id in range(1, 500):
        cluster.add(id)
    command = (
        f"{sys.executable} -m det_cli.main e list --all --json | head -1; echo ${{PIPESTATUS[0]}}"
    )
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["[", "0"]
    assert result.stderr == ""


HEAVY = (
    "argparse",
    "http.client",
    "ssl",
    "yaml",
    "json",
    "dataclasses",
    "pathspec",
    "requests",
    "pydantic",
    "torch",
)


def imported(code: str) -> set[str]:
    command = [sys.executable, "-c", f"{code}; import sys; print(*sys.modules, file=sys.stderr)"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(result.stderr.split())


def test_help_imports_no_large_modules() -> None:
    assert imported("from det_cli.main import main; main(['--help'])").isdisjoint(HEAVY)


def test_list_does_not_import_yaml_or_control_plane(cluster: FakeCluster) -> None:
    modules = imported("from det_cli.main import main; main(['agent', 'list', '--json'])")
    assert modules.isdisjoint(
        ("yaml", "requests", "pydantic", "boto3", "pathspec", "det_controlplane")
    )


def test_deploy_passes_options_to_the_local_cluster(
    det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    import types

    calls = {}

    def start(action: str, args: object) -> int:
        calls[action] = args
        return 0

    module = types.ModuleType("det_controlplane.entry.local.commands")
    module.main = start  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "det_controlplane.entry.local.commands", module)
    monkeypatch.setattr("det_controlplane.entry.local.commands", module, raising=False)
    flags = [
        "--agents",
        3,
        "--no-gpu",
        "--slots-per-agent",
        2,
        "--config",
        "c.yaml",
        "--foreground",
    ]
    assert det("deploy", "local", "cluster-up", *flags).code == 0
    args = calls["cluster_up"]
    assert (args.agents, args.gpu, args.slots_per_agent) == (3, False, 2)  # type: ignore[attr-defined]
    assert (args.master_config_path, args.foreground) == ("c.yaml", True)  # type: ignore[attr-defined]
    assert args.cluster_name is None, "a data directory keeps the name of its cluster"  # type: ignore[attr-defined]


def test_hint_lists_objects_of_the_missing_kind(cluster: FakeCluster, det: Det) -> None:
    def refuse(_: RecordedRequest) -> None:
        raise Refusal(404, "template 'x' not found")

    cluster.on("GET", "/api/v1/agents", refuse)
    result = det("agent", "list")
    assert result.err.endswith("\n\nhint: `det template list` lists the existing ones\n")


@pytest.mark.parametrize(
    ("words", "message", "shown"),
    [
        ("resources aggregated x y", "startDate must be a date", "start_date must be a date"),
        ("task logs t.x --timestamp-after x", "timestampAfter must be a time", "--timestamp-after must be a time"),
        ("task logs t.x", "startDate must be a date", "startDate must be a date"),
        ("task logs t.x", "task 't.x' not found", "task 't.x' not found"),
    ],
)  # fmt: skip
def test_rejected_value_is_named_by_its_option(
    cluster: FakeCluster, det: Det, words: str, message: str, shown: str
) -> None:
    def refuse(_: RecordedRequest) -> None:
        raise Refusal(400, message)

    for path in ("/resources/allocation/aggregated", "/api/v1/tasks/t.x", "/api/v1/tasks/t.x/logs"):
        cluster.on("GET", path, refuse)
    assert f": {shown}\n" in det(*words.split()).err


def test_hint_of_the_cluster_is_not_repeated(cluster: FakeCluster, det: Det) -> None:
    def refuse(_: RecordedRequest) -> None:
        raise Refusal(404, "agent 'x' not found: `det agent list` shows them")

    cluster.on("GET", "/api/v1/agents", refuse)
    assert "hint" not in det("agent", "list").err


def test_sign_in_error_has_no_administrator_hint(cluster: FakeCluster, det: Det) -> None:
    def refuse(_: RecordedRequest) -> None:
        raise Refusal(403, "an access token may not deactivate users: sign in, by 'det user login'")

    cluster.on("GET", "/api/v1/agents", refuse)
    result = det("agent", "list")
    assert (result.code, "hint" in result.err) == (4, False)


def test_names_with_spaces_and_umlauts_are_sent(cluster: FakeCluster, det: Det) -> None:
    # The cluster answers. Only the name is wrong, so the error must not be "cannot reach the cluster".
    for name in ("a b", "größe"):
        result = det("template", "describe", name)
        assert result.code != 0
        assert "cannot reach" not in result.err
        assert len(cluster.sent("GET", f"/api/v1/templates/{name}")) == 1
