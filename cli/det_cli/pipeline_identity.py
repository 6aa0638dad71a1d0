"""The token by which a CI service vouches for the pipeline that runs this command."""

import json
import os
import urllib.request
from pathlib import Path
from urllib.parse import quote

from det_cli.errors import CommandError, UsageError

_GITHUB_URL, _GITHUB_TOKEN = "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
_TIMEOUT_S = 20


def token_for(audience: str) -> str:
    """Return the token that the environment holds, or that GitHub makes for an audience."""
    given = os.environ.get("DET_OIDC_TOKEN")
    if given:
        return given.strip()
    path = os.environ.get("DET_OIDC_TOKEN_FILE")
    if path:
        try:
            return Path(path).read_text("utf-8").strip()
        except OSError as e:
            raise UsageError(f"DET_OIDC_TOKEN_FILE: cannot read {path}: {e.strerror}") from e
    url, token = os.environ.get(_GITHUB_URL), os.environ.get(_GITHUB_TOKEN)
    if url and token:
        return _of_github(url, token, audience)
    raise UsageError(
        "this pipeline has no identity token",
        "on GitHub give the job `permissions: {id-token: write}`; on GitLab"
        f" `id_tokens: {{DET_OIDC_TOKEN: {{aud: {audience}}}}}`; elsewhere set DET_OIDC_TOKEN",
    )


def _of_github(url: str, token: str, audience: str) -> str:
    asked = urllib.request.Request(
        f"{url}{'&' if '?' in url else '?'}audience={quote(audience, safe='')}",
        headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
    )
    try:
        with urllib.request.urlopen(asked, timeout=_TIMEOUT_S) as answer:
            return str(json.loads(answer.read())["value"])
    except (OSError, ValueError, KeyError) as e:
        raise CommandError(f"GitHub made no identity token: {e}", "try the job again") from e
