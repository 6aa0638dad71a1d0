"""Fit a line by gradient descent; the summary of the pipeline shows the last error."""

import determined as det

POINTS = [(x / 10, 3 * x / 10 + 1) for x in range(20)]


def main(core: det.core.Context) -> None:
    info = det.get_cluster_info()
    assert info is not None
    rate = float(info.trial.hparams["learning_rate"])
    slope = offset = 0.0
    for step in range(1, 101):
        errors = [(slope * x + offset - y, x) for x, y in POINTS]
        slope -= rate * sum(e * x for e, x in errors) / len(POINTS)
        offset -= rate * sum(e for e, _ in errors) / len(POINTS)
        if step % 20 == 0:
            error = sum(e * e for e, _ in errors) / len(POINTS)
            core.train.report_validation_metrics(step, {"error": error})


if __name__ == "__main__":
    with det.core.init() as core:
        main(core)
