"""Plans of experiments: stored before an experiment is created, so that one plan creates one experiment.

The token of a plan is the Idempotency-Key of the request that creates its experiment. The cluster answers a repeated
key with the experiment that the first request created. Plans are files, because the server may be restarted between a
lost answer and the next call.
"""

import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from determined.common.context import Context, collect
from determined.common.token_store import default_path

from det_cli.errors import CommandError, MissingError

LIFE_S = 3600.0
_PREFIX = "plan-"
_REMEMBERED_S = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class Plan:
    token: str
    config: str
    folder: str  # of the code; empty without code
    files: str  # a hash of the code
    planned_at: float
    project_id: int | None = None
    was_sent: bool = False  # a request to create the experiment may have arrived
    experiment_id: int | None = None


class Plans:
    """The plans of one cluster and user, as files in a folder."""

    def __init__(
        self, cluster: str, folder: Path | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        home = Path(default_path()).parent / "plans"
        self._folder = (folder or home) / hashlib.sha256(cluster.encode()).hexdigest()[:16]
        self._clock = clock

    def add(self, config: str, folder: str, files: str, project_id: int | None) -> Plan:
        self._forget_old()
        token = _PREFIX + secrets.token_hex(16)
        plan = Plan(token, config, folder, files, self._clock(), project_id)
        self.store(plan)
        return plan

    def find(self, token: str) -> Plan:
        """Return a plan. Raises MissingError for an unknown token, and CommandError for an old one."""
        path = self._path(token)
        if path is None or not path.is_file():
            raise MissingError(
                f"there is no plan {token!r}", "call plan_experiment, and use its plan_token"
            )
        plan = Plan(**json.loads(path.read_text("utf-8")))
        # A plan that was used stays valid, so that a repeated call finds its experiment.
        if not plan.was_sent and self._clock() - plan.planned_at > LIFE_S:
            raise CommandError(
                f"plan {token} is older than an hour, and prices may have changed",
                "call plan_experiment again; this plan created no experiment",
            )
        return plan

    def store(self, plan: Plan) -> None:
        """Replace the file of a plan at once."""
        path = self._path(plan.token)
        assert path is not None
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = path.with_suffix(f".{secrets.token_hex(4)}")
        with os.fdopen(
            os.open(draft, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8"
        ) as file:
            json.dump(asdict(plan), file)
        draft.replace(path)

    def sent(self, plan: Plan) -> Plan:
        """Record that the experiment is about to be requested."""
        plan = replace(plan, was_sent=True)
        self.store(plan)
        return plan

    def _path(self, token: str) -> Path | None:
        name = token.removeprefix(_PREFIX)
        is_token = token.startswith(_PREFIX) and name.isalnum() and name.isascii()
        return self._folder / f"{name}.json" if is_token else None

    def _forget_old(self) -> None:
        for path in self._folder.glob("*.json"):
            if self._clock() - path.stat().st_mtime > _REMEMBERED_S:
                path.unlink(missing_ok=True)


def code_in(root: Path, folder: str) -> tuple[str, Context]:
    """Return the path of a code folder below the root, and its files. Raises CommandError for other folders."""
    if not folder:
        return "", Context(())
    path = (root / folder).resolve()
    if not path.is_relative_to(root.resolve()):
        raise CommandError(
            f"{folder} is outside {root}, the folder whose code may be sent",
            "give a folder below it, or start `det mcp` with another --root",
        )
    if not path.is_dir():
        raise MissingError(f"{path} is not a folder", f"give a path relative to {root}")
    return str(path), collect(str(path))


def hash_of(context: Context) -> str:
    """Return a hash of the code, with which a change after the plan is detected."""
    files = json.dumps(context.inline(), sort_keys=True)
    return hashlib.sha256(files.encode()).hexdigest()
