"""Ask a cluster by the names of the stock client's calls."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.support.api import Api, Caller
from tests.support.played_agent import PlayedAgent
from tests.support.stock_catalog import Catalog


@dataclass
class World:
    """Call by the names of the stock client's calls and record the answers."""

    api: Api
    catalog: Catalog
    caller: Caller
    agent: PlayedAgent
    told: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    checkpoints: list[str] = field(default_factory=list)

    def ask(self, name: str, body: Any = None, query: Any = None, **places: object) -> Any:
        """Make a call that must succeed; at its first time, with each choice of its query, too."""
        call, is_first = self.catalog.calls[name], name not in self.told
        if isinstance(body, dict) and call.body in self.catalog.messages:
            unknown = set(body) - set(self.catalog.messages[call.body])
            assert not unknown, f"{name} has no {unknown}"
        query_lists = {k: v if isinstance(v, list) else [str(v)] for k, v in (query or {}).items()}
        assert set(query_lists) <= set(call.query), (
            f"{name} has no {set(query_lists) - set(call.query)}"
        )
        answer = self._answer(name, call.url(places), body, query_lists)
        if is_first and call.method == "GET":
            for choice in self.catalog.choices(call):
                self._answer(name, call.url(places), body, {**query_lists, **choice})
        return answer

    def _answer(self, name: str, url: str, body: Any, query: dict[str, list[str]]) -> Any:
        call = self.catalog.calls[name]
        if call.stream:
            answer: Any = self.caller.lines(url, query)
        else:
            answer = self.caller.done(call.method, url, body, query)
        self.told[name].append(answer)
        return answer
