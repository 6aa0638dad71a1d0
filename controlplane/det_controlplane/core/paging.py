"""The requested part of a listing, and its order."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from det_controlplane.core.problems import InvalidConfig, Problem


@dataclass(frozen=True, slots=True)
class Page:
    """A page. Limit 0 is the default limit, -1 all rows, -2 no rows. A negative offset counts from the end."""

    offset: int = 0
    limit: int = 0
    default_limit: int = 100

    @property
    def most(self) -> int | None:
        """Return the largest number of rows, or None for all rows."""
        limit = self.limit or self.default_limit
        if limit == -1:
            return None
        return 0 if limit == -2 else limit

    def corrected_total(self, earlier: int, count: int) -> int:
        """Return the total that fits an earlier total and the rows of this page. The offset must not be negative."""
        if 0 < count < (self.most or 0):
            return self.offset + count  # the last page
        if count == 0 and self.most:
            return min(earlier, self.offset)
        return max(earlier, self.offset + count)

    def pagination(self, total: int) -> dict[str, int]:
        """Return the field `pagination` of an answer with this page."""
        first = max(total + self.offset, 0) if self.offset < 0 else min(self.offset, total)
        last = total if self.most is None else min(first + self.most, total)
        return {
            "offset": self.offset, "limit": self.limit, "startIndex": first, "endIndex": last, "total": total,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sort:
    by: str = ""  # the name in the API, such as SORT_BY_START_TIME
    descending: bool = False
    metric: str = ""  # the validation metric of the order BY_METRIC

    BY_METRIC: ClassVar = "a metric"

    def checked(self, names: Collection[str]) -> str:
        """Return the sort order if it is one of `names`, or their first if the caller did not choose one."""
        if self.by in names:
            return self.by
        if self.by and not self.by.endswith("UNSPECIFIED"):
            choices = ", ".join(sorted(names))
            raise InvalidConfig(
                [Problem("sortBy", f"must be one of {choices}, not {self.by!r}")], what="request"
            )
        return next(iter(names))
