"""The script that makes a rented machine an agent. It holds no secret: the machine proves itself to the cluster."""

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import catalog

# The package of the agent if the cluster has no wheel.
DEFAULT_PACKAGE = "determined-serverless"
# Libraries that the agent imports or mounts into tasks. With the cluster's own wheel, a machine installs only these.
# The package also requires a database, a server and cryptography for the control plane.
AGENT_LIBRARIES = (
    "pyyaml", "pathspec", "docker", "websockets", "google-re2", "boto3", "appdirs", "argcomplete", "filelock",
    "gitpython", "lomond", "packaging", "python-dateutil", "pytz", "requests", "ruamel.yaml", "tabulate", "termcolor",
    "tqdm",
)  # fmt: skip
VENV = "/opt/determined/venv"
_SAYS = "determined-boot: "
# The text before the reason in the log of an agent with a refused or unanswered join.
_AGENT_WAITS = "trying again: "
_MOST_WORDS = 300
# By these an operator chooses the slots of machines, or how many of them there are.
_SLOT_OPTIONS = frozenset(("slots", "slot_type", "artificial_slots"))
_COUNTING_OPTIONS = _SLOT_OPTIONS | {"visible_gpus", "exclude_gpus"}


@dataclass(frozen=True, slots=True)
class Boot:
    """Hold the facts that a machine needs to join its cluster."""

    cluster_id: str
    master_url: str
    pool: str
    provider: str
    package: str = DEFAULT_PACKAGE
    constraints: str = ""  # address of the versions of its libraries; empty for the newest
    libraries: tuple[
        str, ...
    ] = ()  # libraries that the agent needs; empty: all requirements of the package
    silence_limit_s: float = (
        1800.0  # without the cluster and without work, the machine switches itself off
    )
    startup_script: str = ""  # the operator's, before everything else
    last_script: str = ""  # the operator's, before the agent starts
    images: tuple[str, ...] = ()  # images that the machine pulls while the agent starts
    agent_config: Mapping[str, Any] = field(default_factory=dict)  # further options of the agent
    aws_role_arn: str = ""  # the role of AWS that a machine on Google Cloud gives its tasks
    google_credentials: Mapping[str, Any] = field(default_factory=dict)  # and the other way round
    has_gpus: bool = (
        False  # by its type: a machine that shows none must not join with its processor
    )


def agent_options(boot: Boot) -> dict[str, Any]:
    """Return the options of the agent on the machine. They hold no secret."""
    shows_gpus = _shows_gpus(boot)
    of_provider = catalog.agent_options(boot.provider)
    return {
        **({"slots": "cuda"} if shows_gpus else {}),
        **of_provider,
        **_roles_elsewhere(boot),
        **boot.agent_config,
        "master_url": boot.master_url,
        "resource_pool": boot.pool,
        "identity": of_provider.get("identity", boot.provider),
        "cluster_id": boot.cluster_id,
        "shutdown_after_silence": boot.silence_limit_s,
        "hooks": {"on_connection_lost": ["systemctl", "poweroff"]},
    }


def _shows_gpus(boot: Boot) -> bool:
    return boot.has_gpus and not _SLOT_OPTIONS & boot.agent_config.keys()


def user_data(boot: Boot) -> str:
    """Return the shell script that a cloud runs at the machine's first start."""
    options = agent_options(boot)
    return _SCRIPT.format(
        cluster=boot.cluster_id.replace("\n", " "),  # in a comment
        startup=boot.startup_script.rstrip() or ":",
        last=_LAST.format(script=boot.last_script.rstrip()) if boot.last_script.strip() else "",
        pulls=_PULLS.format(images=shlex.join(boot.images), venv=VENV) if boot.images else "",
        options=shlex.quote(json.dumps(options, indent=1, sort_keys=True)),
        installs="\n    ".join(_installs(boot)),
        gpus=_GPUS if _shows_gpus(boot) else "",
        venv=VENV,
    )


def _installs(boot: Boot) -> Iterator[str]:
    """Yield the commands that install the agent."""
    pip, package = f"{VENV}/bin/pip install -q", shlex.quote(boot.package)
    constraints = f"-c {shlex.quote(boot.constraints)} " if boot.constraints else ""
    if not boot.libraries:
        yield f"{pip} {constraints}{package}"
        return
    yield f"{pip} {constraints}{shlex.join(boot.libraries)}"
    yield f"{pip} --no-deps {package}"


def _roles_elsewhere(boot: Boot) -> dict[str, str]:
    credentials = json.dumps(boot.google_credentials) if boot.google_credentials else ""
    roles = {"aws_role_arn": boot.aws_role_arn, "google_credentials": credentials}
    return {name: value for name, value in roles.items() if value}


def has_own_slots(agent_config: Mapping[str, Any]) -> bool:
    """Return whether a machine may have other slots than its type, as the operator chose them."""
    return not _COUNTING_OPTIONS.isdisjoint(agent_config)


def last_step(console: str) -> str:
    """Return the step of the script that a console shows last, empty where it shows none."""
    return _split(console)[0]


def last_words(console: str) -> str:
    """Return the last lines of a console since that step: the error that it failed with, or why the agent waits."""
    last_line = next((line for line in reversed(_split(console)[1]) if line), "")
    last_line = _message(last_line)
    words = last_line.partition(_AGENT_WAITS)[2] or last_line
    return words if len(words) <= _MOST_WORDS else f"{words[:_MOST_WORDS]}…"


def _message(line: str) -> str:
    """Return the message of a line. The agent's log may be in JSON, with the time of the console in front."""
    _, brace, rest = line.partition("{")
    try:
        entry = json.loads(brace + rest)
    except ValueError:
        return line
    return str(entry["message"]) if isinstance(entry, dict) and "message" in entry else line


