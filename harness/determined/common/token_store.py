"""Store session tokens in the file that Determined's own client uses (docs/reference/compatibility.md#signing-in)."""

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
    """The tokens for one cluster. A write holds the file's lock and replaces the file."""

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
        """Move a user's session to the user's new name. The session stays valid."""
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
        hint = "remove that file and sign in again with `det user login`"
        return load_json(self.path, "saved sessions", hint)

    def _read(self) -> Dict[str, Any]:
        entry = self._load().get("masters", {}).get(self.master)
        return entry if isinstance(entry, dict) else {}

    @contextlib.contextmanager
    def _changing(self) -> Iterator[Dict[str, Any]]:
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        with file_lock(self.path + ".lock"):
            content = self._load()
            content["version"] = VERSION
            entry: Dict[str, Any] = content.setdefault("masters", {}).setdefault(self.master, {})
            yield entry
            write_json(self.path, content)


def load_json(path: str, content_name: str, hint: str) -> Dict[str, Any]:
    """Read JSON that `write_json` wrote. Return {} if the file does not exist."""
    try:
        with open(path, encoding="utf-8") as f:
            content = json.load(f)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as e:
        raise Failure(f"cannot read the {content_name} in {path}: {e}", hint) from e
    return content if isinstance(content, dict) else {}


def write_json(path: str, content: Dict[str, Any]) -> None:
    """Write JSON that only this user can read. The file is replaced, so readers never see half of it."""
    fresh = f"{path}.{os.getpid()}.new"
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
        json.dump(content, f, indent=4, sort_keys=True)
    os.replace(fresh, path)


@contextlib.contextmanager
def file_lock(path: str) -> Iterator[None]:
    """Hold the lock of a file that several commands write."""
    with open(path, "a", encoding="utf-8") as lock:
        try:
            import fcntl
        except ImportError:  # on Windows the replacement is atomic and the last writer wins
            yield
            return
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
