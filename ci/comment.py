#!/usr/bin/env python3
"""Write a summary as a comment of a GitHub pull request or a GitLab merge request. There is one comment for each
configuration, which later pushes update.

    ci/comment.py SUMMARY CONFIG

If the comment cannot be written, the script prints a warning with the reason, and the job continues.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

PAGE = 100
TIMEOUT_S = 30.0
# Errors of a host, of a proxy before it, or of a missing variable.
UNWRITTEN = (OSError, HTTPException, ValueError, KeyError, TypeError, AttributeError)


class GitHub:
    """Write comments as the job's own identity, a bot."""

    changing = "PATCH"

    def __init__(self) -> None:
        repository = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}"
        self.comments = f"{repository}/issues/{os.environ['NUMBER']}/comments"
        self._of_one = f"{repository}/issues/comments"
        self.headers = {
            "Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}",
            "Accept": "application/vnd.github+json",
        }

    def address(self, comment: Any) -> str:
        return f"{self._of_one}/{comment['id']}"

    def is_ours(self, comment: Any) -> bool:
        user = comment["user"] or {}  # none for an account that is gone
        return bool(user.get("type") == "Bot")


class GitLab:
    """Write notes as the owner of GITLAB_TOKEN."""

    changing = "PUT"

    def __init__(self) -> None:
        api, project = os.environ["CI_API_V4_URL"], os.environ["CI_PROJECT_ID"]
        request = os.environ["CI_MERGE_REQUEST_IID"]
        self.comments = f"{api}/projects/{project}/merge_requests/{request}/notes"
        self.headers = {"PRIVATE-TOKEN": os.environ["GITLAB_TOKEN"]}
        self._owner = call(self, "GET", f"{api}/user")["id"]

    def address(self, comment: Any) -> str:
        return f"{self.comments}/{comment['id']}"

    def is_ours(self, comment: Any) -> bool:
        return bool((comment["author"] or {}).get("id") == self._owner)


def call(host: "GitHub | GitLab", method: str, url: str, body: Any = None) -> Any:
    content = None if body is None else json.dumps(body).encode()
    headers = {**host.headers, "Content-Type": "application/json"}
    request = urllib.request.Request(url, content, headers, method=method)
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        return json.loads(answer.read() or b"{}")


def comments(host: "GitHub | GitLab") -> Iterator[Any]:
    page = 1
    while True:
        found = call(host, "GET", f"{host.comments}?per_page={PAGE}&page={page}")
        yield from found
        if len(found) < PAGE:
            return
        page += 1


def main(summary: str, config: str) -> None:
    mark = f"<!-- determined: {config.replace('--', '-')} -->"
    body = {"body": f"{mark}\n{Path(summary).read_text('utf-8')}"}
    host = GitLab() if os.environ.get("GITLAB_CI") else GitHub()
    ours = (c for c in comments(host) if host.is_ours(c) and (c["body"] or "").startswith(mark))
    earlier = next(ours, None)
    if earlier is None:
        call(host, "POST", host.comments, body)
    else:
        call(host, host.changing, host.address(earlier), body)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except UNWRITTEN as e:
        cause = f"there is no {e}" if isinstance(e, KeyError) else e
        message = f"the summary could not be written as a comment: {cause}"
        print(f"::warning::{message}" if os.environ.get("GITHUB_ACTIONS") else message)
        if isinstance(e, urllib.error.HTTPError) and e.code in (401, 403, 404):
            print(
                "On GitHub the job needs `permissions: {pull-requests: write}`, on GitLab a token with `api`."
            )
