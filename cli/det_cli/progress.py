"""A progress bar on stderr for transfers. It is hidden if stderr is not a terminal."""

import sys
import time

from det_cli.render import size_text

_WIDTH = 30


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
            bar = "█" * int(share * _WIDTH)
            text = f"{bar:░<{_WIDTH}} {share:4.0%} {amount} of {size_text(self._total)}"
        else:
            text = amount
        sys.stderr.write(f"\r\x1b[K{self._label} {text}")
        sys.stderr.flush()
