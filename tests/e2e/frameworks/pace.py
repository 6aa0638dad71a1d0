"""A first run that is nowhere near its end when it is paused; the one after it hurries."""

import os
import time

SLOW_FROM = 3


def step(number: int) -> None:
    print(f"did step {number}", flush=True)
    if os.environ["DET_TRIAL_RUN_ID"] == "1" and number >= SLOW_FROM:
        time.sleep(2)
