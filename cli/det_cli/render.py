"""Output: data on stdout as table, JSON, YAML or CSV, and messages and progress bars on stderr."""

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from determined.common.times import parsed

if TYPE_CHECKING:
    import argparse
    from typing import TextIO

Column = tuple[str, Callable[[Any], Any]]
Say = Callable[[str], None]  # prints a progress message of a long task, such as `say`
_FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\n",
)  # first characters that some spreadsheets read as a formula
# Names of the API's enumerations, such as TYPE_EXPERIMENT and STATE_QUEUED.
_API_WORD = re.compile(r"(?P<kind>STATE|(?:[A-Z]+_)*(?:TYPE|POLICY|LEVEL))_(?P<name>[A-Z][A-Z_]*)")
_STATE_COLOURS = {"COMPLETED": "32", "RUNNING": "36", "ERROR": "31", "CANCELED": "33"}


def say(text: str) -> None:
    """Print a message to stderr, so that pipes contain only data."""
    print("\n".join(map(plain, text.split("\n"))), file=sys.stderr, flush=True)


def show(
    args: "argparse.Namespace",
    columns: Sequence[Column],
    items: Iterable[Any],
    data: Any = None,
    *,
    empty: "str | Callable[[], str]" = "",
) -> None:
    """Print the items in the requested format. `data`, if given, is printed instead as JSON and YAML.

    `empty` explains a table without rows. It is printed to stderr.
    """
    items = list(items)
    format = getattr(args, "format", None) or "table"
    if format == "json":
        print_json(items if data is None else data)
    elif format == "yaml":
        print_yaml(items if data is None else data)
    else:
        rows = [[get(item) for _, get in columns] for item in items]
        print_rows([name for name, _ in columns], rows, as_csv=format == "csv")
        if not items and format == "table" and empty:
            sys.stdout.flush()
            say(empty if isinstance(empty, str) else empty())


def print_object(args: "argparse.Namespace", data: Any) -> None:
    """Print an object as YAML, or as JSON with --json."""
    if getattr(args, "format", None) == "json":
        print_json(data)
    else:
        print_yaml(data)


def print_json(data: Any) -> None:
    import json

    print(json.dumps(data, indent=2, sort_keys=True))


def print_yaml(data: Any) -> None:
    import yaml

    print(yaml.safe_dump(data, default_flow_style=False, sort_keys=True), end="")


def print_rows(header: Sequence[str], rows: Sequence[Sequence[Any]], *, as_csv: bool) -> None:
    if as_csv:
        write_csv(sys.stdout, header, rows)
        return
    width = terminal_width() if sys.stdout.isatty() else None
    shown = [[in_words(value) for value in row] for row in rows]
    print(table(header, shown, width, colour=colours()))


def in_words(value: Any) -> Any:
    """Return the word for a value of the API. CSV and JSON keep the value, because scripts read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str):
        return value
    if value == "N/A":
        return ""
    match = _API_WORD.fullmatch(value)
    if match is None:
        return value
    text = match["name"].replace("_", " ")
    return text if match["kind"] == "STATE" else text.lower()


def write_csv(out: "TextIO", header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    import csv

    writer = csv.writer(out, lineterminator="\n")
    for row in (header, *rows):
        writer.writerow([_shown_by_spreadsheets(_exact(v)) for v in row])


def _exact(value: Any) -> str:
    """Return the text of a value at full precision for CSV. Tables round numbers."""
    return str(value) if isinstance(value, float) else cell(value)


def _shown_by_spreadsheets(text: str) -> str:
    """Prefix text that a spreadsheet would execute as a formula with an apostrophe.

    Other users choose names freely, so a name may contain a formula.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # an unquoted "\r" would end the row
    is_number = _number(text) and text == text.strip()
    return f"'{text}" if text.startswith(_FORMULA) and not is_number else text


