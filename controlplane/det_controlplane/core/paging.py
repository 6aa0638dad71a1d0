"""The part of a listing that is asked for, and its order."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from det_controlplane.core.problems import InvalidConfig, Problem


@dataclass(frozen=True, slots=True)
class Page:
    """Limit 0 is the default, -1 all, -2 none; a negative offset counts from the end."""

    offset: int = 0
    limit: int = 0
    default_limit: int = 100

    @property
    def most(self) -> int | None:
        """Return how many rows; None: all of them."""
        limit = self.limit or self.default_limit
        if limit == -1:
            return None
        return 0 if limit == -2 else limit

    def corrected_total(self, earlier: int, found: int) -> int:
        """Return the total by an earlier count and the rows that this page has now. Its offset is not negative."""
        if 0 < found < (self.most or 0):
            return self.offset + found  # the last page
        if found == 0 and self.most:
            return min(earlier, self.offset)
        return max(earlier, self.offset + found)

    def pagination(self, total: int) -> dict[str, int]:
        """Return the field `pagination` of an answer with this page of so many rows."""
        first = max(total + self.offset, 0) if self.offset < 0 else min(self.offset, total)
        last = total if self.most is None else min(first + self.most, total)
        return {
            "offset": self.offset, "limit": self.limit, "startIndex": first, "endIndex": last, "total": total,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sort:
    by: str = ""  # the API's name, such as SORT_BY_START_TIME
    descending: bool = False
    metric: str = ""  # a validation metric that a caller names, sorted by as BY_METRIC

    BY_METRIC: ClassVar = "a metric"

    def checked(self, known: Collection[str]) -> str:
        """Return the known name that is sorted by: the first one, unless the caller chose."""
        if self.by in known:
            return self.by
        if self.by and not self.by.endswith("UNSPECIFIED"):
            names = ", ".join(sorted(known))
            raise InvalidConfig(
                [Problem("sortBy", f"must be one of {names}, not {self.by!r}")], what="request"
            )
        return next(iter(known))
