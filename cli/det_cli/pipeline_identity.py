"""Identity tokens that a CI service issues to the pipeline running this command."""

import json
import os
import urllib.request
from pathlib import Path
from urllib.parse import quote

from det_cli.errors import CommandError, UsageError

_GITHUB_URL, _GITHUB_TOKEN = "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
_TIMEOUT_S = 20


def token_for(audience: str) -> str:
    """Return the identity token from the environment, or request one from GitHub for the audience."""
    variable = os.environ.get("DET_OIDC_TOKEN")
    if variable:
        return variable.strip()
    path = os.environ.get("DET_OIDC_TOKEN_FILE")
    if path:
        try:
            return Path(path).read_text("utf-8").strip()
        except OSError as e:
            raise UsageError(f"DET_OIDC_TOKEN_FILE: cannot read {path}: {e.strerror}") from e
    url, token = os.environ.get(_GITHUB_URL), os.environ.get(_GITHUB_TOKEN)
    if url and token:
        return _github_token(url, token, audience)
    raise UsageError(
        "this pipeline has no identity token",
        "on GitHub give the job `permissions: {id-token: write}`; on GitLab"
        f" `id_tokens: {{DET_OIDC_TOKEN: {{aud: {audience}}}}}`; elsewhere set DET_OIDC_TOKEN",
    )


def _github_token(url: str, token: str, audience: str) -> str:
    request = urllib.request.Request(
        f"{url}{'&' if '?' in url else '?'}audience={quote(audience, safe='')}",
        headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            return str(json.loads(response.read())["value"])
    except (OSError, ValueError, KeyError) as e:
        raise CommandError(f"GitHub made no identity token: {e}", "try the job again") from e
