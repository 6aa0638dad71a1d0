"""The command `det-agent`. systemd and `det deploy local` start `run`. Other commands are `doctor`, `pull`,
`systemd-unit` and `machine-setup`."""

import argparse
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from det_controlplane.core.interface import PRODUCT_VERSION
from det_controlplane.core.json_log import JSON, JsonLines

from det_agent.agent import Agent
from det_agent.loop import AgentReplaced, ControlPlaneSilent
from det_agent.metadata import AwsMetadata, GcpMetadata
from det_agent.notices import AwsNotices, GcpNotices, SignalSource
from det_agent.runtime import StartFailed
from det_agent.settings import BadSettings, Settings, add_flags, load
from det_agent.slots import SlotsUnavailable

UNIT = Path(__file__).parent / "det-agent.service"
MACHINE_SETUP = Path(__file__).parent / "machine-setup.sh"
_PRINTED = {"systemd-unit": UNIT, "machine-setup": MACHINE_SETUP}
DOCTOR_IMAGE = "busybox:latest"
EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_REPLACED = 0, 1, 2, 5

_log = logging.getLogger("det_agent")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="det-agent", description="Runs the containers of a Determined cluster on this machine."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {PRODUCT_VERSION}")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run until stopped")
    add_flags(run)
    doctor = commands.add_parser("doctor", help="check what an agent on this machine depends on")
    add_flags(doctor)
    _add_doctor_flags(doctor)
    pull = commands.add_parser("pull", help="pull images over several connections a layer")
    pull.add_argument("images", nargs="+", metavar="IMAGE")
    commands.add_parser("systemd-unit", help="print the unit by which systemd runs the agent")
    commands.add_parser(
        "machine-setup", help="print the script that prepares a rented machine for work"
    )
    arguments = vars(parser.parse_args(argv))
    if arguments["command"] == "doctor":
        return _examine(arguments)
    if arguments["command"] == "pull":
        return _pull(arguments["images"])
    if arguments["command"] in _PRINTED:
        print(_PRINTED[arguments["command"]].read_text("utf-8"), end="")
        return EXIT_OK
    try:
        settings = load(arguments, os.environ)
        _set_up_log(settings)
        agent = Agent(settings, _notices(settings))
    except (BadSettings, SlotsUnavailable, StartFailed, OSError) as e:
        print(f"det-agent: {e}", file=sys.stderr)
        return EXIT_USAGE if isinstance(e, BadSettings | SlotsUnavailable) else EXIT_FAILED
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.stop())
    return _run(agent)


def _notices(settings: Settings) -> tuple[SignalSource, ...]:
    """Return the sources of notices that the cloud stops this machine."""
    if settings.identity == "aws":
        return (AwsNotices(AwsMetadata(), settings.on_rebalance),)
    return (GcpNotices(GcpMetadata()),) if settings.identity == "gcp" else ()


def _add_doctor_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--image", default=DOCTOR_IMAGE, help=f"image whose registry is asked ({DOCTOR_IMAGE})"
    )
    parser.add_argument(
        "--checkpoint-storage",
        default="",
        metavar="URL",
        help="where a file is stored and deleted again: s3://bucket/prefix, gs://bucket/prefix or a directory",
    )


def _examine(arguments: Mapping[str, Any]) -> int:
    from det_agent.doctor import Target, examine, print_findings

    try:
        settings = load(arguments, os.environ)
    except BadSettings as e:
        print(f"det-agent: {e}", file=sys.stderr)
        return EXIT_USAGE
    target = Target(settings, arguments["image"], arguments["checkpoint_storage"])
    return EXIT_OK if print_findings(examine(target), print) else EXIT_FAILED


def _pull(images: Sequence[str]) -> int:
    """Pull images one after the other. A failed pull does not stop the next one."""
    import docker
    from docker.errors import DockerException

    from det_agent.docker_pull import pull

    failures = 0
    for image in images:
        try:
            pull(docker.from_env(timeout=3600).api, image, say=print)
        except (StartFailed, DockerException) as e:
            print(f"det-agent: {e}", file=sys.stderr)
            failures += 1
    return EXIT_FAILED if failures else EXIT_OK


def _run(agent: Agent) -> int:
    try:
        agent.run()
    except AgentReplaced as e:
        _log.error("another process took this agent over: %s", e)
        return EXIT_REPLACED
    except ControlPlaneSilent as e:
        _log.error("stopping: %s", e)
        return EXIT_FAILED
    return EXIT_OK


def _set_up_log(settings: Settings) -> None:
    level = settings.log_level
    names = {"trace": logging.DEBUG, "debug": logging.DEBUG, "warning": logging.WARNING}
    log_level = names.get(level.lower(), logging.ERROR if level == "error" else logging.INFO)
    logging.basicConfig(
        level=log_level, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    if settings.log_format == JSON:
        ids = {"agent_id": settings.agent_id, "pool": settings.resource_pool}
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonLines(ids))
    for chatty in ("urllib3", "docker"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
