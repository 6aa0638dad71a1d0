"""Print the best trial of an experiment: `best_trial.py MASTER_URL EXPERIMENT_ID`."""

import os
import sys

from determined.experimental import client


def main() -> None:
    master, experiment_id = sys.argv[1], int(sys.argv[2])
    user, password = os.environ.get("DET_USER"), os.environ.get("DET_PASS")
    client.login(master=master, user=user, password=password)
    experiment = client.get_experiment(experiment_id)
    checkpoint = experiment.top_checkpoint()
    training = checkpoint.training
    assert training is not None, "a checkpoint of an experiment has a trial"
    metric = (experiment.config or {})["searcher"]["metric"]
    value = (training.validation_metrics or {}).get("avgMetrics", {}).get(metric)
    print(f"trial            {training.trial_id} of experiment {experiment_id}")
    print(f"{metric:<16} {value:.4f}" if isinstance(value, float) else f"{metric:<16} {value}")
    for name, hparam in sorted((training.hparams or {}).items()):
        print(f"{name:<16} {hparam:.6g}" if isinstance(hparam, float) else f"{name:<16} {hparam}")
    print(f"checkpoint       {checkpoint.uuid}")


if __name__ == "__main__":
    main()
