"""The models of bodies and queries about logs."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from det_controlplane.api.errors import BadRequest
from det_controlplane.api.listing import ORDERS, choice
from det_controlplane.services.logs.task_logs import Filters

_LARGEST_RANK = 2**31 - 1


@dataclass(frozen=True)
class LogQuery:
    limit: int = 0
    follow: bool = False
    # Clients that continue a broken stream name the last line that they got.
    after_id: int = 0
    order_by: str = ""
    sort_by: str = ""  # lines have one order only, but clients name it
    allocation_ids: list[str] = field(default_factory=list)
    agent_ids: list[str] = field(default_factory=list)
    container_ids: list[str] = field(default_factory=list)
    rank_ids: list[int] = field(default_factory=list)
    levels: list[str] = field(default_factory=list)
    stdtypes: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    timestamp_before: datetime | None = None
    timestamp_after: datetime | None = None
    search_text: str = ""
    enable_regex: bool = False

    def is_descending(self) -> bool:
        return choice("orderBy", self.order_by, "ORDER_BY_", ORDERS) == "DESC"

    def filters(self) -> Filters:
        return Filters(
            allocation_ids=self.allocation_ids,
            agent_ids=self.agent_ids,
            container_ids=self.container_ids,
            rank_ids=self.rank_ids,
            levels=self.levels,
            stdtypes=self.stdtypes,
            sources=self.sources,
            before=self.timestamp_before,
            # With `afterId`, clients add a time for servers that do not know it. It would exclude late lines.
            after=None if self.after_id else self.timestamp_after,
            search=self.search_text,
            regex=self.enable_regex,
        )


@dataclass(frozen=True)
class LogLine:
    task_id: str = ""
    allocation_id: str | None = None
    agent_id: str | None = None
    container_id: str | None = None
    rank_id: int | None = None
    timestamp: datetime | None = None
    level: str | None = None
    source: str | None = None
    stdtype: str | None = None
    log: str = ""

    def row(self) -> dict[str, Any]:
        if self.rank_id is not None and abs(self.rank_id) > _LARGEST_RANK:
            raise BadRequest(f"rankId must be a number of at most 31 bits, not {self.rank_id}")
        time = None if self.timestamp is None else self.timestamp.isoformat()
        return {**self.__dict__, "timestamp": time}


@dataclass(frozen=True)
class ShippedLine(LogLine):
    matched: list[Any] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        return {**super().row(), "matched": tuple(self.matched)}


@dataclass(frozen=True)
class LogLines:
    logs: list[LogLine] = field(default_factory=list)


@dataclass(frozen=True)
class ShippedLines:
    batch_id: str
    matched: bool = False
    logs: list[dict[str, Any]] = field(default_factory=list, metadata={"items": ShippedLine})


@dataclass(frozen=True)
class LogRetention:
    num_days: int = 0
