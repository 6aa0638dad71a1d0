"""The models of bodies and queries of operators."""

from calendar import monthrange
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from det_controlplane.api.errors import BadRequest
from det_controlplane.services.cluster import usage


@dataclass(frozen=True)
class ClusterMessage:
    message: str = ""
    start_time: datetime | None = None
    end_time: datetime | None = None
    duration: str = ""


@dataclass(frozen=True)
class LogSettings:
    level: str | None = None
    color: bool | None = None


@dataclass(frozen=True)
class ChangedConfig:
    log: LogSettings = LogSettings()


@dataclass(frozen=True)
class FieldMask:
    paths: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class ConfigChange:
    config: ChangedConfig = ChangedConfig()
    field_mask: FieldMask = FieldMask()


@dataclass(frozen=True)
class MasterLogQuery:
    offset: int = 0
    limit: int = 0
    follow: bool = False


@dataclass(frozen=True)
class TimesQuery:
    timestamp_after: datetime
    timestamp_before: datetime

    def times(self) -> tuple[datetime, datetime]:
        return self.timestamp_after, self.timestamp_before


@dataclass(frozen=True)
class DaysQuery:
    start_date: str = ""
    end_date: str = ""
    period: str = ""

    def days(self) -> tuple[date, date, str]:
        """Return the first day, the last day and the period of a report."""
        period = self.period.rpartition("_")[2].upper() or usage.DAILY
        period = usage.DAILY if period in ("", "UNSPECIFIED") else period
        if period not in (usage.DAILY, usage.MONTHLY):
            raise BadRequest(
                "period must be RESOURCE_ALLOCATION_AGGREGATION_PERIOD_DAILY or ..._MONTHLY"
            )
        first = _days_of("startDate", self.start_date, period)[0]
        last = _days_of("endDate", self.end_date, period)[1]
        return first, last, period


def _days_of(name: str, value: str, period: str) -> tuple[date, date]:
    """Return the first and the last day of a month such as 2026-11, or a day twice."""
    is_month = len(value) == len("2026-11")
    if is_month and period != usage.MONTHLY:
        raise BadRequest(
            f"{name} {value!r} is a month, and the report is by day: write a day such as"
            " 2026-11-20, or ask for months (--monthly)"
        )
    try:
        first = date.fromisoformat(f"{value}-01" if is_month else value)
    except ValueError as e:
        raise BadRequest(f"{name} must be a date such as 2026-11-20, not {value!r}") from e
    days = monthrange(first.year, first.month)[1] if is_month else first.day
    return first, first.replace(day=days)
