"""A script that would train 40 batches, if its searcher let it."""

import determined as det
from determined import pytorch
from lightning_def import Trial

if __name__ == "__main__":
    info = det.get_cluster_info()
    assert info is not None
    with pytorch.init() as context:
        pytorch.Trainer(Trial(context), context).fit(
            max_length=pytorch.Batch(40),
            validation_period=pytorch.Batch(4),
            reporting_period=pytorch.Batch(40),
            latest_checkpoint=info.latest_checkpoint,
        )
