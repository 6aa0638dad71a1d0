"""Update pages with parts that are generated from the code."""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

_BLOCK = re.compile(r"(<!-- drawn: (\w+) -->\n```text\n).*?(\n```)", re.DOTALL)


def redrawn(page: str, drawings: Mapping[str, Callable[[], str]]) -> str:
    """Return the page with every drawing updated."""
    return _BLOCK.sub(lambda block: block[1] + drawings[block[2]]() + block[3], page)


def update(path: Path, drawn: Callable[[str], str]) -> None:
    """Print the current page, or update the file with `--write`."""
    page = drawn(path.read_text(encoding="utf-8"))
    if "--write" in sys.argv[1:]:
        path.write_text(page, encoding="utf-8")
    else:
        print(page, end="")
