"""Step 3: save checkpoints, stop when the cluster asks for it, and continue from the last checkpoint."""

import json
import logging

import determined as det
from line import Line, points

STEPS = 200
PERIOD = 50


def load(core: det.core.Context, checkpoint: str) -> tuple[Line, int]:
    with core.checkpoint.restore_path(checkpoint) as folder:
        state = json.loads((folder / "line.json").read_text())
    return Line(state["slope"], state["offset"]), state["step"]


def save(core: det.core.Context, line: Line, step: int) -> None:
    with core.checkpoint.store_path({"steps_completed": step}) as (folder, _):
        (folder / "line.json").write_text(json.dumps({**vars(line), "step": step}))


def main(core: det.core.Context, checkpoint: "str | None") -> None:
    line, done = load(core, checkpoint) if checkpoint else (Line(), 0)
    training, validation = points(STEPS, seed=1), points(100, seed=2)
    for step in range(done + 1, STEPS + 1):
        line.learn(*training[step - 1], learning_rate=0.1)
        if step % PERIOD == 0:
            core.train.report_validation_metrics(step, {"error": line.mean_error(validation)})
            save(core, line, step)
            if core.preempt.should_preempt():
                print(f"asked to leave after step {step}")
                return


if __name__ == "__main__":
    # Off a cluster, reports are log lines.
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    info = det.get_cluster_info()
    with det.core.init() as core:
        main(core, info.latest_checkpoint if info else None)
