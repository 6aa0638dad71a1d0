"""`det experiment watch` and `det top`: live screens of an experiment and of the cluster."""

import argparse

from determined.common.sign_in import SignedIn, open_session, sign_in
from determined.common.token_store import TokenStore

from det_cli.connection import V1, address, connect
from det_cli.errors import FAILED, OK
from det_cli.live import cluster_screen, experiment_screen
from det_cli.live.cluster import Cluster
from det_cli.live.experiment import Experiment
from det_cli.live.observer import Observer
from det_cli.live.readers import ClusterReader, ExperimentReader
from det_cli.live.show import View, show

_TIMEOUT_S = 15.0
_EXPERIMENT = View(
    experiment_screen.lines, experiment_screen.one_line, experiment_screen.as_data,
    code=lambda e: None if not e.ended else OK if e.state == "COMPLETED" else FAILED,
)  # fmt: skip
_CLUSTER = View(cluster_screen.lines, cluster_screen.one_line, cluster_screen.as_data)


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
    """Sign in before the full-screen display starts, because it cannot ask for a password."""
    session = connect(args)
    session.get(V1 + "/me")
    if session.token is None:
        return _without_retries(session)
    master = address(args)
    user = args.user or session.username or None
    return _without_retries(sign_in(open_session(master), TokenStore(master), username=user))


def _without_retries(session: SignedIn) -> SignedIn:
    """Disable the retries of a session. The observer retries and shows the outage."""
    session.retries = 0
    session.timeout_s = _TIMEOUT_S
    return session
