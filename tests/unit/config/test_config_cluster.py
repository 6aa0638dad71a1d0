"""The cluster configuration with the keys administrators know."""

import json
import subprocess
import sys
from typing import Any

import pytest
from det_controlplane.core.config import (
    ClusterConfig,
    InvalidConfig,
    load_cluster,
    resolve,
    sources_of,
)
from det_controlplane.core.config.cluster_check import load_checked
from det_controlplane.core.config.cluster_document import document
from det_controlplane.core.config.pools import Pool, Scheduler
from det_controlplane.core.config.telemetry import Telemetry
from det_controlplane.core.problems import Problem

TWO_POOLS = """
resource_manager:
  type: agent
  scheduler: {type: fair_share}
  default_compute_resource_pool: gpu
  default_aux_resource_pool: cpu
resource_pools:
  - pool_name: gpu
    agent_reconnect_wait: 10m
    scheduler: {type: priority, preemption: true, default_priority: 50}
    provider: {type: aws, region: us-east-1, max_instances: 3, max_idle_agent_period: 5m}
  - pool_name: cpu
    max_cpu_containers_per_agent: 7
    task_container_defaults: {startup_hook: "pip install x", image: "python:3.11"}
task_container_defaults: {shm_size_bytes: 1g, environment_variables: [A=1]}
checkpoint_storage: {type: shared_fs, host_path: /c}
security: {initial_user_password: "secret"}
"""


def problems(text: Any) -> dict[str, str]:
    with pytest.raises(InvalidConfig) as error:
        load_cluster(text)
    return {problem.path: problem.message for problem in error.value.problems}


def pool(config: ClusterConfig, name: str) -> Pool:
    matching_pool = config.pool(name)
    assert matching_pool is not None
    return matching_pool


def test_empty_configuration_has_one_default_pool() -> None:
    config = load_cluster("")
    assert config == ClusterConfig()
    assert [p.pool_name for p in config.resource_pools] == ["default"]
    assert config.scheduler_of("default") == Scheduler("priority", False, 42, "best", False)
    assert (config.port, config.launch_error, config.notebook_timeout) == (8080, True, None)


def test_a_pool_overrides_the_scheduler_of_the_resource_manager() -> None:
    config = load_cluster(TWO_POOLS)
    assert config.scheduler_of("gpu") == Scheduler("priority", True, 50)
    assert config.scheduler_of("cpu").type == "fair_share"


def test_accepts_priority_and_preemption_at_the_top_level() -> None:
    config = load_cluster({"default_priority": 10, "preemption": True})
    assert config.scheduler_of("default") == Scheduler("priority", True, 10)


def test_accepts_scheduler_at_the_top_level_as_before_0_15_5() -> None:
    config = load_cluster({"scheduler": {"type": "round_robin", "fitting_policy": "worst"}})
    assert config.scheduler_of("default") == Scheduler("round_robin", fitting_policy="worst")


def test_accepts_durations_and_sizes_with_units() -> None:
    config = load_cluster(TWO_POOLS)
    assert pool(config, "gpu").agent_reconnect_wait == 600.0
    assert pool(config, "cpu").agent_reconnect_wait == 25.0
    assert config.task_container_defaults.shm_size_bytes == 1024**3


def test_reads_reserved_ports() -> None:
    assert load_cluster("reserved_ports: [29400, 12350]").reserved_ports == {12350, 29400}


@pytest.mark.parametrize("given", ["29400", "[0]", "[ssh]", "[70000]"])
def test_rejects_invalid_reserved_ports(given: str) -> None:
    with pytest.raises(InvalidConfig, match="whole numbers from 1 to 65535"):
        load_cluster(f"reserved_ports: {given}")


def test_provider_contains_the_settings_of_its_cloud() -> None:
    provider = pool(load_cluster(TWO_POOLS), "gpu").provider
    assert provider is not None
    assert (provider.type, provider.min_instances, provider.max_instances) == ("aws", 0, 3)
    assert provider.max_idle_agent_period == 300.0
    assert provider.settings["region"] == "us-east-1"


def test_pool_without_task_defaults_uses_those_of_the_cluster() -> None:
    config = load_cluster(TWO_POOLS)
    assert pool(config, "gpu").task_container_defaults == config.task_container_defaults
    own = pool(config, "cpu").task_container_defaults
    assert own is not None
    assert own.startup_hook == "pip install x"


