"""The HTTP session of a task: the agent's gateway, with the allocation's token."""

import os
from typing import Dict, Mapping, Optional

from determined._info import task_environment
from determined.common.http import Session


def auth_headers(env: Mapping[str, str]) -> Dict[str, str]:
    headers = {}
    if env.get("DET_SESSION_TOKEN"):
        headers["Grpc-Metadata-x-allocation-token"] = f"Bearer {env['DET_SESSION_TOKEN']}"
    if env.get("DET_USER_TOKEN"):
        headers["Authorization"] = f"Bearer {env['DET_USER_TOKEN']}"
    return headers


def task_session(env: Optional[Mapping[str, str]] = None, *, retries: int = 5) -> Session:
    found = env or task_environment() or os.environ
    return Session(
        found["DET_MASTER"],
        auth_headers(found),
        retries=retries,
        cert_file=found.get("DET_MASTER_CERT_FILE") or None,
    )
