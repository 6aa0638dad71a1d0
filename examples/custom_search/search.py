"""Search the learning rate of the NumPy example with a custom method.

Here:           python3 search.py            (run it again after an interruption to continue)
On a cluster:   det experiment create in_cluster.yaml . --include ../numpy_digits
"""

import argparse
import logging
import pathlib

import determined as det
from determined import searcher
from halving import SuccessiveHalving

HERE = pathlib.Path(__file__).parent
CONFIG = HERE / "searched.yaml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--in-cluster", action="store_true")
    parser.add_argument("--searcher-dir", type=pathlib.Path, default=HERE / "search_state")
    parser.add_argument("--trials", type=int, default=9)
    parser.add_argument("--lengths", type=int, nargs="+", default=[60, 180, 480])
    arguments = parser.parse_args()
    method = SuccessiveHalving(arguments.trials, arguments.lengths, seed=7)
    if arguments.in_cluster:
        # `--include` has put the code of the trials beside this file.
        with det.core.init() as core:
            searcher.RemoteSearchRunner(method, core).run(CONFIG, HERE / "numpy_digits")
    else:
        runner = searcher.LocalSearchRunner(method, arguments.searcher_dir)
        experiment_id = runner.run(CONFIG, HERE.parent / "numpy_digits")
        print(f"experiment {experiment_id} has ended")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    main()