def _split(console: str) -> tuple[str, list[str]]:
    """Return the last step that began, and the lines after it, up to its failure: then the machine switches off."""
    step, has_failed = "", False
    after: list[str] = []
    for line in console.splitlines():
        _, is_step, name = line.partition(_SAYS)
        if is_step:
            has_failed = name.startswith("failed ")
            if not has_failed:
                step, after = name.strip(), []
        elif not has_failed:
            after.append(line.strip())
    return step, after


_LAST = """step "container startup script of the pool"
(
{script}
)

"""
# The agent starts meanwhile, and its output comes before the end of the console. A task pulls missing images itself.
# An image may have an agent of an earlier release, which has no command `pull`.
_PULLS = """step "pulling images, beside the agent"
setsid bash -c 'for image; do
    {venv}/bin/det-agent pull "$image" || docker pull -q "$image" || echo "$image could not be pulled"
done' images {images} < /dev/null > /var/log/determined-images.log 2>&1 &

"""
# Some images install NVIDIA's driver at their first start.
_GPUS = """step "waiting for the GPUs"
timeout 300 sh -c 'until nvidia-smi -L 2> /dev/null | grep -q GPU; do sleep 5; done' ||
    { echo "no GPU is visible: the image needs NVIDIA's driver, one that knows this GPU"; false; }
"""
# Each step prints its name: the console of a machine that never joins shows where it stopped.
_SCRIPT = """#!/bin/bash
# Makes this machine an agent of the Determined cluster {cluster}.
set -eu
exec > >(tee -a /var/log/determined-boot.log) 2>&1
export DEBIAN_FRONTEND=noninteractive
step() {{
    echo "determined-boot: $*"
    echo "$(date +%s.%N) $*" >> /run/determined-boot-steps || true
}}
# Where a step fails nothing will come of this machine: it ends, and leaves time to read its console.
failed() {{
    step "failed at line $1 with status $2"
    shutdown -h +2 "determined-boot failed; to keep this machine: shutdown -c" || true
}}
trap 'failed "$LINENO" "$?"' ERR
# The image's own first upgrade may hold apt's locks, and a mirror may fail for a moment.
apt() {{
    local pause
    for pause in 5 10 20 40 80; do
        apt-get -o DPkg::Lock::Timeout=600 "$@" && return
        step "apt-get $1 failed: again in $pause s"
        sleep "$pause"
    done
    apt-get -o DPkg::Lock::Timeout=600 "$@"
}}

step "startup script of the pool"
(
{startup}
)

step "configuration"
mkdir -p /etc/determined
printf '%s\\n' {options} > /etc/determined/agent.yaml

if ! command -v docker > /dev/null; then
    step "installing docker"
    apt update -q
    apt install -qy --no-install-recommends docker.io iptables
fi
{gpus}if command -v nvidia-smi > /dev/null && ! command -v nvidia-ctk > /dev/null; then
    step "installing the NVIDIA container toolkit"
    curl -fsSL --retry 5 https://nvidia.github.io/libnvidia-container/gpgkey |
        gpg --dearmor --yes -o /usr/share/keyrings/nvidia-container-toolkit.gpg
    echo "deb [signed-by=/usr/share/keyrings/nvidia-container-toolkit.gpg]" \\
        "https://nvidia.github.io/libnvidia-container/stable/deb/\\$(ARCH) /" \\
        > /etc/apt/sources.list.d/nvidia-container-toolkit.list
    apt update -q
    apt install -qy nvidia-container-toolkit
    nvidia-ctk runtime configure --runtime=docker
    systemctl restart docker
fi
if ! [ -x {venv}/bin/det-agent ]; then
    step "installing the agent"
    if ! python3 -c 'import ensurepip, venv' 2> /dev/null; then  # Debian has venv without ensurepip
        apt update -q
        apt install -qy --no-install-recommends python3 python3-venv
    fi
    python3 -m venv {venv}
    {installs}
fi

step "preparing the machine"
if {venv}/bin/det-agent machine-setup > /run/determined-machine-setup; then
    bash /run/determined-machine-setup
    systemctl start determined-scratch || step "no scratch space"
    [ ! -d /run/systemd/system ] || systemctl start docker || step "docker did not start again"
else
    step "the image has an agent of an earlier release, and keeps its own preparations: build it again"
    # Such images leave this to the script. On Compute Engine the address answers DNS, too: that passes.
    keep_out() {{
        iptables -C DOCKER-USER -d 169.254.169.254 "$@" 2> /dev/null ||
            iptables -I DOCKER-USER -d 169.254.169.254 "$@"
    }}
    keep_out -j DROP && keep_out -p tcp --dport 53 -j RETURN && keep_out -p udp --dport 53 -j RETURN ||
        step "no chain DOCKER-USER: containers may reach the metadata service"
fi
if [ -d /run/systemd/system ] && ! systemctl -q is-active chrony && ! systemctl -q is-active systemd-timesyncd; then
    step "installing chrony"
    apt update -q
    apt install -qy --no-install-recommends chrony
fi

{last}{pulls}step "starting the agent"
if [ -d /run/systemd/system ]; then
    [ -f /etc/systemd/system/det-agent.service ] ||
        {venv}/bin/det-agent systemd-unit > /etc/systemd/system/det-agent.service
    systemctl daemon-reload
    systemctl enable --now det-agent
else
    DET_CONFIG_FILE=/etc/determined/agent.yaml setsid {venv}/bin/det-agent run &
fi
step "done"
"""
