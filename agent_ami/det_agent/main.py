"""`det-agent run`: the command that systemd, `det deploy local` and people start."""

import argparse
import logging
import os
import signal
import sys
from collections.abc import Sequence

from det_agent.agent import Agent
from det_agent.loop import Replaced, Silent
from det_agent.runtime import StartFailed
from det_agent.settings import BadSettings, add_flags, load
from det_agent.slots import SlotsUnavailable

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_REPLACED = 0, 1, 2, 5

_log = logging.getLogger("det_agent")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="det-agent", description="Runs the containers of a Determined cluster on this machine."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run until stopped")
    add_flags(run)
    arguments = vars(parser.parse_args(argv))
    try:
        settings = load(arguments, os.environ)
        _set_up_log(settings.log_level)
        agent = Agent(settings)
    except (BadSettings, SlotsUnavailable, StartFailed, OSError) as e:
        print(f"det-agent: {e}", file=sys.stderr)
        return EXIT_USAGE if isinstance(e, BadSettings | SlotsUnavailable) else EXIT_FAILED
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.stop())
    return _run(agent)


def _run(agent: Agent) -> int:
    try:
        agent.run()
    except Replaced as e:
        _log.error("another process took this agent over: %s", e)
        return EXIT_REPLACED
    except Silent as e:
        _log.error("stopping: %s", e)
        return EXIT_FAILED
    return EXIT_OK


def _set_up_log(level: str) -> None:
    names = {"trace": logging.DEBUG, "debug": logging.DEBUG, "warning": logging.WARNING}
    chosen = names.get(level.lower(), logging.ERROR if level == "error" else logging.INFO)
    logging.basicConfig(
        level=chosen, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    for chatty in ("urllib3", "docker"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
