"""`det deploy local`: a whole cluster on this machine, without Docker and without PostgreSQL installed."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from det_controlplane.core.problems import InvalidConfig
from det_controlplane.db.engine.revisions import HEAD
from det_controlplane.entry.local import bundle, certificate, client, data_version, plan, rented
from det_controlplane.entry.local import status as states
from det_controlplane.entry.local.errors import (
    CONFLICT,
    FAILED,
    NOT_FOUND,
    OK,
    USAGE,
    LocalError,
)
from det_controlplane.entry.local.files import (
    BACKUP,
    RESTORE,
    Desired,
    LocalAgent,
    LocalFiles,
    NewerFiles,
    default_folder,
    running_clusters,
)

_STOP_S = 60.0


def main(action: str, args: Any) -> int:
    """Run an action: `args` has the flags of `det deploy local ACTION` as attributes; absent ones take defaults."""
    actions = {
        "cluster-up": cluster_up,
        "cluster-down": cluster_down,
        "master-up": master_up,
        "master-down": cluster_down,
        "agent-up": agent_up,
        "agent-down": agent_down,
        "logs": logs,
        "status": status,
        "support-bundle": support_bundle,
        "backup": backup,
        "restore": restore,
    }
    action = action.replace("_", "-")
    if action not in actions:
        _say(f"det deploy local: unknown action {action}; one of {', '.join(actions)}")
        return USAGE
    try:
        return actions[action](args)
    except LocalError as e:
        _say(str(e))
        return e.code
    except (InvalidConfig, plan.BadPlan, data_version.UnusableData, NewerFiles) as e:
        _say(str(e))
        return FAILED
    except KeyboardInterrupt:
        _say("interrupted")
        return 130


_FLAGS_FOR_A_START = {
    "master_config_path": "--config",
    "storage_host_path": "--storage-host-path",
    "initial_user_password": "--initial-user-password",
    "master_port": "--master-port",
    "host": "--host",
    "tls_cert": "--tls-cert",
    "db": "--db",
    "agents": "--agents",
    "slots_per_agent": "--slots-per-agent",
    "container_runtime": "--container-runtime",
}


def _flags_for_a_start(args: Any) -> list[str]:
    """Return the flags that were given and that only a cluster which starts looks at."""
    names = _FLAGS_FOR_A_START.items()
    return [flag for name, flag in names if getattr(args, name, None) is not None]


def cluster_up(args: Any) -> int:
    files = _files(args)
    _require_unused(files)
    if files.supervisor_pid() is not None:
        _say(f"the cluster already runs at {files.desired().url}")
        if unused := _flags_for_a_start(args):
            changes = "changes" if len(unused) == 1 else "change"
            _say(f"{', '.join(unused)} {changes} nothing while it runs: `cluster-down` first")
        _print_password_once(files)
        return OK
    is_new = not files.folder.exists()
    data_version.require_usable_folder(files)
    try:
        return _start(files, args)
    except BaseException:  # also Ctrl-C, so that a first start leaves no half of a directory
        if is_new and not _has_begun(files):
            shutil.rmtree(files.folder, ignore_errors=True)
        raise


def _require_unused(files: LocalFiles) -> None:
    """Refuse a directory that a backup or a restore uses, or that a restore left behind when it was killed."""
    pid, purpose = files.holder()
    target = files.restored_folder()
    if purpose == BACKUP:
        raise LocalError(
            f"process {pid} writes a backup of this cluster, which is down: wait until it has ended",
            CONFLICT,
        )
    if purpose == RESTORE:
        place = target or files.folder
        raise LocalError(
            f"process {pid} restores a backup into this directory: wait until it has ended,"
            f" then use --data-dir {place}",
            CONFLICT,
        )
    if target is not None and files.folder.exists():
        raise LocalError(
            f"{files.folder} is left over from a restore that was cut off: delete it, and run `restore` again",
            CONFLICT,
        )


def _has_begun(files: LocalFiles) -> bool:
    """Return whether a start reached the point at which the folder has a database and its secrets."""
    return files.database.exists() or (files.has_cluster() and bool(files.desired().database_url))


def _start(files: LocalFiles, args: Any) -> int:
    data_version.require_known_files(files)
    if getattr(args, "delete_db", False):
        if files.has_cluster():
            _say(f"warning: {plan.deletion_warning(files, {})}")
        plan.remove_data(files)
    data_version.require_known_schema(files)
    files.make()
    planned = plan.plan(files, args)
    for key in planned.ignored:
        _say(f"note: {key} of the configuration has no effect here")
    for warning in planned.warnings:
        _say(f"warning: {warning}")
    _make_certificate(files, planned.desired)
    files.write_desired(planned.desired)
    files.cluster_config.write_text(planned.config)
    # Store the revision before the API migrates: an older version then does not know it and checks the database.
    files.write_schema(HEAD)
    start = time.monotonic()
    # SIGKILL ends old agents but not their tasks, which the new agents continue.
    client.end_leftovers(files, signal.SIGKILL)
    if planned.password_is_random and planned.initial_password:
        files.store_unprinted_password(planned.initial_password)
    else:
        files.delete_unprinted_password()
    stay = bool(getattr(args, "foreground", False))
    _say(f"starting cluster {planned.desired.cluster_name} in {files.folder} …")
    daemon, agents = _bring_up(files, planned, detach=not stay)
    _say(f"the cluster is up after {time.monotonic() - start:.1f} s: {planned.desired.url}")
    for agent in agents:
        kind = "containers" if agent["runtime"] == "docker" else "processes"
        slots = "1 slot" if agent["slots"] == 1 else f"{agent['slots']} slots"
        _say(f"  {agent['id']}: {slots} in pool {agent['pool']}, runs {kind}")
    _say_next(files, planned)
    return _wait_in_foreground(files, daemon) if stay else OK


def _bring_up(
    files: LocalFiles, planned: plan.Plan, *, detach: bool
) -> tuple[subprocess.Popen[bytes], list[dict[str, Any]]]:
    """Start the daemon, and wait for the API and the agents; stop all of them where that fails or is interrupted."""
    try:
        daemon = _start_daemon(files, planned.initial_password, detach=detach)
        client.wait_until_up(files)
        return daemon, client.wait_until_joined(files, {a.name for a in planned.desired.agents})
    except client.NotUp as e:
        _stop(files)
        raise LocalError(str(e)) from e
    except KeyboardInterrupt:
        _say("interrupted: stopping what had started …")
        _stop(files)
        _say("the cluster is down; the same command starts it")
        raise


def master_up(args: Any) -> int:
    """Start a cluster without agents."""
    args.agents = 0
    return cluster_up(args)


def cluster_down(args: Any) -> int:
    files = _files(args)
    delete = getattr(args, "delete_db", False)
    if not files.has_cluster():
        raise _no_cluster_error(files)
    _require_unused(files)
    machines = client.rented(files)
    if delete:
        _say(f"warning: {plan.deletion_warning(files, client.records(files))}")
    _stop(files)
    if delete:
        plan.remove_data(files)
    note = (
        f"checkpoints stay in {files.checkpoints}"
        if delete
        else f"its data stays in {files.folder}"
    )
    _say(f"the cluster is down; {note}")
    for warning in rented.warnings_at_stop(machines, is_deleted=delete):
        _say(f"warning: {warning}")
    return OK


def agent_up(args: Any) -> int:
    """Start an agent of the cluster that runs here, or of a cluster elsewhere."""
    agent = plan.agent_of(args, f"det-agent-{socket.gethostname()}")
    files = _files(args)
    _require_unused(files)
    host = getattr(args, "master_host", None) or "localhost"
    if files.supervisor_pid() is None or not _is_this_machine(host):
        return _agent_of_another_cluster(args, agent, _elsewhere(args, host))
    files.write_desired(plan.with_agent(files, agent, client.pools(files)))
    _hang_up(files)
    return _wait_until_joined(files, agent)


def _elsewhere(args: Any, host: str) -> str:
    """Return the URL of a cluster on another machine; a fingerprint says that it speaks HTTPS."""
    if host.startswith(("http://", "https://")):
        return host.rstrip("/")
    scheme = "https" if getattr(args, "master_cert_sha256", None) else "http"
    return f"{scheme}://{host}:{getattr(args, 'master_port', None) or 8080}"


def _agent_of_another_cluster(args: Any, agent: LocalAgent, master_url: str) -> int:
    name = plan.cluster_name(args)
    data_dir = getattr(args, "data_dir", None)
    files = LocalFiles(Path(data_dir) if data_dir else default_folder(f"{name}-agents"))
    files.make()
    token = os.environ.get("DET_BOOTSTRAP_TOKEN", "")
    if not token and not files.has_cluster():
        raise LocalError(
            f"no bootstrap token for {master_url}: set DET_BOOTSTRAP_TOKEN to the content of"
            " bootstrap.token in the cluster's data directory",
            USAGE,
        )
    files.secrets(token)
    before = files.desired() if files.has_cluster() else Desired(name, "", 0)
    desired = Desired(
        name,
        "",
        0,
        master_url=master_url,
        agents=before.agents,
        master_cert_sha256=getattr(args, "master_cert_sha256", None) or "",
    ).with_agent(agent)
    files.write_desired(desired)
    if files.supervisor_pid() is None:
        _start_daemon(files, None, detach=True)
    else:
        _hang_up(files)
    _say(f"agent {agent.name} works for {master_url}; see {files.log('agent-' + agent.name)}")
    return OK


def agent_down(args: Any) -> int:
    name = getattr(args, "agent_name", None) or f"det-agent-{socket.gethostname()}"
    everyone = getattr(args, "all", False)
    cluster = plan.cluster_name(args)
    any_agent = False
    for files in (_files(args), LocalFiles(default_folder(f"{cluster}-agents"))):
        if not files.has_cluster():
            continue
        _require_unused(files)
        desired = files.desired()
        names = [a.name for a in desired.agents if everyone or a.name == name]
        for one in names:
            desired = desired.without_agent(one)
        if names:
            any_agent = True
            files.write_desired(desired)
            _hang_up(files)
            _say(f"stopped {', '.join(names)}")
    if not any_agent:
        raise LocalError(f"no agent {name!r} runs here; `det deploy local status` lists them", 3)
    return OK


def logs(args: Any) -> int:
    files = _files(args)
    if not files.has_cluster():
        raise _no_cluster_error(files)
    client.print_logs(files, follow=not getattr(args, "no_follow", False))
    return OK


def status(args: Any) -> int:
    files = _files(args)
    if not files.has_cluster():
        raise _no_cluster_error(files)
    return states.show(files)


def support_bundle(args: Any) -> int:
    files = _files(args)
    if not files.has_cluster():
        raise _no_cluster_error(files)
    print(bundle.write(files, Path(getattr(args, "output_dir", None) or ".")))
    _say(
        "it holds versions, the configuration without its secrets, and logs: look through them before you share it"
    )
    return OK


def backup(args: Any) -> int:
    from det_controlplane.entry.local import (
        backup as backups,
    )  # Alembic and the like, which no other action needs

    files = _files(args)
    if not files.has_cluster():
        raise _no_cluster_error(files)
    backups.write(
        files,
        Path(args.file),
        _say,
        with_checkpoints=not getattr(args, "without_checkpoints", False),
        force=getattr(args, "force", False),
    )
    return OK


def restore(args: Any) -> int:
    from det_controlplane.entry.local import restore as restores

    data_dir = getattr(args, "data_dir", None)
    folder = Path(data_dir) if data_dir else None
    restores.restore(Path(args.file), folder, getattr(args, "cluster_name", None), _say)
    return OK


def _no_cluster_error(files: LocalFiles) -> LocalError:
    names = running_clusters()
    hint = f"; running are: {', '.join(names)} (--cluster-name {names[0]})" if names else ""
    return LocalError(f"no local cluster in {files.folder}{hint}", NOT_FOUND)


def _files(args: Any) -> LocalFiles:
    data_dir = getattr(args, "data_dir", None)
    return LocalFiles(Path(data_dir) if data_dir else default_folder(plan.cluster_name(args)))


def _start_daemon(
    files: LocalFiles, initial_password: str | None, *, detach: bool
) -> subprocess.Popen[bytes]:
    """Start the daemon and wait until it is ready; return its process, which has ended if it detached."""
    reading, writing = os.pipe()
    # Servers that restart in a moment need their byte-code kept.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    if initial_password is not None:
        environment["DET_INITIAL_USER_PASSWORD"] = initial_password
    command = [sys.executable, "-m", "det_controlplane.entry.local.server"]
    command += ["--data-dir", str(files.folder), "--ready-fd", str(writing)]
    command += ["--detach"] if detach else []
    with files.log("supervisor").open("ab") as output:
        daemon = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            pass_fds=[writing],
            start_new_session=True,
            cwd=files.folder,
        )
    os.close(writing)
    with os.fdopen(reading, "r") as pipe:
        try:
            answer = pipe.readline().strip()
        except KeyboardInterrupt:
            # It can be stopped, with all that it started, once it says that it is ready.
            pipe.readline()
            raise
    if detach or answer != "ready":
        daemon.wait()
    if answer != "ready":
        reason = answer.removeprefix("failed: ") or client.tail(files.log("supervisor"))
        raise LocalError(f"the cluster did not start: {reason}")
    return daemon


def _wait_in_foreground(files: LocalFiles, daemon: subprocess.Popen[bytes]) -> int:
    """Stay in the foreground until Ctrl-C, or until the cluster is stopped elsewhere."""
    _say("press Ctrl-C to stop the cluster")
    try:
        return daemon.wait()
    except KeyboardInterrupt:
        _stop(files)
        daemon.wait()
        return OK


def _stop(files: LocalFiles) -> None:
    pid = files.supervisor_pid()
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        limit = time.monotonic() + _STOP_S
        while files.supervisor_pid() == pid:
            if time.monotonic() > limit:
                raise LocalError(f"process {pid} does not stop; see {files.log('supervisor')}")
            time.sleep(0.02)
    client.end_leftovers(files, signal.SIGTERM)


def _hang_up(files: LocalFiles) -> None:
    """Make the daemon read the desired processes again, by SIGHUP."""
    pid = files.supervisor_pid()
    if pid is not None:
        os.kill(pid, signal.SIGHUP)


def _wait_until_joined(files: LocalFiles, agent: LocalAgent) -> int:
    try:
        client.wait_until_joined(files, {agent.name})
    except client.NotUp as e:
        raise LocalError(str(e)) from e
    _say(f"agent {agent.name} has joined pool {agent.pool}")
    return OK


def _is_this_machine(host: str) -> bool:
    return host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", socket.gethostname())


def _say_next(files: LocalFiles, planned: plan.Plan) -> None:
    _print_password_once(files)
    _say("\nnext:")
    for line in _exports(files, planned.desired):
        _say(f"  export {line}")
    if planned.initial_password:
        _say("  det user login determined")
    _say("  det experiment create CONFIG.yaml MODEL_DIRECTORY -f")
    _print_remote_address(files, planned.desired)


def _print_password_once(files: LocalFiles) -> None:
    """Print the random first password once, also if an earlier start was interrupted before it printed the password."""
    password = files.unprinted_password()
    if password is not None:
        _say(f"\nusers admin and determined have the password: {password}")
        _say("it is shown only now; change it with `det user change-password`")
        files.delete_unprinted_password()


def _exports(files: LocalFiles, desired: Desired) -> list[str]:
    """Return the environment variables by which commands on this machine reach the cluster and trust it."""
    if _has_own_certificate(files, desired):
        return [f"DET_MASTER={desired.url}", f"DET_MASTER_CERT_FILE={desired.tls_cert}"]
    name = certificate.first_name(Path(desired.tls_cert)) if desired.tls_cert else ""
    return [f"DET_MASTER=https://{name}:{desired.port}" if name else f"DET_MASTER={desired.url}"]


def _has_own_certificate(files: LocalFiles, desired: Desired) -> bool:
    return desired.tls_cert == str(files.tls_cert)


def _make_certificate(files: LocalFiles, desired: Desired) -> None:
    if _has_own_certificate(files, desired) and not files.tls_cert.exists():
        certificate.make(files.tls_cert, files.tls_key, desired.host)


def _print_remote_address(files: LocalFiles, desired: Desired) -> None:
    """Print the address for other machines and the fingerprint of the certificate."""
    if not _has_own_certificate(files, desired):
        return
    host = certificate.best_name(desired.host)
    trusted = certificate.fingerprint(files.tls_cert)
    _say(
        f"\nother machines reach it at https://{host}:{desired.port}, where `det` asks once whether"
    )
    _say(f"to trust the certificate with the SHA-256 fingerprint\n  {trusted}")
    _say("an agent there:")
    _say("  export DET_BOOTSTRAP_TOKEN=...   # `det -u admin agent token create` makes one")
    _say(f"  det deploy local agent-up {host} --master-port {desired.port} \\")
    _say(f"    --master-cert-sha256 {trusted}")


def _say(line: str) -> None:
    print(line, file=sys.stderr)
