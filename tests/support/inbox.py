"""A courier that keeps what it is given, for tests of webhooks."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from det_controlplane.ports.courier import Unsent


@dataclass
class Post:
    url: str
    body: bytes
    headers: Mapping[str, str]

    @property
    def event(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


@dataclass
class Inbox:
    """Implements `ports.courier.Courier`. Takes messages, unless it is told to refuse them."""

    posts: list[Post] = field(default_factory=list)
    refusals: dict[str, Unsent] = field(default_factory=dict)  # by URL

    def check(self, url: str) -> None:
        if "private" in url:
            raise Unsent("that is an address of a private network", forever=True)

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        if url in self.refusals:
            raise self.refusals[url]
        self.posts.append(Post(url, body, headers))

    @property
    def events(self) -> list[dict[str, Any]]:
        return [post.event for post in self.posts]
