"""Messages between the ranks about a sharded checkpoint that is stored in the background.

They go through the key-value store of torch.distributed, because collectives belong to the training thread.
"""

import math
import pickle
import time
from typing import Any, Dict, List, Mapping, Optional

from determined.checkpointing._jobs import Written

_POLL_S = 0.05
_MAX_POLL_S = 0.2
# The store is a part of the chief, which may exit at once. The other ranks read the end of the checkpoint before.
_LAST_READS_S = 5.0


class Exchange:
    """The messages of a checkpoint. Each rank sends its result, and the chief the start and the end."""

    def __init__(self, storage_id: str, rank: int, size: int) -> None:
        self._rank = rank
        self._size = size
        self._store = _store(storage_id) if size > 1 else _Memory()

    def announce(self) -> None:
        self._store.set("announced", b"1")

    def wait_for_announcement(self) -> None:
        """Wait until the chief announced the checkpoint. Raise if that failed."""
        self._wait(["announced", "end"], any_of_them=True)
        if self._store.check(["end"]):
            self.wait_for_end()

    def send(self, written: Optional[Written], error: Optional[BaseException]) -> None:
        result = (written, None if error is None else text_of(error))
        self._store.set(f"rank-{self._rank}", pickle.dumps(result))

    def collect(self) -> List[Written]:
        """Return the results of all ranks. Raise if a rank failed."""
        keys = [f"rank-{rank}" for rank in range(self._size)]
        self._wait(keys)
        results = [pickle.loads(self._store.get(key)) for key in keys]
        failed = {rank: error for rank, (_, error) in enumerate(results) if error}
        if failed:
            raise RuntimeError(f"the checkpoint failed on {by_cause(failed)}")
        return [written for written, _ in results]

    def end(self, error: Optional[BaseException]) -> None:
        """Send the end of the checkpoint to the other ranks, successful or not."""
        self._store.set("end", b"" if error is None else text_of(error).encode())
        self._wait([f"read-{rank}" for rank in range(1, self._size)], limit_s=_LAST_READS_S)

    def wait_for_end(self) -> None:
        """Wait until the chief reported the checkpoint. Raise if it failed."""
        self._wait(["end"])
        error = self._store.get("end").decode()
        self._store.set(f"read-{self._rank}", b"1")
        if error:
            raise RuntimeError(f"the checkpoint failed on the chief: {error}")

    def _wait(self, keys: List[str], any_of_them: bool = False, limit_s: float = math.inf) -> None:
        pause_s = _POLL_S
        deadline = time.monotonic() + limit_s
        combine = any if any_of_them else all
        while not combine(self._store.check([key]) for key in keys):
            if time.monotonic() > deadline:
                return
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _MAX_POLL_S)


def text_of(error: Any) -> str:
    """Return the message of an error. The classes of other errors say more than their messages."""
    if isinstance(error, (OSError, RuntimeError, ValueError, str)) and str(error):
        return str(error)
    return repr(error)


def by_cause(failures: Mapping[int, Any]) -> str:
    """Return "ranks 0 and 2: CAUSE; rank 1: CAUSE", because a storage often fails for all ranks alike."""
    ranks: Dict[str, List[int]] = {}
    for rank in sorted(failures):
        ranks.setdefault(text_of(failures[rank]), []).append(rank)
    return "; ".join(f"{_ranks(numbers)}: {cause}" for cause, numbers in ranks.items())


def _ranks(numbers: List[int]) -> str:
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    return f"ranks {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


class _Memory:
    """The store of a single rank."""

    def __init__(self) -> None:
        self._values: Dict[str, bytes] = {}

    def set(self, key: str, value: bytes) -> None:
        self._values[key] = value

    def get(self, key: str) -> bytes:
        return self._values[key]

    def check(self, keys: List[str]) -> bool:
        return all(key in self._values for key in keys)


def _store(storage_id: str) -> Any:
    from torch import distributed
    from torch.distributed import distributed_c10d

    if not distributed.is_initialized():
        raise RuntimeError(
            "sharded checkpoints need torch.distributed: start the trial with determined.launch.torch_distributed, "
            "and call torch.distributed.init_process_group()"
        )
    default = distributed_c10d._get_default_store()
    return distributed.PrefixStore(f"determined-checkpoint-{storage_id}", default)
