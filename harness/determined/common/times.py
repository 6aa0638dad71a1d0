"""Timestamps of the API: RFC 3339, in UTC, with fractions of any length."""

from datetime import datetime, timezone

_SECOND = 19  # characters of YYYY-MM-DDTHH:MM:SS


def parsed(text: str) -> datetime:
    fraction = text[_SECOND:].split("Z")[0].split("+")[0].split("-")[0].lstrip(".")
    zone = text[_SECOND:].lstrip(".0123456789") or "Z"
    moment = datetime.fromisoformat(text[:_SECOND] + ("+00:00" if zone in "Zz" else zone))
    micros = int(f"{fraction[:6]:0<6}") if fraction else 0
    return moment.replace(microsecond=micros)


def written(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
