"""The files in the directory of a local cluster, and the lock of the process that runs it."""

import fcntl
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import IO, Any, TypeVar

T = TypeVar("T")
_LARGE_LOG = 16 * 1024 * 1024
BACKUP, RESTORE = "backup", "restore"
# Another process that has locked the directory does this with it.
ACTIVITIES = {
    BACKUP: "writes a backup of this cluster",
    RESTORE: "restores a backup into this directory",
}
_RESTORING = re.compile(r"\.(.+)\.[0-9a-f]{8}\.restoring")


@dataclass(frozen=True, slots=True)
class LocalAgent:
    name: str
    pool: str = "default"
    slots: str = "auto"  # as `det-agent run --slots` takes them
    runtime: str = "auto"
    in_database: bool = False  # its pool is in the database and not in the configuration


@dataclass(frozen=True, slots=True)
class Desired:
    """The desired state of a local cluster. With a `master_url`, only agents that work for a cluster elsewhere."""

    cluster_name: str
    host: str
    port: int
    database_url: str = ""  # empty: our own server
    master_url: str = ""
    agents: tuple[LocalAgent, ...] = field(default_factory=tuple)
    tls_cert: str = ""  # files in PEM; empty: plain HTTP
    tls_key: str = ""
    master_cert_sha256: str = (
        ""  # address of the cluster for other machines, if the certificate is self-signed
    )

    @property
    def url(self) -> str:
        scheme = "https" if self.tls_cert else "http"
        return self.master_url or f"{scheme}://{_reachable(self.host)}:{self.port}"

    def with_agent(self, agent: LocalAgent) -> "Desired":
        others = tuple(a for a in self.agents if a.name != agent.name)
        return replace(self, agents=(*others, agent))

    def without_agent(self, name: str) -> "Desired":
        return replace(self, agents=tuple(a for a in self.agents if a.name != name))


@dataclass(frozen=True, slots=True)
class Secrets:
    bootstrap_token: str
    objects_secret: str
    secrets_key: str = field(default_factory=lambda: secrets.token_urlsafe(32))


class NewerFiles(Exception):
    """A newer version wrote a file of the cluster with keys that this version does not know."""