def test_the_pool_is_chosen_by_name_or_by_the_need_for_slots() -> None:
    config = load_cluster(TWO_POOLS)
    assert config.pool_for("", 2) is config.pool("gpu")
    assert config.pool_for("", 0) is config.pool("cpu")
    assert config.pool_for("cpu", 4) is config.pool("cpu")
    message = config.pool_for("tpu", 1)
    assert isinstance(message, Problem)
    assert "'tpu' does not exist; this cluster has: gpu, cpu" in message.message


def test_a_single_pool_of_any_name_is_the_default() -> None:
    config = load_cluster({"resource_pools": [{"pool_name": "only"}]})
    assert config.pool_for("", 1) is config.pool_for("", 0) is config.pool("only")


def test_keys_of_determineds_master_are_accepted_and_reported() -> None:
    config = load_cluster({"db": {"host": "x"}, "telemetry": {"enabled": False}})
    assert config.ignored == ("db", "telemetry.enabled")


def test_collector_of_telemetry_is_off_unless_enabled() -> None:
    section = {"otel_endpoint": "http://collector:4318/"}
    assert load_cluster({"telemetry": section}).telemetry == Telemetry()
    telemetry = load_cluster({"telemetry": {**section, "otel_enabled": True}}).telemetry
    assert telemetry == Telemetry("http://collector:4318", "http://collector:4318")


@pytest.mark.parametrize(
    ("telemetry", "path", "said"),
    [
        ({"otel_enabled": True}, "telemetry.otel_endpoint", "is required with otel_enabled"),
        ({"otel_endpoint": "localhost:4317"}, "telemetry.otel_endpoint", "usually port 4318"),
        (
            {"otel_endpoint": "collector:4318"},
            "telemetry.otel_endpoint",
            "has no scheme: write http://collector:4318, or https://collector:4318",
        ),
        (
            {"otel_task_endpoint": "//c:1"},
            "telemetry.otel_task_endpoint",
            "has no scheme: write http://c:1,",
        ),
        ({"otel_endpoint": "ftp://x"}, "telemetry.otel_endpoint", "as http://collector:4318"),
        ({"otel_endpoint": "http://x:y"}, "telemetry.otel_endpoint", "as http://collector:4318"),
        ({"otel_headers": {"a": 1}}, "telemetry.otel_headers", "must contain texts"),
        ({"otel": 1}, "telemetry.otel", "is unknown"),
    ],
)
def test_wrong_telemetry_is_refused_with_the_remedy(
    telemetry: dict[str, Any], path: str, said: str
) -> None:
    with pytest.raises(InvalidConfig) as error:
        load_cluster({"telemetry": telemetry})
    (problem,) = error.value.problems
    assert problem.path == path
    assert said in problem.message


@pytest.mark.parametrize(
    ("raw", "path", "said"),
    [
        ({"prot": 1}, "prot", "did you mean 'port'?"),
        ({"port": 0}, "port", "from 1 to 65535"),
        ({"port": "8080"}, "port", "not '8080'"),
        ({"launch_error": "no"}, "launch_error", "must be true or false"),
        ({"notebook_timeout": "soon"}, "notebook_timeout", "25s, 10m or 1h30m"),
        ({"security": []}, "security", "must be an object"),
        ({"log": {"level": "loud"}}, "log.level", "must be one of trace"),
        (
            {"resource_manager": {"type": "kubernetes"}},
            "resource_manager.type",
            "must be one of agent",
        ),
        (
            {"resource_manager": {"scheduler": {"type": "fifo"}}},
            "resource_manager.scheduler.type",
            "priority",
        ),
        ({"resource_pools": {}}, "resource_pools", "must be a list"),
        ({"resource_pools": [{}]}, "resource_pools[0].pool_name", "is required"),
        (
            {"resource_pools": [{"pool_name": "a"}, {"pool_name": "a"}]},
            "resource_pools",
            "'a' twice",
        ),
        (
            {"resource_pools": [{"pool_name": "a"}, {"pool_name": "b"}]},
            "resource_manager.default_compute_resource_pool",
            "is required; the pools are a, b",
        ),
        (
            {"resource_manager": {"default_aux_resource_pool": "x"}},
            "resource_manager.default_aux_resource_pool",
            "'x' is not one of the pools: default",
        ),
        (
            {
                "resource_pools": [
                    {"pool_name": "a", "provider": {"type": "aws", "min_instances": 9}}
                ]
            },
            "resource_pools[0].provider.min_instances",
            "(9) is more than max_instances (5)",
        ),
        ({"checkpoint_storage": {"host_path": "/x"}}, "checkpoint_storage.type", "is required"),
        ({"checkpoint_storage": {"type": "s3"}}, "checkpoint_storage.bucket", "is required for s3"),
        (
            {"task_container_defaults": {"shm_size": 1}},
            "task_container_defaults.shm_size",
            "did you mean",
        ),
        (
            {"retention_policy": {"log_retention_days": -2}},
            "retention_policy.log_retention_days",
            "-1",
        ),
    ],
)
def test_rejects_wrong_key_with_its_path(raw: dict[str, Any], path: str, said: str) -> None:
    assert said in problems(raw)[path]


