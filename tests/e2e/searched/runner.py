"""The method of examples/custom_search, in this process or in a task."""

import logging
import sys

import determined as det
from determined import searcher
from halving import SuccessiveHalving

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    method = SuccessiveHalving(trials=9, lengths=[4, 12, 36], seed=3)
    if det.get_cluster_info() is None:
        searcher.LocalSearchRunner(method, sys.argv[1]).run("searched.yaml", ".")
    else:
        with det.core.init() as core:
            searcher.RemoteSearchRunner(method, core).run("searched.yaml", ".")