def plain(text: str) -> str:
    """Escape terminal control characters, because other users and programs choose names and messages."""
    if text.isascii() and text.isprintable():
        return text
    from det_cli.live.text import clean

    return clean(text.expandtabs())


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (dict, list)):
        import json

        return json.dumps(value, indent=4)
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[Any]],
    width: "int | None" = None,
    *,
    colour: bool = False,
) -> str:
    """Return a table that fits `width`, with right-aligned numbers and cells of several lines."""
    texts = [[[plain(line) for line in cell(v).split("\n")] for v in row] for row in rows]
    numeric = [_is_numeric([row[i] for row in texts]) for i in range(len(header))]
    sizes = [
        max([len(h) + 2, *(len(line) for row in texts for line in row[i])])
        for i, h in enumerate(header)
    ]
    if width is not None:
        sizes = _fit_widths(sizes, [len(h) for h in header], width)
    lines = [_line(header, sizes, numeric), "-+-".join("-" * s for s in sizes)]
    lines[1] = f"-{lines[1]}-"
    for row in texts:
        for k in range(max(len(c) for c in row)):
            parts = [c[k] if k < len(c) else "" for c in row]
            lines.append(_line(parts, sizes, numeric, colour=colour))
    return "\n".join(lines)


def _line(
    cells: Sequence[str], sizes: Sequence[int], numeric: Sequence[bool], *, colour: bool = False
) -> str:
    out = []
    for text, size, right in zip(cells, sizes, numeric, strict=True):
        cut = text if len(text) <= size else text[: size - 1] + "…"
        padded = cut.rjust(size) if right else cut.ljust(size)
        code = _STATE_COLOURS.get(text) if colour else None
        out.append(f"\x1b[{code}m{padded}\x1b[0m" if code else padded)
    return (" " + " | ".join(out)).rstrip()


def _fit_widths(sizes: list[int], least: list[int], width: int) -> list[int]:
    """Shrink the widest columns until the table fits. Headers stay readable."""
    sizes = list(sizes)
    while sum(sizes) + 3 * len(sizes) - 1 > width:
        slack = [(s - max(low, 8), i) for i, (s, low) in enumerate(zip(sizes, least, strict=True))]
        room, widest = max(slack)
        if room <= 0:
            break
        sizes[widest] -= 1
    return sizes


def _is_numeric(cells: Sequence[list[str]]) -> bool:
    has_numbers = False
    for lines in cells:
        if lines == [""]:
            continue
        if len(lines) > 1 or not _number(lines[0]):
            return False
        has_numbers = True
    return has_numbers


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def terminal_width() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def size_text(count: "int | str | None") -> str:
    """Return a number of bytes with a readable unit."""
    size = float(count or 0)
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if size < 1024 or unit == "TB":
            break
        size /= 1024
    return f"{size:.1f}{unit}"


STOPPED_EARLY = "STOPPED EARLY"
WAITING = "WAITING"


def state_text(state: "str | None") -> str:
    """Return a state without its prefix: `COMPLETED` instead of `STATE_COMPLETED`."""
    return (state or "").removeprefix("STATE_")


def trial_state_text(trial: "dict[str, Any]") -> str:
    """Return the state of a trial. Its search may have stopped it early, or may let it wait without slots."""
    if trial.get("stoppedEarly"):
        return STOPPED_EARLY
    return WAITING if trial.get("waitsForSearch") else state_text(trial["state"])


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 user`, `2 users`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def percent(value: "float | None") -> str:
    return "" if value is None else f"{value * 100:.1f}%"


def local_time(text: "str | None") -> str:
    if not text:
        return ""
    try:
        return parsed(text).astimezone().strftime("%Y-%m-%d %H:%M:%S%z")
    except ValueError:
        return text


_BAR_WIDTH = 30


class Progress:
    def __init__(self, label: str, total: int | None, *, quiet: bool = False) -> None:
        self._label = label
        self._total = total
        self._done = 0
        self._drawn_at = 0.0
        self._silent = quiet or not sys.stderr.isatty()

    def add(self, count: int) -> None:
        self._done += count
        if not self._silent and time.monotonic() - self._drawn_at > 0.1:
            self._draw()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if not self._silent:
            self._draw()
            sys.stderr.write("\n")

    def _draw(self) -> None:
        self._drawn_at = time.monotonic()
        amount = size_text(self._done)
        if self._total:
            share = min(self._done / self._total, 1.0)
            bar = "█" * int(share * _BAR_WIDTH)
            text = f"{bar:░<{_BAR_WIDTH}} {share:4.0%} {amount} of {size_text(self._total)}"
        else:
            text = amount
        sys.stderr.write(f"\r\x1b[K{self._label} {text}")
        sys.stderr.flush()
