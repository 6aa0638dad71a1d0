"""`python -m determined.cli`: the `det` command. Agents mount its package `det_cli` beside the harness."""

import importlib
import sys

OLDEST = (3, 10)


def main() -> int:
    if sys.version_info < OLDEST:
        needed, here = (".".join(map(str, version[:2])) for version in (OLDEST, sys.version_info))
        print(
            f"det: the command needs Python {needed} or newer, and {sys.executable} is Python {here}: choose an"
            f" image with a newer Python, or use `determined.experimental.client` in a script",
            file=sys.stderr,
        )
        return 1
    command = importlib.import_module("det_cli.main")
    return int(command.main())


if __name__ == "__main__":
    sys.exit(main())
