"""Flags and configuration of `det deploy local` become a plan or an error."""

import json
import re
import socket
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from det_controlplane.core.problems import InvalidConfig
from det_controlplane.entry.local import certificate, rented
from det_controlplane.entry.local.commands import main
from det_controlplane.entry.local.errors import LocalError
from det_controlplane.entry.local.files import LocalAgent, LocalFiles
from det_controlplane.entry.local.plan import BadPlan, Plan, deletion_warning, plan, with_agent
from det_controlplane.services.maintenance.gauges import Rented


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    files = LocalFiles(tmp_path / "cluster")
    files.make()
    return files


def planned(files: LocalFiles, config: str = "", **flags: Any) -> Plan:
    if config:
        path = files.folder.parent / "given.yaml"
        path.write_text(config)
        flags["master_config_path"] = str(path)
    return plan(files, Namespace(**flags))


def keep(files: LocalFiles, new_plan: Plan) -> None:
    files.write_desired(new_plan.desired)
    files.cluster_config.write_text(new_plan.config)


def test_default_plan_has_one_agent_and_a_random_password(files: LocalFiles) -> None:
    new_plan = planned(files)
    assert new_plan.desired.agents == (LocalAgent("determined-agent-0"),)
    assert (new_plan.desired.port, new_plan.desired.host) == (8080, "127.0.0.1")
    assert new_plan.password_is_random
    assert len(new_plan.initial_password or "") >= 16
    assert new_plan.initial_password != planned(files).initial_password


def test_cluster_keeps_its_stored_name(files: LocalFiles) -> None:
    keep(files, planned(files, cluster_name="lab"))
    new_plan = planned(files)
    assert new_plan.desired.cluster_name == "lab"
    assert json.loads(new_plan.config)["cluster_name"] == "lab"
    assert planned(files, cluster_name="other").desired.cluster_name == "other"


def test_empty_password_restricts_the_cluster_to_this_machine(files: LocalFiles) -> None:
    configured = planned(files, "security: {initial_user_password: ''}")
    for new_plan in (planned(files, initial_user_password=""), configured):
        assert (new_plan.initial_password, new_plan.desired.host) == ("", "127.0.0.1")
        assert not new_plan.password_is_random


def test_weak_configured_password_is_rejected_only_for_a_new_database(
    files: LocalFiles,
) -> None:
    config = "security: {initial_user_password: abc}"
    with pytest.raises(BadPlan, match="initial_user_password of the configuration: too weak"):
        planned(files, config, password_weakness=lambda _: "too weak")
    (files.database / "postgres").mkdir(parents=True)
    (files.database / "postgres" / "PG_VERSION").touch()
    assert planned(files, config, password_weakness=lambda _: "too weak").desired.agents


def test_password_that_was_not_printed_is_used_again(files: LocalFiles) -> None:
    first = planned(files).initial_password
    assert first
    files.store_unprinted_password(first)
    (files.database / "postgres").mkdir(parents=True)
    (files.database / "postgres" / "PG_VERSION").touch()  # the accounts may have it by now
    second_plan = planned(files, initial_user_password="another one")
    assert (second_plan.initial_password, second_plan.password_is_random) == (first, True)


def test_password_option_applies_if_no_database_was_created(
    files: LocalFiles,
) -> None:
    files.store_unprinted_password("never used")
    second_plan = planned(files, initial_user_password="given")
    assert (second_plan.initial_password, second_plan.password_is_random) == ("given", False)


def test_checkpoints_are_stored_in_the_data_directory_by_default(files: LocalFiles) -> None:
    storage = json.loads(planned(files).config)["checkpoint_storage"]
    assert storage["host_path"] == str(files.checkpoints)
    configuration = "checkpoint_storage: {type: s3, bucket: b}"
    assert json.loads(planned(files, configuration).config)["checkpoint_storage"]["type"] == "s3"


def test_agents_of_the_configuration_have_their_pools_and_slots(files: LocalFiles) -> None:
    config = """
resource_pools: [{pool_name: gpu}, {pool_name: cpu}]
resource_manager: {default_compute_resource_pool: gpu, default_aux_resource_pool: cpu}
local_agents:
  - {name: a, pool: gpu, slots: 8}
  - {name: b, pool: cpu, slots: none, runtime: process}
"""
    new_plan = planned(files, config)
    assert new_plan.desired.agents == (
        LocalAgent("a", "gpu", "artificial:8"),
        LocalAgent("b", "cpu", "none", "process"),
    )
    assert "local_agents" not in new_plan.config


