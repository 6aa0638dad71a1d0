"""Keep sessions in a file that Determined's own client reads, too (docs/reference/compatibility.md#signing-in)."""

import contextlib
import json
import os
from typing import Any, Dict, Iterator, List, Optional

from determined.common.failures import Failure

VERSION = 2


def default_path() -> str:
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    folder = os.environ.get("DET_DEBUG_CONFIG_PATH") or os.path.join(config, "determined")
    return os.path.join(folder, "auth.json")


class TokenStore:
    """The tokens of a cluster in the file of all tokens; a write holds the lock and replaces the file."""

    def __init__(self, master: str, path: Optional[str] = None) -> None:
        self.master = master
        self.path = path or default_path()

    def token(self, username: str) -> Optional[str]:
        token = self._read().get("tokens", {}).get(username)
        return token if isinstance(token, str) else None

    def active_user(self) -> Optional[str]:
        name = self._read().get("active_user")
        return name if isinstance(name, str) else None

    def users(self) -> List[str]:
        return sorted(self._read().get("tokens", {}))

    def keep(self, username: str, token: str, *, activate: bool = False) -> None:
        with self._changing() as entry:
            entry.setdefault("tokens", {})[username] = token
            if activate:
                entry["active_user"] = username

    def drop(self, username: str) -> None:
        with self._changing() as entry:
            entry.get("tokens", {}).pop(username, None)

    def rename(self, username: str, renamed: str) -> None:
        """Keep the session of a user, which stays good, by the user's new name."""
        if username not in (*self.users(), self.active_user()):
            return
        with self._changing() as entry:
            tokens = entry.setdefault("tokens", {})
            if username in tokens:
                tokens[renamed] = tokens.pop(username)
            if entry.get("active_user") == username:
                entry["active_user"] = renamed

    def deactivate(self, username: str) -> None:
        with self._changing() as entry:
            if entry.get("active_user") == username:
                del entry["active_user"]

    def _load(self) -> Dict[str, Any]:
        way_out = "remove that file and sign in again with `det user login`"
        return kept(self.path, "saved sessions", way_out)

    def _read(self) -> Dict[str, Any]:
        entry = self._load().get("masters", {}).get(self.master)
        return entry if isinstance(entry, dict) else {}

    @contextlib.contextmanager
    def _changing(self) -> Iterator[Dict[str, Any]]:
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        with locked(self.path + ".lock"):
            content = self._load()
            content["version"] = VERSION
            entry: Dict[str, Any] = content.setdefault("masters", {}).setdefault(self.master, {})
            yield entry
            replaced(self.path, content)


def kept(path: str, what: str, way_out: str) -> Dict[str, Any]:
    """Read JSON that `replaced` wrote; nothing where there is no file yet."""
    try:
        with open(path, encoding="utf-8") as f:
            content = json.load(f)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as e:
        raise Failure(f"cannot read the {what} in {path}: {e}", way_out) from e
    return content if isinstance(content, dict) else {}


def replaced(path: str, content: Dict[str, Any]) -> None:
    """Write JSON for this user's eyes only; readers see the old file or the new one."""
    fresh = f"{path}.{os.getpid()}.new"
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
        json.dump(content, f, indent=4, sort_keys=True)
    os.replace(fresh, path)


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold the lock of a file that several commands write."""
    with open(path, "a", encoding="utf-8") as lock:
        try:
            import fcntl
        except ImportError:  # Windows: the replace itself is atomic, the last writer wins.
            yield
            return
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
