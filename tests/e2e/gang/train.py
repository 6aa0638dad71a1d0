"""A training of one rank a machine: each step needs the numbers of all ranks, and one rank alone is stuck."""

import json
import os
import pathlib
import time

import determined as det

GATE = os.environ["GANG_GATE"]
HELD_AT, STEPS, PAUSE_S = 15, 30, 0.02


def main() -> None:
    info = det.get_cluster_info()
    assert info is not None
    rank, size = info.container_rank, len(info.container_addrs)
    peers = det.core.DistributedContext(
        rank=rank, size=size, local_rank=0, local_size=1, cross_rank=rank, cross_size=size,
        chief_ip=info.container_addrs[0],
    )  # fmt: skip
    with det.core.init(distributed=peers) as core:
        value, step = 0, 0
        if info.latest_checkpoint is not None:
            with core.checkpoint.restore_path(info.latest_checkpoint) as path:
                document = json.loads((path / "state.json").read_text())
            value, step = document["value"], document["step"]
            print(f"rank {rank} of {size} resumed at step {step}")
        while step < STEPS:
            step += 1
            value += sum(peers.allgather(step * (rank + 1)))
            time.sleep(PAUSE_S)
            preempted = core.preempt.should_preempt()
            while step == HELD_AT and not preempted and not peers.broadcast(os.path.exists(GATE)):
                time.sleep(PAUSE_S)
                preempted = core.preempt.should_preempt()
            if preempted or step % 10 == 0:
                save(core, rank, step, value)
            if preempted:
                print(f"rank {rank} preempted at step {step}")
                return
        if rank == 0:
            core.train.report_validation_metrics(STEPS, {"loss": 1.0, "batches": STEPS})
    # Every step adds its number once for each machine and once more for the second.
    print(f"rank {rank} finished: {'exact' if value == 3 * STEPS * (STEPS + 1) // 2 else 'WRONG'}")


def save(core: "det.core.Context", rank: int, step: int, value: int) -> None:
    if rank == 0:
        with core.checkpoint.store_path({"steps_completed": step}) as (path, _):
            state = json.dumps({"value": value, "step": step})
            (pathlib.Path(path) / "state.json").write_text(state)
        print(f"saved step {step}")


if __name__ == "__main__":
    main()
