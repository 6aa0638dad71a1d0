"""HTTP sessions of a task. They connect to the agent's gateway with the allocation's token."""

import os
from typing import Any, Dict, Mapping, Optional

from determined._info import task_environment
from determined.common.http import Absence, Session
from determined.common.master_address import canonical

_absence = Absence()  # shared by all sessions of this process


def auth_headers(env: Mapping[str, str]) -> Dict[str, str]:
    headers = {}
    if env.get("DET_SESSION_TOKEN"):
        headers["Grpc-Metadata-x-allocation-token"] = f"Bearer {env['DET_SESSION_TOKEN']}"
    if env.get("DET_USER_TOKEN"):
        headers["Authorization"] = f"Bearer {env['DET_USER_TOKEN']}"
    return headers


def task_session(env: Optional[Mapping[str, str]] = None) -> Session:
    """Return a session that waits for the agent without limit, because the run continues when the agent returns."""
    return _session(env, absence=_absence)


def absence_of(master: str) -> Optional[Absence]:
    """Return this task's shared `Absence` if `master` is its agent's address, otherwise None."""
    task = task_environment()
    return _absence if task and canonical(task["DET_MASTER"]) == master else None


def bounded_task_session(env: Optional[Mapping[str, str]] = None, *, retries: int = 5) -> Session:
    """Return a session that raises after `retries` if the agent does not answer, for callers with a time limit."""
    return _session(env, retries=retries)


def _session(env: Optional[Mapping[str, str]], **options: Any) -> Session:
    variables = env or task_environment() or os.environ
    cert_file = variables.get("DET_MASTER_CERT_FILE") or None
    return Session(variables["DET_MASTER"], auth_headers(variables), cert_file=cert_file, **options)
