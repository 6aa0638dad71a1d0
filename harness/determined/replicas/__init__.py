"""Replicas: the newest training state of a trial in the memory of its machines.

After the loss of a machine, a trial resumes from its newest replica, which is newer than its newest checkpoint.

- The agent gives each trial a directory in memory (`DET_REPLICA_DIR`). It outlives the processes of a run.
- A replica consists of items. `state` is equal on all ranks, and stored once on each machine. `rank-N` belongs to one
  rank, and is stored on its machine and on the next one.
- Each item has two files that are written in turn (`_slots`), so an interrupted write leaves the replica before valid.
- Every call of `replicate` is a barrier: the replica before is complete on all machines.
- After a restart, all ranks choose the newest replica that the remaining machines hold (`_choice`). The control plane
  confirms it, because the metrics up to its step must be stored.
"""
