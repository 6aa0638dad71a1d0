"""A first run that is slow enough to be paused; the one after it hurries."""

import os
import time


def step(number: int) -> None:
    print(f"did step {number}", flush=True)
    if os.environ["DET_TRIAL_RUN_ID"] == "1":
        time.sleep(0.5)