def test_second_start_reuses_the_options_of_the_first(files: LocalFiles) -> None:
    first = planned(files, "port: 9000", agents=3, slots_per_agent=2, initial_user_password="x1")
    keep(files, first)
    (files.database / "postgres").mkdir(parents=True)
    (files.database / "postgres/PG_VERSION").touch()
    second = planned(files)
    assert second.desired == first.desired
    assert second.config == first.config
    assert second.initial_password is None


def test_options_override_stored_values(files: LocalFiles) -> None:
    keep(files, planned(files, "port: 9000", agents=3))
    new_plan = planned(files, agents=1, master_port=9001)
    assert (new_plan.desired.port, len(new_plan.desired.agents)) == (9001, 1)


def test_options_for_slots_and_runtime_change_stored_agents(files: LocalFiles) -> None:
    keep(files, planned(files, agents=2, slots_per_agent=0, container_runtime="process"))
    more = planned(files, slots_per_agent=4).desired.agents
    assert [(a.slots, a.runtime) for a in more] == [("artificial:4", "process")] * 2
    same = planned(files).desired.agents
    assert [(a.slots, a.runtime) for a in same] == [("none", "process")] * 2


def test_rejects_a_negative_number_of_slots(files: LocalFiles) -> None:
    with pytest.raises(BadPlan, match="--slots-per-agent must be 0 or more, not -2"):
        planned(files, slots_per_agent=-2)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("local_agents: 3", "local_agents: must be a list"),
        ("local_agents: [3]", r"local_agents\[0\]: must be an object"),
        ("local_agents: [{slot: 3}]", r"local_agents\[0\]\.slot: unknown"),
        ("local_agents: [{slots: -1}]", r"local_agents\[0\]\.slots: must be"),
        ("local_agents: [{name: a}, {name: a}]", "the name 'a' is given twice"),
        ("local_agents: [{name: a, pool: gpu}]", "agent a: resource pool 'gpu' does not exist"),
    ],
)
def test_rejects_invalid_agents_by_field(files: LocalFiles, config: str, sentence: str) -> None:
    with pytest.raises(BadPlan, match=sentence):
        planned(files, config)


def test_ignored_keys_are_listed(files: LocalFiles) -> None:
    assert planned(files, "{telemetry: {enabled: true}, port: 80}").ignored == (
        "telemetry.enabled",
    )
    assert planned(files).ignored == ()


@pytest.mark.parametrize(
    "config",
    [
        "port: many",
        "a: [",
        "nonsense: 1",
        "task_container_defaults: {bind_mounts: [{host_path: x}]}",
    ],
)
def test_rejects_an_invalid_configuration(files: LocalFiles, config: str) -> None:
    with pytest.raises(InvalidConfig):
        planned(files, config)


def test_message_about_an_unknown_key_lists_every_documented_key(files: LocalFiles) -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "cluster-config.md"
    sections = re.findall(r"^## ([a-z_]+)(?:\[\])?$", page.read_text("utf-8"), re.MULTILINE)
    top_level = page.read_text("utf-8").split("## Top level")[1].split("\n## ")[0]
    keys = {*sections, *re.findall(r"^\| `([a-z_]+)`", top_level, re.MULTILINE)}
    assert {"local_agents", "security", "port", "reserved_ports"} <= keys
    with pytest.raises(InvalidConfig) as error:
        planned(files, "local_agent: []")
    message = str(error.value)
    assert "did you mean 'local_agents'?" in message
    assert keys - set(re.split(r"[ ,]+", message.partition("allowed here: ")[2])) == set()


@pytest.mark.parametrize("port", [-1, 0, 65_536])
def test_port_out_of_range_is_rejected(files: LocalFiles, port: int) -> None:
    sentence = f"--master-port must be a number from 1 to 65535, not {port}"
    with pytest.raises(BadPlan, match=sentence):
        planned(files, master_port=port)


def test_unusable_data_directory_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "locked").mkdir()
    # Tests run as root too, for whom no directory is locked.
    monkeypatch.setattr("os.access", lambda path, _: Path(path).name != "locked")
    for folder, cause in (
        ("file", f"{tmp_path}/file is a file"),
        ("file/below", f"{tmp_path}/file is a file"),
        ("locked/new", f"this user may not write to {tmp_path}/locked"),
    ):
        assert main("cluster-up", Namespace(data_dir=str(tmp_path / folder))) == 1
        sentence = f"the data directory {tmp_path / folder} cannot be used: {cause}."
        assert capsys.readouterr().err.startswith(sentence)
    assert main("cluster-up", Namespace(data_dir="/proc/new")) == 1
    assert "/proc/new cannot be used: it cannot be created: " in capsys.readouterr().err


def test_interrupted_start_leaves_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("det_controlplane.entry.local.plan.plan", interrupt)
    folder = tmp_path / "new"
    assert main("cluster-up", Namespace(data_dir=str(folder))) == 130
    assert capsys.readouterr().err == "interrupted\n"
    assert not folder.exists()


