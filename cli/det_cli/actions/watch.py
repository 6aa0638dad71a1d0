"""Live pictures of an experiment and of the cluster."""

import argparse

from determined.common.sign_in import SignedIn, open_session, sign_in
from determined.common.token_store import TokenStore

from det_cli.connection import V1, address, connect
from det_cli.errors import FAILED, OK
from det_cli.live import cluster_screen, experiment_screen
from det_cli.live.cluster import Cluster
from det_cli.live.cluster_reader import ClusterReader
from det_cli.live.experiment import Experiment
from det_cli.live.experiment_reader import ExperimentReader
from det_cli.live.observer import Observer
from det_cli.live.show import Picture, show

_TIMEOUT_S = 15.0
_EXPERIMENT = Picture(
    experiment_screen.lines, experiment_screen.one_line, experiment_screen.as_data,
    code=lambda e: None if not e.ended else OK if e.state == "COMPLETED" else FAILED,
)  # fmt: skip
_CLUSTER = Picture(cluster_screen.lines, cluster_screen.one_line, cluster_screen.as_data)


def experiment(args: argparse.Namespace) -> int:
    reader = ExperimentReader(_session(args), args.experiment_id)
    observer: Observer[Experiment] = Observer(reader.read, reader.pause_at_least_s)
    return show(observer, _EXPERIMENT, once=args.once, as_json=args.format == "json")


def cluster(args: argparse.Namespace) -> int:
    session = _session(args)
    user = session.username or str(session.get(V1 + "/me")["user"]["username"])
    reader = ClusterReader(session, user)
    observer: Observer[Cluster] = Observer(reader.read, reader.pause_at_least_s)
    return show(observer, _CLUSTER, once=args.once, as_json=args.format == "json")


def _session(args: argparse.Namespace) -> SignedIn:
    """Sign in before the screen is taken; behind the picture nobody can be asked for a password."""
    asked = connect(args)
    asked.get(V1 + "/me")
    if asked.token is None:
        return _impatient(asked)
    master = address(args)
    user = args.user or asked.username or None
    return _impatient(sign_in(open_session(master), TokenStore(master), username=user))


def _impatient(session: SignedIn) -> SignedIn:
    """Keep a session from trying again: the observer does that, and shows an outage meanwhile."""
    session.retries = 0
    session.timeout_s = _TIMEOUT_S
    return session
