"""Formatting of times: local time, to the second."""

from determined.common.times import parsed


def local(text: "str | None") -> str:
    if not text:
        return ""
    try:
        return parsed(text).astimezone().strftime("%Y-%m-%d %H:%M:%S%z")
    except ValueError:
        return text
