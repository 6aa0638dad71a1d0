"""Keep bytes in memory after each step, and crash once."""

import determined as det

STEPS, CRASH_AFTER = 20, 13

with det.core.init() as core:
    replica = core.checkpoint.restore_replica()
    start = replica.steps_completed if replica else 0
    print(f"starts after step {start} with {replica.state if replica else None}", flush=True)
    for step in range(start + 1, STEPS + 1):
        core.train.report_training_metrics(step, {"loss": step})
        core.checkpoint.replicate(f"state {step}".encode(), step)
        if step == CRASH_AFTER and start == 0:
            raise SystemExit("the first run crashes")
    core.train.report_validation_metrics(STEPS, {"loss": STEPS})
