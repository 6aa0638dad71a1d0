"""The services of AWS that functions call, according to docs/guides/aws.md."""

import re
from dataclasses import dataclass
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs/guides/aws.md"
_ROW = re.compile(r"\| (\w+) \| `([\w.-]+)` \| ([\w, ]+):?.* \|")


@dataclass(frozen=True)
class Calls:
    service: str
    host: str  # with REGION in it
    callers: tuple[str, ...]


def documented_calls() -> list[Calls]:
    section = GUIDE.read_text().partition("## Calls to AWS")[2].partition("\n## ")[0]
    return [Calls(m[1], m[2], tuple(m[3].split(", "))) for m in _ROW.finditer(section)]
