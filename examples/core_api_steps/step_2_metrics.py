"""Step 2: report metrics and progress. `core.init()` works off a cluster, too, and then only logs."""

import logging

import determined as det
from line import Line, points

STEPS = 200
PERIOD = 50


def main(core: det.core.Context) -> None:
    line, training, validation = Line(), points(STEPS, seed=1), points(100, seed=2)
    losses = []
    for step, (x, y) in enumerate(training, start=1):
        losses.append(line.learn(x, y, learning_rate=0.1))
        if step % PERIOD == 0:
            core.train.report_training_metrics(step, {"loss": sum(losses) / len(losses)})
            core.train.report_validation_metrics(step, {"error": line.mean_error(validation)})
            core.train.report_progress(step / STEPS)
            losses = []


if __name__ == "__main__":
    # Off a cluster, reports are log lines.
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with det.core.init() as core:
        main(core)
