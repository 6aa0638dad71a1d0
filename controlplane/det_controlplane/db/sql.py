"""SQL as constants: a statement with named parameters, written once and prepared once a connection."""

import re
from functools import cached_property

# Locks and sequences outlive their statement as changes do.
_MORE_THAN_READS = re.compile(
    r"\b(insert|update|delete|merge|for\s+(no\s+key|key\s+share|share)|pg_\w*advisory\w*|nextval|setval|set_config)\b",
    re.IGNORECASE,
)
# `:name`, but neither the `::type` of a cast nor the `24:MI` of a time format.
_PARAMETER = re.compile(r"(?<![:\w\\]):(\w+)(?!:)")


class Statement:
    def __init__(self, sql: str) -> None:
        self.text = sql

    def __repr__(self) -> str:
        return f"<{' '.join(self.text.split())[:60]}>"

    @cached_property
    def only_reads(self) -> bool:
        """Whether it needs no transaction: at READ COMMITTED each statement sees what is committed when it begins."""
        begins_as_query = self.text.lstrip().upper().startswith(("SELECT", "WITH"))
        return begins_as_query and not _MORE_THAN_READS.search(self.text)

    @cached_property
    def numbered(self) -> tuple[str, tuple[str, ...]]:
        """With $1, $2, … for the parameters, and their names in that order."""
        numbers: dict[str, int] = {}

        def number(match: "re.Match[str]") -> str:
            return f"${numbers.setdefault(match[1], len(numbers) + 1)}"

        return _PARAMETER.sub(number, self.text), tuple(numbers)


def text(sql: str) -> Statement:
    return Statement(sql)