def test_unreadable_configuration_is_named(files: LocalFiles) -> None:
    with pytest.raises(LocalError, match=r"cannot read .*absent\.yaml: No such file"):
        plan(files, Namespace(master_config_path="absent.yaml"))


def test_work_directory_is_mounted_at_the_same_path(files: LocalFiles, tmp_path: Path) -> None:
    defaults = json.loads(planned(files, auto_work_dir=str(tmp_path)).config)[
        "task_container_defaults"
    ]
    assert defaults["work_dir"] == str(tmp_path)
    assert defaults["bind_mounts"] == [
        {"host_path": str(tmp_path), "container_path": str(tmp_path)}
    ]


def test_rejects_an_agent_of_an_unknown_pool(
    files: LocalFiles,
) -> None:
    keep(files, planned(files, "resource_pools: [{pool_name: gpu}]\nlocal_agents: []"))
    assert with_agent(files, LocalAgent("late", pool="gpu")).agents[-1].name == "late"
    with pytest.raises(BadPlan, match=r"agent late: .*'gpus' does not exist.*agent-name late$"):
        with_agent(files, LocalAgent("late", pool="gpus"))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://u:secret@h/x", "must be a URL like postgresql://"),
        ("postgresql://u:secret@h:port/x", "must be a URL like postgresql://"),
        ("postgresql://u:secret@127.0.0.1:1/x", r"answers at postgresql://127\.0\.0\.1:1/x"),
        ("postgresql://u:secret@nowhere.invalid/x", r"answers at postgresql://nowhere\.invalid/x"),
    ],
)
def test_rejects_an_unusable_database_without_printing_its_password(
    files: LocalFiles, url: str, message: str
) -> None:
    with pytest.raises(BadPlan, match=message) as error:
        planned(files, db=url, initial_user_password="given")
    assert "secret" not in str(error.value)
    assert not files.has_cluster()


def test_external_database_is_prepared_and_remembered(
    files: LocalFiles, empty_database_url: str
) -> None:
    new_plan = planned(files, db=empty_database_url)
    assert new_plan.password_is_random
    keep(files, new_plan)
    assert planned(files).desired.database_url == empty_database_url


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "::"])
def test_public_cluster_requires_a_password(files: LocalFiles, host: str) -> None:
    with pytest.raises(BadPlan, match="give a password"):
        planned(files, host=host, initial_user_password="")
    assert planned(files, host=host, initial_user_password="long enough").desired.host == host
    assert planned(files, initial_user_password="").desired.host == "127.0.0.1"


def test_public_cluster_uses_tls_by_default(files: LocalFiles) -> None:
    alone = planned(files, initial_user_password="long enough").desired
    assert (alone.tls_cert, alone.url) == ("", "http://127.0.0.1:8080")
    new_plan = planned(files, host="0.0.0.0", initial_user_password="long enough")
    assert (new_plan.desired.tls_cert, new_plan.desired.tls_key) == (
        str(files.tls_cert),
        str(files.tls_key),
    )
    assert new_plan.desired.url == "https://127.0.0.1:8080"
    keep(files, new_plan)
    assert planned(files).desired.tls_cert == str(files.tls_cert), (
        "the stored certificate is used again"
    )
    assert planned(files, no_tls=True).desired.tls_cert == ""


def test_existing_cluster_without_tls_stays_without_tls(files: LocalFiles) -> None:
    plain = planned(files, host="0.0.0.0", no_tls=True, initial_user_password="long enough")
    keep(files, plain)
    assert planned(files).desired.url == "http://127.0.0.1:8080"


def test_rejects_an_unusable_certificate(files: LocalFiles, tmp_path: Path) -> None:
    cert, key, other = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "other.pem"
    certificate.make(cert, key, "cluster.example")
    certificate.make(tmp_path / "second.pem", other, "cluster.example")
    with pytest.raises(BadPlan, match="go together"):
        planned(files, tls_cert=str(cert))
    with pytest.raises(BadPlan, match="--tls-key: there is no file"):
        planned(files, tls_cert=str(cert), tls_key=str(tmp_path / "gone"))
    with pytest.raises(BadPlan, match="no certificate with its key"):
        planned(files, tls_cert=str(cert), tls_key=str(other))
    desired_files = planned(files, tls_cert=str(cert), tls_key=str(key)).desired
    assert (desired_files.tls_cert, desired_files.host) == (str(cert), "127.0.0.1")


