"""The same trial, started by a script."""

import determined as det
import model_def
from determined import pytorch


def main() -> None:
    info = det.get_cluster_info()
    assert info is not None
    with pytorch.init() as context:
        trial = model_def.NoisyTrial(context)
        pytorch.Trainer(trial, context).fit(
            max_length=pytorch.Batch(int(context.get_hparam("batches"))),
            reporting_period=pytorch.Batch(2),
            latest_checkpoint=info.latest_checkpoint,
        )


if __name__ == "__main__":
    main()
