"""Options from flags, environment and file, in this order."""

from pathlib import Path
from typing import Any

import pytest
from det_agent.main import main
from det_agent.settings import BadSettings, Settings, load

MASTER = {"DET_MASTER_URL": "http://cluster:8080"}


def of_file(
    tmp_path: Path, text: str, environ: dict[str, str] | None = None, **flags: Any
) -> Settings:
    path = tmp_path / "agent.yaml"
    path.write_text(text)
    return load({"config_file": str(path), **flags}, environ or {})


def test_flags_override_environment_which_overrides_the_file(tmp_path: Path) -> None:
    text = "master_url: http://file\nagent_id: from-file\nresource_pool: from-file\nvisible_gpus: '3'\n"
    environ = {"DET_AGENT_ID": "from-env", "DET_RESOURCE_POOL": "from-env"}
    options = of_file(tmp_path, text, environ, agent_id="from-flag")
    assert (options.agent_id, options.resource_pool, options.visible_gpus) == (
        "from-flag",
        "from-env",
        "3",
    )


def test_accepts_determineds_configuration_keys(tmp_path: Path) -> None:
    text = """
master_host: m.example
security: {tls: {enabled: true, skip_verify: true, master_cert: /etc/ca.pem}}
artificial_slots: 4
container_runtime: docker
container_auto_remove_disabled: true
hooks: {on_connection_lost: [/sbin/poweroff, now]}
http_proxy: http://proxy:3128
log: {level: debug, color: false}
"""
    options = of_file(tmp_path, text)
    assert options.master_url == "https://m.example:8443"
    assert options.trust == {"cert_file": "/etc/ca.pem", "verify": False, "fingerprint": None}
    assert options.slots == "artificial:4"
    assert options.runtime == "docker"
    assert options.keep_exited
    assert options.on_connection_lost == ("/sbin/poweroff", "now")
    assert options.proxies["HTTP_PROXY"] == options.proxies["http_proxy"] == "http://proxy:3128"
    assert options.log_level == "debug"


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({"DET_MASTER_HOST": "m"}, "http://m:8080"),
        ({"DET_MASTER_HOST": "m", "DET_MASTER_PORT": "80"}, "http://m:80"),
        ({"DET_MASTER_HOST": "m", "DET_SECURITY_TLS_ENABLED": "true"}, "https://m:8443"),
        ({"DET_MASTER_URL": "https://x.example/api/"}, "https://x.example/api"),
    ],
)
def test_cluster_address_comes_from_url_or_host_and_port(environ: dict[str, str], url: str) -> None:
    assert load({}, environ).master_url == url


def test_accepts_old_and_short_variable_names() -> None:
    options = load(
        {}, {**MASTER, "DET_POOL": "gpus", "DET_RUNTIME": "process", "DET_GATEWAY_PORT": "9999"}
    )
    assert (options.resource_pool, options.runtime, options.bind_port) == ("gpus", "process", 9999)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("master_hots: m", "did you mean master_host"),
        ("master_url: ftp://x", "http://"),
        ("agent_id: a", "master_url is missing"),
        ("master_url: http://m\nmaster_port: many", "master_port: 'many' is not a int"),
        ("master_url: http://m\ncontainer_runtime: podman", "auto, docker, process"),
        ("master_url: http://m\non_stop: explode", "leave, kill"),
        ("master_url: http://m\non_rebalance: wait", "leave, stay"),
        ("- a list", "name: value"),
        ("a: [", "cannot read"),
    ],
)
def test_error_names_the_invalid_option(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(BadSettings) as error:
        of_file(tmp_path, text)
    assert complaint in str(error.value)


def test_command_exits_with_2_for_invalid_options(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "--slots", "cpu"]) == 2
    assert "master_url is missing" in capsys.readouterr().err
