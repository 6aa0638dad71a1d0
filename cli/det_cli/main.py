"""The `det` command: find the command, run it, and report failures in plain sentences."""

import os
import sys
from typing import TYPE_CHECKING

# Functions import the other modules, so that Ctrl-C during these imports prints no traceback.
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from det_cli.find import Match

_INTERRUPTED = 130


def main(argv: "Sequence[str] | None" = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _main(words)
    except KeyboardInterrupt:
        if os.environ.get("DET_DEBUG") == "1":
            raise
        print("det: interrupted", file=sys.stderr)
        return _INTERRUPTED


def _main(words: "list[str]") -> int:
    from det_cli import errors
    from det_cli.other_owners import warning

    try:
        if other := warning():
            print(f"det: warning: {other}", file=sys.stderr)
        code = _run(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader closed the pipe (`det … | head`). Later writes must not raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return errors.OK


def _run(words: "list[str]") -> int:
    from det_cli import errors
    from det_cli.find import find

    path, match = "", None
    try:
        options, words = _global_options(words)
        if options.get("version"):
            from det_cli import __version__, product_version

            print(f"det {__version__} (Determined Serverless {product_version()})")
            return errors.OK
        if not words or words[0] in ("-h", "--help", "help"):
            return _help(words[1:])
        match = find(words)
        path = " ".join(match.path)
        return _run_match(match, options)
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as e:
        if os.environ.get("DET_DEBUG") == "1":
            raise
        return _complain(e, path, match)


def _help(words: "list[str]") -> int:
    from det_cli import errors
    from det_cli.find import find
    from det_cli.help import print_group, print_top

    if not words:
        print_top()
        return errors.OK
    match = find([*words, "-h"])
    return print_group(match) if match.rest == ["-h"] else errors.OK


def _run_match(match: "Match", options: "dict[str, str]") -> int:
    from det_cli import errors
    from det_cli.declare import Group

    if isinstance(match.node, Group):
        from det_cli.help import print_group

        return print_group(match)
    from importlib import import_module

    from det_cli.parse import parse

    args = parse(match, options)
    if any("old:" in word for word in match.rest):
        from det_cli.old_ids import resolve

        resolve(args, match.node)
    module, _, function = match.node.run.partition(":")
    action = getattr(import_module(f"det_cli.actions.{module}"), function)
    try:
        code = action(args)
    except Exception as e:
        if not _ask_for_trust(e, args):
            raise
        code = action(args)
    return errors.OK if code is None else int(code)


def _ask_for_trust(error: Exception, args: "Namespace") -> bool:
    """Ask the user to trust an unverified certificate. Return True if the command should run again.

    Running it again is safe because it has not sent a request yet.
    """
    if "determined.common.http" not in sys.modules:
        return False
    from determined.common.http import UntrustedMasterError

    if not isinstance(error, UntrustedMasterError):
        return False
    from det_cli import trust

    return trust.ask(args)


def _global_options(words: "list[str]") -> "tuple[dict[str, str], list[str]]":
    """Parse the options before the command: -u NAME, -m ADDRESS, -v."""
    from det_cli import errors

    fields = {"-u": "user", "--user": "user", "-m": "master", "--master": "master"}
    options: dict[str, str] = {}
    while words and words[0].startswith("-"):
        word, eq, value = words[0].partition("=")
        if word in fields and (eq or len(words) > 1):
            options[fields[word]] = value if eq else words[1]
            words = words[1:] if eq else words[2:]
        elif word in ("-v", "--version"):
            return {"version": "1"}, []
        elif word in ("-h", "--help"):
            return options, ["--help"]
        elif word in fields:
            raise errors.UsageError(f"option {word} needs a value")
        else:
            raise errors.UsageError(f"det has no option '{words[0]}'", "`det --help` lists them")
    return options, words


def _complain(error: BaseException, path: str, match: "Match | None" = None) -> int:
    from det_cli import errors
    from det_cli.find import names_of

    report = errors.report_for(error, path)
    if report is None:
        cause = f"{type(error).__name__}: {error}"
        report = errors.ErrorReport(
            errors.FAILED,
            f"unexpected failure: {cause}",
            "set DET_DEBUG=1 to see where it happened",
        )
    sys.stdout.flush()
    command = f"det {path}".rstrip()
    cause = errors.as_typed(report.cause, names_of(match.node)) if match else report.cause
    print(f"{command}: {cause}", file=sys.stderr)
    if report.hint:
        print(f"\nhint: {report.hint}", file=sys.stderr)
    return report.code


if __name__ == "__main__":
    sys.exit(main())
