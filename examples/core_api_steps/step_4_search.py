"""Step 4: let the cluster choose hyperparameters, and stop the trials that look worse than others."""

import logging

import determined as det
from line import Line, points

STEPS = 200
PERIOD = 50


def main(core: det.core.Context, learning_rate: float) -> None:
    line, training, validation = Line(), points(STEPS, seed=1), points(100, seed=2)
    for step, (x, y) in enumerate(training, start=1):
        line.learn(x, y, learning_rate)
        if step % PERIOD == 0:
            # `steps` is the searcher's time_metric, the progress of the trial.
            metrics = {"error": line.mean_error(validation), "steps": step}
            core.train.report_validation_metrics(step, metrics)
            if core.preempt.should_preempt():
                return


if __name__ == "__main__":
    # Off a cluster, reports are log lines.
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    info = det.get_cluster_info()
    with det.core.init() as core:
        main(core, info.trial.hparams["learning_rate"] if info else 0.1)