class LocalFiles:
    """Every path of a local cluster. Only this user may look into the directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.expanduser().absolute()
        self.database = self.folder / "database"
        self.objects = self.folder / "objects"
        self.checkpoints = self.folder / "checkpoints"
        self.logs = self.folder / "logs"
        self.cluster_config = self.folder / "cluster.yaml"
        self.token = self.folder / "bootstrap.token"
        self.tls_cert = self.folder / "tls" / "cert.pem"
        self.tls_key = self.folder / "tls" / "key.pem"
        self._desired = self.folder / "cluster.json"
        self._report = self.folder / "processes.json"
        self._secrets = self.folder / "secrets.json"
        self._untold = self.folder / "first.password"
        self._schema = self.folder / "schema.revision"
        self._lock = self.folder / "supervisor.lock"

    def make(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.objects, self.checkpoints, self.logs):
            folder.mkdir(exist_ok=True)

    def agent_state(self, name: str) -> Path:
        return self.folder / "agents" / name

    def log(self, name: str) -> Path:
        """Return the path of a process's log; a large one is set aside first."""
        path = self.logs / f"{name}.log"
        if path.exists() and path.stat().st_size > _LARGE_LOG:
            path.replace(path.with_suffix(".log.1"))
        return path

    def has_cluster(self) -> bool:
        return self._desired.exists()

    def desired(self) -> Desired:
        raw = json.loads(self._desired.read_text())
        agents = tuple(_read(self._desired, LocalAgent, a) for a in raw.pop("agents"))
        return _read(self._desired, Desired, {**raw, "agents": agents})

    def write_desired(self, desired: Desired) -> None:
        _write(self._desired, asdict(desired))

    def report(self) -> dict[str, Any]:
        """Return the supervisor's last report about its processes."""
        try:
            return dict(json.loads(self._report.read_text()))
        except (FileNotFoundError, ValueError):
            return {}

    def write_report(self, report: Mapping[str, Any]) -> None:
        _write(self._report, report)

    def forget_schema(self) -> None:
        self._schema.unlink(missing_ok=True)

    def has_secrets(self) -> bool:
        return self._secrets.exists()

    def read_secrets(self) -> Secrets:
        return _read(self._secrets, Secrets, json.loads(self._secrets.read_text()))

    def schema(self) -> str:
        """Return the newest revision to which any version may have migrated the database, or '' if unknown."""
        try:
            return self._schema.read_text().strip()
        except FileNotFoundError:
            return ""

    def write_schema(self, revision: str) -> None:
        _write_text(self._schema, revision + "\n")

    def secrets(self, bootstrap_token: str = "") -> Secrets:
        """Return the secrets, made once. A given token, of a cluster elsewhere, replaces the old one."""
        if self.has_secrets():
            values = self.read_secrets()
        else:
            values = Secrets(secrets.token_urlsafe(32), secrets.token_urlsafe(32))
        if bootstrap_token:
            values = replace(values, bootstrap_token=bootstrap_token)
        _write(self._secrets, asdict(values))
        _write_text(self.token, values.bootstrap_token + "\n")
        return values

    def unprinted_password(self) -> str | None:
        """Return the first password of the built-in accounts until it has been printed."""
        try:
            return self._untold.read_text()
        except FileNotFoundError:
            return None

    def store_unprinted_password(self, password: str) -> None:
        _write_text(self._untold, password)

    def delete_unprinted_password(self) -> None:
        self._untold.unlink(missing_ok=True)

    def settings(self) -> tuple[Path, ...]:
        """Return the files of the cluster besides the database and the objects; some of them may not exist."""
        tls = (self.tls_cert, self.tls_key)
        return (self._desired, self.cluster_config, self._secrets, self._untold, *tls)

    def hold(self, purpose: str = "") -> IO[str] | None:
        """Lock the directory until the file is closed or the process ends; return None if it is already locked."""
        holder = self._lock.open("a+")
        try:
            fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder.close()
            return None
        holder.truncate(0)
        holder.write(f"{os.getpid()} {purpose}")
        holder.flush()
        return holder

    def supervisor_pid(self) -> int | None:
        """Return the process that holds the directory: by its lock, which unlike a number in a file cannot be stale."""
        return self.holder()[0]

    def is_backed_up_now(self) -> bool:
        """Return whether a backup has locked the directory of a stopped cluster."""
        return self.holder()[1] == BACKUP

    def beside(self) -> Path:
        """Return a new directory in which a restore prepares this cluster before it gets its name."""
        return self.folder.with_name(f".{self.folder.name}.{secrets.token_hex(4)}.restoring")

    def restored_folder(self) -> Path | None:
        """Return the final directory of the restore to which this temporary directory belongs, or None."""
        name = _RESTORING.fullmatch(self.folder.name)
        return self.folder.with_name(name[1]) if name else None

    def holder(self) -> tuple[int | None, str]:
        """Return the process that has locked the directory, and its purpose."""
        if not self._lock.exists():
            return None, ""
        with self._lock.open("r") as holder:
            try:
                fcntl.flock(holder, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                pid, _, purpose = holder.read().partition(" ")
                return int(pid or 0) or None, purpose
        return None, ""


def default_folder(cluster_name: str) -> Path:
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "determined-serverless" / cluster_name


def running_clusters() -> list[str]:
    """Return the clusters that run in this user's own folders, by the name that finds them."""
    clusters = (LocalFiles(path) for path in default_folder("").glob("*"))
    running = (files for files in clusters if files.has_cluster() and files.supervisor_pid())
    return sorted(files.folder.name for files in running if _is_whole(files))


def stopped_clusters() -> Iterator[tuple[str, str]]:
    """Yield the names and addresses of this user's clusters that do not run."""
    for path in sorted(default_folder("").glob("*")):
        files = LocalFiles(path)
        if files.has_cluster() and not files.supervisor_pid() and _is_whole(files):
            with suppress(NewerFiles):
                yield path.name, files.desired().url


def _is_whole(files: LocalFiles) -> bool:
    """Return False for a directory with agents of a cluster on another machine."""
    try:
        return not files.desired().master_url
    except NewerFiles:
        return True


def _reachable(host: str) -> str:
    return "127.0.0.1" if host in ("", "0.0.0.0") else host


def _read(path: Path, kind: type[T], values: Mapping[str, Any]) -> T:
    names = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(values.keys() - names)
    if unknown:
        raise NewerFiles(
            f"a newer version wrote {path.name}, with {unknown[0]!r}: install that version"
        )
    return kind(**values)


def _write(path: Path, content: Mapping[str, Any]) -> None:
    _write_text(path, json.dumps(content, indent=2) + "\n")


def _write_text(path: Path, text: str) -> None:
    fresh = path.with_suffix(path.suffix + ".new")
    fresh.touch(mode=0o600)
    fresh.write_text(text)
    fresh.replace(path)
