"""Counts to `steps`: metrics at every step, a validation and a checkpoint at every second one."""

import time

import determined as det


def main() -> None:
    info = det.get_cluster_info()
    assert info is not None
    hparams = info.trial.hparams
    with det.core.init() as core:
        done = 0
        if info.latest_checkpoint:
            with core.checkpoint.restore_path(info.latest_checkpoint) as path:
                done = int((path / "state").read_text())
            print(f"resumed at {done}", flush=True)
        for step in range(done + 1, hparams["steps"] + 1):
            loss = hparams["lr"] / step
            print(f"step {step}", flush=True)
            time.sleep(hparams["pause"])  # the work
            core.train.report_training_metrics(step, {"loss": loss})
            if step % 2 == 0:
                core.train.report_validation_metrics(step, {"val_loss": loss})
                with core.checkpoint.store_path({"steps_completed": step}) as (path, _):
                    (path / "state").write_text(str(step))
            if core.preempt.should_preempt():
                return


main()
