"""`det deploy local status`: the state of a local cluster, its processes, and the next step if something is wrong."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres
from det_controlplane.entry.local import certificate, client, plan
from det_controlplane.entry.local.errors import FAILED, NOT_FOUND, OK
from det_controlplane.entry.local.files import ACTIVITIES, LocalFiles, default_folder

_LITTLE_SPACE_GIB = 2.0
# A person waits for the answer. An API that is not frozen answers within milliseconds.
_ANSWER_S = 2.0


@dataclass(frozen=True, slots=True)
class State:
    """The state of a cluster in one sentence, its processes with their numbers, and the next steps."""

    sentence: str
    exit_code: int
    processes: Mapping[str, int | None]
    next_steps: tuple[str, ...] = ()


def show(files: LocalFiles) -> int:
    """Print the state; return the exit code of the command."""
    desired, state = files.desired(), _state(files)
    print(f"cluster   {desired.cluster_name}")
    print(f"state     {state.sentence}")
    print(f"url       {desired.url}")
    if desired.tls_cert:
        print(f"tls       {desired.tls_cert}")
        print(f"sha256    {certificate.fingerprint(Path(desired.tls_cert))}")
    print(f"data      {files.folder}")
    print(f"disk      {_space(files.folder)}")
    for name, pid in state.processes.items():
        print(f"process   {name} {pid or 'restarting'}")
    for step in state.next_steps:
        print(f"next      {step}")
    return state.exit_code


def _state(files: LocalFiles) -> State:
    supervisor, purpose = files.holder()
    if purpose:
        return State(f"down; process {supervisor} {ACTIVITIES[purpose]}", NOT_FOUND, {})
    return _without_supervisor(files) if supervisor is None else _with_supervisor(files)


def _without_supervisor(files: LocalFiles) -> State:
    processes = client.leftovers(files)
    if not processes:
        return State("down", NOT_FOUND, {})
    place = _place(files)
    steps = (
        f"`det deploy local cluster-up{place}` starts the cluster again; running tasks continue",
        f"`det deploy local cluster-down{place}` stops these processes and their tasks",
    )
    count = "a process" if len(processes) == 1 else f"{len(processes)} processes"
    return State(
        f"down: its supervisor ended, {count} of it still run", NOT_FOUND, processes, steps
    )


def _with_supervisor(files: LocalFiles) -> State:
    processes: dict[str, int | None] = files.report().get("processes", {})
    if files.desired().master_url:  # agents only, for a cluster elsewhere
        return State("up", OK, processes)
    answer = client.health(files, _ANSWER_S)
    if answer == 200:
        return State("up", OK, processes)
    problem, steps = _problem(files, processes, answer)
    return State(f"not available: {problem}", FAILED, processes, steps)


def _problem(
    files: LocalFiles, processes: Mapping[str, int | None], answer: int | None
) -> tuple[str, tuple[str, ...]]:
    """Return why a cluster with a supervisor does not serve, and the next steps."""
    pid, log = processes.get("api"), files.log("api")
    if answer is not None:
        log = EmbeddedPostgres(files.database).log if "postgres" in processes else log
        return "the API answers, its database does not", (f"see {log}",)
    if not pid:
        return "the API is restarting", (f"see {log}",)
    restart = f"`kill -9 {pid}` restarts the API; running tasks continue"
    return f"the API (process {pid}) does not answer within {_ANSWER_S:.0f} s", (
        f"see {log}",
        restart,
    )


def _place(files: LocalFiles) -> str:
    """Return the flags by which other commands find this cluster."""
    name = files.desired().cluster_name
    if files.folder != LocalFiles(default_folder(name)).folder:
        return f" --data-dir {files.folder}"
    return "" if name == plan.DEFAULT_NAME else f" --cluster-name {name}"


def _space(folder: Path) -> str:
    free = shutil.disk_usage(folder).free / 1024**3
    space = f"{free:.1f} GiB free"
    nearly_full = free < _LITTLE_SPACE_GIB
    return f"{space}: nearly full, free some before the database stops" if nearly_full else space