def test_created_certificate_has_host_names_and_a_private_key_file(
    tmp_path: Path,
) -> None:
    cert, key = tmp_path / "tls" / "cert.pem", tmp_path / "tls" / "key.pem"
    certificate.make(cert, key, "cluster.example")
    assert key.stat().st_mode & 0o777 == 0o600
    parsed = x509.load_pem_x509_certificate(cert.read_bytes())
    names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    host_names = {str(n.value) for n in names}
    assert {"localhost", socket.gethostname(), "cluster.example", "127.0.0.1", "::1"} <= host_names
    assert certificate.fingerprint(cert) == parsed.fingerprint(hashes.SHA256()).hex(":")


def test_warns_about_a_pool_without_credentials_for_the_checkpoint_bucket(
    files: LocalFiles,
) -> None:
    """The keys of one cloud open no bucket of the other."""
    config = (
        "checkpoint_storage: {type: s3, bucket: b}\n"
        "resource_pools: [{pool_name: default, provider: {type: gcp, region: us-central1}}]\n"
    )
    warning, *_ = planned(files, config).warnings
    assert "machines of pool default on Google Cloud have no credentials" in warning


RENTED = """
resource_pools:
  - pool_name: default
    provider: {type: aws, region: us-east-1, instance_type: g5.xlarge%s}
checkpoint_storage: %s
"""


def test_warns_about_machines_that_reach_neither_api_nor_checkpoints(
    files: LocalFiles,
) -> None:
    local = "{type: shared_fs, host_path: /tmp}"
    storage, api = planned(files, RENTED % ("", local)).warnings
    assert "pool default cannot use checkpoint_storage of type shared_fs" in storage
    assert "cannot join: http://127.0.0.1:8080 is the API's address only on this machine" in api


def test_does_not_warn_about_machines_that_reach_api_and_bucket(files: LocalFiles) -> None:
    config = RENTED % (", master_url: 'https://det.example.org'", "{type: s3, bucket: ours}")
    assert planned(files, config).warnings == ()


def test_does_not_warn_about_machines_that_mount_the_checkpoint_directory(
    files: LocalFiles,
) -> None:
    mounting = ", startup_script: mount /tmp, master_url: 'https://det.example.org'"
    config = RENTED % (mounting, "{type: shared_fs, host_path: /tmp}")
    assert planned(files, config).warnings == ()


def test_does_not_warn_about_a_pool_without_rented_machines(files: LocalFiles) -> None:
    assert planned(files).warnings == ()


def test_warns_about_telemetry_without_its_packages(
    files: LocalFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)
    config = "telemetry: {otel_enabled: %s, otel_endpoint: 'http://127.0.0.1:4318'}"
    (warning,) = planned(files, config % "true").warnings
    assert "no traces are sent: install determined-serverless[telemetry]" in warning
    assert planned(files, config % "false").warnings == ()


def test_stop_warns_about_machines_that_still_cost_money() -> None:
    machines = Rented(2, 1.167, ("aws us-east-1", "gcp us-central1"))
    first, second = rented.warnings_at_stop(machines, is_deleted=False)
    assert first.startswith("2 machines may still be rented (aws us-east-1, gcp us-central1; $1.17")
    assert "`cluster-up` manages them again" in second
    assert "in the console" in list(rented.warnings_at_stop(machines, is_deleted=True))[1]
    assert not list(rented.warnings_at_stop(Rented(0, 0.0, ()), is_deleted=False))


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((1200, 1, 3), "1,200 experiments, 1 record of a checkpoint and 3 users"),
        ((1, 0, 1), "1 experiment, 0 records of checkpoints and 1 user"),
        ((), "all experiments, records of checkpoints and users"),
    ],
)
def test_deletion_of_the_database_names_its_content(
    files: LocalFiles, numbers: tuple[int, ...], expected: str
) -> None:
    records = dict(zip(("experiments", "checkpoints", "users"), numbers, strict=False))
    keep(files, planned(files))
    warning = deletion_warning(files, records)
    assert warning == f"--delete-db deletes the database: {expected}"


def test_deletion_keeps_a_database_elsewhere(files: LocalFiles) -> None:
    desired = planned(files).desired
    files.write_desired(replace(desired, database_url="postgresql://db.example/det"))
    assert "The database of --db stays" in deletion_warning(files, {})


def test_accepts_an_agent_of_a_pool_in_the_database(files: LocalFiles) -> None:
    keep(files, planned(files, "resource_pools: [{pool_name: gpu}]\nlocal_agents: []"))
    desired = with_agent(files, LocalAgent("late", pool="lab"), ["gpu", "lab"])
    assert desired.agents[-1] == LocalAgent("late", pool="lab", in_database=True)
    files.write_desired(desired)
    assert planned(files).desired.agents[-1].pool == "lab"
    with pytest.raises(BadPlan, match="the configuration has: gpu, lab"):
        with_agent(files, LocalAgent("later", pool="labs"), ["gpu", "lab"])
