"""Facts about a host, and the checks that it must pass. `probe.sh` collects the facts on the host."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from det_cli.fleet.hosts import Host
from det_cli.fleet.ssh import HostFailed

OK, WARNING, FAILED = "ok", "warning", "failed"
# The agent with its libraries has 0.4 GB; during an upgrade two versions are installed.
_LEAST_KIB = 2 * 1024**2
_LITTLE_KIB = 20 * 1024**2
# Clouds accept signatures for five minutes. `det-agent doctor` has the same limits.
_ODD_CLOCK_S, _WRONG_CLOCK_S = 30.0, 240.0


@dataclass(frozen=True)
class Manifest:
    """The notes of an earlier `det agent join` on the host. They contain no secret."""

    cluster_id: str
    agent_id: str
    version: str
    wheel: str  # SHA-256
    config: str  # SHA-256
    service: str
    token_id: int


@dataclass(frozen=True)
class Facts:
    """The output of the probe."""

    values: Mapping[str, str]
    manifest: "Manifest | None" = None

    def text(self, name: str) -> str:
        return self.values.get(name, "")

    def has(self, name: str) -> bool:
        return bool(self.values.get(name))

    @property
    def has_foreign_agent(self) -> bool:
        """Return True if something else than `det agent join` configured an agent on the host."""
        return self.manifest is None and self.has("configured")


@dataclass(frozen=True)
class Finding:
    check: str
    verdict: str
    cause: str
    fix: str = ""


@dataclass(frozen=True)
class Cluster:
    """The cluster that the hosts join, as they reach it."""

    id: str
    url: str
    pools: tuple[str, ...] = field(default=())


def parse_facts(output: str) -> Facts:
    """Return the facts in the output of the probe. Lines of other programs, such as greetings, are ignored."""
    pairs = (line.split("\t", 1) for line in output.splitlines() if "\t" in line)
    values = {name: value.strip() for name, value in pairs}
    if "system" not in values:
        raise HostFailed(
            "its shell did not run the checks",
            "the login shell must be able to run `sh -s`; a forced command in authorized_keys prevents it",
        )
    return Facts(values, _manifest(values.get("joined", "")))


def _manifest(text: str) -> "Manifest | None":
    try:
        return Manifest(**json.loads(text))
    except (ValueError, TypeError):
        return None


def findings(host: Host, facts: Facts, cluster: Cluster) -> Iterator[Finding]:
    """Yield one finding for each requirement of an agent on the host."""
    yield _system(facts)
    yield _rights(facts)
    yield _service(host, facts)
    yield _python(host, facts)
    yield _engine(host, facts)
    yield _disk(facts)
    yield _gpus(host, facts)
    yield from _network(facts, cluster)
    yield _other_agent(facts, cluster)
    if cluster.pools and host.pool not in cluster.pools:
        yield Finding(
            "pool",
            FAILED,
            f"the cluster has no resource pool {host.pool!r}",
            f"use --pool or pool= with one of {', '.join(cluster.pools)}",
        )


def _system(facts: Facts) -> Finding:
    system, missing = (
        facts.text("system"),
        [n.partition(":")[2] for n in facts.values if n.startswith("missing:")],
    )
    if system != "Linux":
        return Finding("system", FAILED, f"{system} is not Linux", "agents run on Linux only")
    if missing:
        return Finding(
            "system",
            FAILED,
            f"there is no {', '.join(missing)}",
            "install the packages tar and util-linux",
        )
    return Finding("system", OK, f"Linux on {facts.text('machine')}")


def _rights(facts: Facts) -> Finding:
    user = facts.text("user")
    if facts.has("no_root"):
        return Finding(
            "rights",
            FAILED,
            f"{user} cannot run sudo without a password",
            "use user=root, or allow it: `USER ALL=(root) NOPASSWD: ALL` in /etc/sudoers.d",
        )
    return Finding("rights", OK, "root" if user == "root" else f"{user} with sudo")


def _service(host: Host, facts: Facts) -> Finding:
    if host.service == "process":
        return Finding(
            "service",
            WARNING,
            "the agent runs as a plain process and does not return after a reboot",
            "let the machine run `det agent join` or your own supervisor start it",
        )
    if not facts.has("systemd"):
        return Finding(
            "service",
            FAILED,
            "systemd does not run there",
            "write service=process to start the agent as a plain process; it does not return after a reboot",
        )
    return Finding("service", OK, "systemd")


def _python(host: Host, facts: Facts) -> Finding:
    if not facts.has("python"):
        old = facts.text("old_python")
        cause = f"{old} is too old" if old else f"there is no {host.python or 'python3'}"
        return Finding(
            "Python", FAILED, cause, "install Python 3.10 or newer, or name it with python="
        )
    version = facts.text("python_version")
    if facts.has("no_venv"):
        package = f"python{version.rpartition('.')[0]}-venv"
        return Finding(
            "Python",
            FAILED,
            f"{facts.text('python')} cannot make environments",
            f"install its venv module (on Debian and Ubuntu: `apt-get install {package}`)",
        )
    return Finding("Python", OK, f"{version} at {facts.text('python')}")


def _engine(host: Host, facts: Facts) -> Finding:
    if host.runtime == "process":
        return Finding("containers", OK, "not needed: tasks run as processes")
    if facts.has("engine"):
        return Finding("containers", OK, f"{facts.text('engine')} answers")
    silent = facts.text("silent_engine")
    cause = (
        f"{silent} is installed and does not answer" if silent else "there is no container engine"
    )
    start = "podman.socket" if silent == "Podman" else "docker"
    fix = f"run `systemctl enable --now {start}`" if silent else "install Docker or Podman"
    if host.runtime == "docker":
        return Finding("containers", FAILED, cause, f"{fix}, or write runtime=process")
    return Finding("containers", WARNING, f"{cause}: tasks run as processes", fix)


def _disk(facts: Facts) -> Finding:
    free = {
        n.partition(":")[2]: int(v)
        for n, v in facts.values.items()
        if n.startswith("free_kib:") and v.isdecimal()
    }
    if not free:
        return Finding("disk", WARNING, "its free space is unknown", "look at `df`")
    folder, least = min(free.items(), key=lambda item: item[1])
    cause = f"{least / 1024**2:.1f} GiB are free below {folder}"
    if least < _LEAST_KIB:
        return Finding(
            "disk", FAILED, cause, "the agent and its libraries need 2 GiB; free space there"
        )
    if least < _LITTLE_KIB:
        return Finding("disk", WARNING, cause, "images of GPU tasks are larger")
    return Finding("disk", OK, cause)


def _gpus(host: Host, facts: Facts) -> Finding:
    gpus = int(facts.text("gpus")) if facts.text("gpus").isdecimal() else 0
    wants_gpus = host.slots in ("", "auto", "cuda")
    if not wants_gpus:
        return Finding("GPUs", OK, f"slots={host.slots} chooses the slots")
    if gpus == 0 and (facts.has("nvidia_device") or host.slots == "cuda"):
        cause = (
            "it has an NVIDIA GPU that nvidia-smi does not show"
            if facts.has("nvidia_device")
            else "it has no GPU"
        )
        return Finding("GPUs", FAILED, cause, "install NVIDIA's driver, or write slots=cpu")
    if gpus and facts.has("engine") and host.runtime != "process" and not facts.has("gpu_toolkit"):
        return Finding(
            "GPUs",
            FAILED,
            f"containers cannot use its {gpus} GPUs",
            "install the NVIDIA Container Toolkit, run `nvidia-ctk runtime configure`, restart the engine",
        )
    return Finding(
        "GPUs", OK, f"{gpus} NVIDIA GPUs" if gpus else "none: one slot for the processor"
    )


def _network(facts: Facts, cluster: Cluster) -> Iterator[Finding]:
    if not facts.has("python"):
        return
    if facts.has("unreachable"):
        loopback = any(f"//{name}" in cluster.url for name in ("127.", "localhost", "[::1]"))
        fix = "check DNS, routes and firewalls from the host to the cluster"
        if loopback:
            fix = "give the address of the cluster for this host with --master-url"
        yield Finding(
            "cluster",
            FAILED,
            f"{cluster.url} does not answer there: {facts.text('unreachable')}",
            fix,
        )
        return
    if facts.text("cluster") != cluster.id:
        yield Finding(
            "cluster",
            FAILED,
            f"{cluster.url} is another cluster there",
            "give the address of the cluster for this host with --master-url",
        )
        return
    yield Finding("cluster", OK, f"{cluster.url} answers")
    ahead_s = float(facts.text("clock_ahead_s") or 0)
    cause = f"differs from the cluster's by {abs(ahead_s):.0f} s"
    verdict = (
        FAILED if abs(ahead_s) > _WRONG_CLOCK_S else WARNING if abs(ahead_s) > _ODD_CLOCK_S else OK
    )
    fix = "synchronise the clock (`timedatectl set-ntp true`)" if verdict != OK else ""
    yield Finding("clock", verdict, cause, fix)


def _other_agent(facts: Facts, cluster: Cluster) -> Finding:
    if facts.manifest is not None and facts.manifest.cluster_id != cluster.id:
        return Finding(
            "agent",
            FAILED,
            f"it is agent {facts.manifest.agent_id} of another cluster",
            "run `det agent join --remove` for that cluster first",
        )
    if facts.has_foreign_agent:
        return Finding(
            "agent",
            FAILED,
            "it has an agent that `det agent join` did not install",
            "give --take-over to replace its configuration in /etc/determined",
        )
    if facts.manifest is not None:
        state = "runs" if facts.has("active") else "does not run"
        return Finding("agent", OK, f"{facts.manifest.version} {state}")
    return Finding("agent", OK, "not installed")