def test_all_problems_are_reported_together() -> None:
    assert set(problems("prot: 1\nport: x\nlog: {levle: info}")) == {"prot", "port", "log.levle"}


def test_syntax_error_names_the_document() -> None:
    with pytest.raises(
        InvalidConfig, match="invalid cluster configuration: not valid YAML: line 2"
    ):
        load_cluster("a: [")


def test_experiment_uses_task_defaults_and_priority_of_its_pool() -> None:
    config = load_cluster(TWO_POOLS)
    raw = {"entrypoint": "x", "searcher": {"name": "single", "metric": "l"}}
    resolved_config = resolve(raw, sources_of(config, pool(config, "gpu")), name="n", seed=1).config
    assert resolved_config.resources.priority == 50
    assert resolved_config.resources.shm_size == 1024**3
    assert resolved_config.environment.environment_variables.cuda == ("A=1",)
    assert resolved_config.preemption_timeout == 3600
    on_cpu = resolve(raw, sources_of(config, pool(config, "cpu")), name="n", seed=1).config
    assert on_cpu.resources.priority is None
    assert on_cpu.environment.image.rocm == "python:3.11"


def test_rejects_invalid_task_defaults_at_startup() -> None:
    with pytest.raises(InvalidConfig) as error:
        load_checked(
            {
                "task_container_defaults": {
                    "bind_mounts": [{"host_path": "x", "container_path": "/x"}]
                },
                "checkpoint_storage": {"type": "s3", "bucket": "b", "prefix": "a/../b"},
            }
        )
    assert {problem.path for problem in error.value.problems} == {
        "task_container_defaults.bind_mounts[0].host_path",
        "checkpoint_storage.prefix",
    }


@pytest.mark.parametrize("text", ["", TWO_POOLS])
def test_valid_configuration_has_no_problems(text: str) -> None:
    assert load_checked(text) == load_cluster(text)


def test_reading_the_configuration_does_not_import_pydantic() -> None:
    code = "import sys; from det_controlplane.core.config import load_cluster; load_cluster({'port': 1}); "
    code += "sys.exit('pydantic' in sys.modules or 'yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_document_of_a_configuration_loads_as_the_same_configuration() -> None:
    config = load_cluster("""
resource_manager: {scheduler: {type: fair_share}, default_compute_resource_pool: a, default_aux_resource_pool: b}
resource_pools:
  - {pool_name: a, description: GPUs, agent_reconnect_wait: 1m}
  - {pool_name: b, scheduler: {type: round_robin}, task_container_defaults: {image: x, devices: [{host_path: /d}]}}
task_container_defaults: {environment_variables: [A=1], force_pull_image: true}
checkpoint_storage: {type: shared_fs, host_path: /c}
security:
  initial_user_password: ''
  authz: {type: rbac}
  audit_retention_days: 90
  oidc: {issuer: 'https://id.example.com', client_id: det, client_secret: s, domains: [example.com]}
webhooks: {signing_key: k, base_url: 'https://det.example.com', allow_private_targets: true}
reserved_ports: [7, 5]
notebook_timeout: 10m
retention_policy: {log_retention_days: 3, schedule: 1h}
log: {level: debug}
""")
    written = json.loads(json.dumps(document(config)))
    assert load_cluster(written) == config
    assert written["reserved_ports"] == [5, 7]


def test_the_document_names_the_settings_of_a_provider() -> None:
    provider = {"type": "aws", "region": "us-east-1", "max_idle_agent_period": "5m"}
    config = load_cluster({"resource_pools": [{"pool_name": "default", "provider": provider}]})
    (pool,) = document(config)["resource_pools"]
    expected = {"region": "us-east-1", "max_idle_agent_period": 300.0, "max_instances": 5}
    assert expected.items() <= pool["provider"].items()
