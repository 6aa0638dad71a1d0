"""`python3 -m determined.launch.wrap_rank RANK CMD...`: prefix a command's lines with its rank.

RANK is a number, or the name of an environment variable with a number.
"""

import os
import sys
from typing import Optional, Sequence

from determined.launch import _place
from determined.launch._workers import Worker, run_workers


def rank_of(name_or_number: str) -> int:
    value = os.environ.get(name_or_number, name_or_number)
    try:
        return int(value)
    except ValueError:
        raise SystemExit(
            f"wrap_rank: {name_or_number!r} is neither a number nor a variable with a number"
        ) from None


def main(argv: Optional[Sequence[str]] = None) -> int:
    args = list(sys.argv[1:] if argv is None else argv)
    if len(args) > 1 and args[1] == "--":
        del args[1]
    if len(args) < 2:
        print("usage: python3 -m determined.launch.wrap_rank RANK CMD...", file=sys.stderr)
        return 2
    return run_workers([Worker(rank_of(args[0]), args[1:], _place.at_home(os.environ))])


if __name__ == "__main__":
    sys.exit(main())
