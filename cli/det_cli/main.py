"""The `det` command: find what was typed, run it, and turn every failure into a sentence."""

import os
import sys
from typing import TYPE_CHECKING

from det_cli import errors
from det_cli.find import find, names_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from det_cli.find import Found


def main(argv: "Sequence[str] | None" = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader went away (`det … | head`); nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return errors.OK


def _run(words: "list[str]") -> int:
    path, found = "", None
    try:
        options, words = _global_options(words)
        if options.get("version"):
            from det_cli import __version__, product_version

            print(f"det {__version__} (Determined Serverless {product_version()})")
            return errors.OK
        if not words or words[0] in ("-h", "--help", "help"):
            return _help(words[1:])
        found = find(words)
        path = " ".join(found.path)
        return _run_found(found, options)
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as e:
        if os.environ.get("DET_DEBUG") == "1":
            raise
        return _complain(e, path, found)


def _help(words: "list[str]") -> int:
    from det_cli.help import print_group, print_top

    if not words:
        print_top()
        return errors.OK
    found = find([*words, "-h"])
    return print_group(found) if found.rest == ["-h"] else errors.OK


def _run_found(found: "Found", options: "dict[str, str]") -> int:
    from det_cli.declare import Group

    if isinstance(found.node, Group):
        from det_cli.help import print_group

        return print_group(found)
    from importlib import import_module

    from det_cli.parse import parse

    args = parse(found, options)
    module, _, function = found.node.run.partition(":")
    action = getattr(import_module(f"det_cli.actions.{module}"), function)
    try:
        code = action(args)
    except Exception as e:
        if not _now_trusted(e, args):
            raise
        code = action(args)
    return errors.OK if code is None else int(code)


def _now_trusted(error: Exception, args: "Namespace") -> bool:
    """Ask about a certificate that nobody vouches for; nothing was sent yet, so the command may begin again."""
    if "determined.common.http" not in sys.modules:
        return False
    from determined.common.http import UntrustedMasterError

    if not isinstance(error, UntrustedMasterError):
        return False
    from det_cli import trust

    return trust.ask(args)


def _global_options(words: "list[str]") -> "tuple[dict[str, str], list[str]]":
    """Parse the options before the command: -u NAME, -m ADDRESS, -v."""
    takes = {"-u": "user", "--user": "user", "-m": "master", "--master": "master"}
    options: dict[str, str] = {}
    while words and words[0].startswith("-"):
        word, eq, value = words[0].partition("=")
        if word in takes and (eq or len(words) > 1):
            options[takes[word]] = value if eq else words[1]
            words = words[1:] if eq else words[2:]
        elif word in ("-v", "--version"):
            return {"version": "1"}, []
        elif word in ("-h", "--help"):
            return options, ["--help"]
        elif word in takes:
            raise errors.UsageError(f"option {word} needs a value")
        else:
            raise errors.UsageError(f"det has no option '{words[0]}'", "`det --help` lists them")
    return options, words


def _complain(error: BaseException, path: str, found: "Found | None" = None) -> int:
    told = errors.tell(error, path)
    if told is None:
        cause = f"{type(error).__name__}: {error}"
        told = errors.ErrorReport(
            errors.FAILED,
            f"unexpected failure: {cause}",
            "set DET_DEBUG=1 to see where it happened",
        )
    sys.stdout.flush()
    command = f"det {path}".rstrip()
    cause = errors.as_typed(told.cause, names_of(found.node)) if found else told.cause
    print(f"{command}: {cause}", file=sys.stderr)
    if told.hint:
        print(f"\nhint: {told.hint}", file=sys.stderr)
    return told.code


if __name__ == "__main__":
    sys.exit(main())
