"""`[OVERRIDES --] (--trial FILE:CLASS | SCRIPT...)`, the command line of every launcher."""

import importlib
import sys
from typing import List, NamedTuple, Sequence


class Launch(NamedTuple):
    """Options for the framework's own launcher, and the command of each worker."""

    overrides: List[str]
    command: List[str]


class UsageError(SystemExit):
    """The command line is wrong. The process exits with status 2, as argparse does."""

    def __init__(self, module: str, problem: str) -> None:
        print(f"{problem}\n{_help(module).splitlines()[0]}", file=sys.stderr)
        super().__init__(2)


def _help(module: str) -> str:
    """Return the launcher's help. Its first line is the usage."""
    text = importlib.import_module(f"determined.launch.{module}").__doc__ or ""
    return f"usage: {text.strip()}".replace("`", "")


def parse(module: str, args: Sequence[str]) -> Launch:
    """Split the arguments at the first `--`, unless it belongs to the script, which does not start with `-`."""
    overrides: List[str] = []
    rest = list(args)
    if "--" in rest and (rest[0].startswith("-") and rest[0] != "--trial"):
        at = rest.index("--")
        overrides, rest = rest[:at], rest[at + 1 :]
    if rest and rest[0] in ("-h", "--help"):
        print(_help(module))
        raise SystemExit(0)
    if not rest:
        raise UsageError(module, "nothing to launch")
    return Launch(overrides, _command(module, rest))


def _command(module: str, rest: List[str]) -> List[str]:
    if rest[0] == "--trial" or rest[0].startswith("--trial="):
        location = rest[0].partition("=")[2] or (rest[1] if len(rest) > 1 else "")
        used = 1 if "=" in rest[0] else 2
        if ":" not in location:
            raise UsageError(module, f"--trial {location!r} must look like FILE:CLASS")
        if len(rest) > used:
            raise UsageError(module, f"unexpected after --trial: {' '.join(rest[used:])}")
        return [sys.executable, "-m", "determined.exec.harness", "--trial", location]
    if rest[0].startswith("-"):
        raise UsageError(module, f"unknown option {rest[0]!r}; launcher options end with `--`")
    if rest[0].endswith(".py"):
        return [sys.executable, *rest]
    return rest
