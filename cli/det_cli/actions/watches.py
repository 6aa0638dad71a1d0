"""Live pictures of an experiment and of the cluster."""

import argparse

from determined.common.http import Session
from determined.common.sign_in import SignedIn, open_session, sign_in
from determined.common.token_store import TokenStore

from det_cli.connection import V1, address, connect
from det_cli.errors import FAILED, OK
from det_cli.live import experiment_screen
from det_cli.live.experiment import Experiment
from det_cli.live.experiment_reader import ExperimentReader
from det_cli.live.observer import Observer
from det_cli.live.show import Picture, show

_TIMEOUT_S = 15.0
_EXPERIMENT = Picture(
    experiment_screen.lines, experiment_screen.one_line, experiment_screen.as_data,
    code=lambda e: None if not e.ended else OK if e.state == "COMPLETED" else FAILED,
)  # fmt: skip


def experiment(args: argparse.Namespace) -> int:
    reader = ExperimentReader(_session(args), args.experiment_id)
    observer: Observer[Experiment] = Observer(reader.read, reader.pause_at_least_s)
    return show(observer, _EXPERIMENT, once=args.once, as_json=args.format == "json")


def _session(args: argparse.Namespace) -> Session:
    """Sign in before the screen is taken; behind the picture nobody can be asked for a password."""
    asked = connect(args)
    asked.get(V1 + "/me")
    if asked.token is None:
        return _impatient(asked)
    master = address(args)
    user = args.user or asked.username or None
    return _impatient(sign_in(open_session(master), TokenStore(master), username=user))


def _impatient(session: SignedIn) -> Session:
    """Leave it to the observer to try again: it shows an outage meanwhile."""
    session.retries = 0
    session.timeout_s = _TIMEOUT_S
    return session
