"""Run work on several ranks. If it fails on one rank it fails on all, so that no rank blocks forever."""

from typing import Any, Callable, List, Optional

from determined.core._distributed import DistributedContext


def on_every_rank(distributed: DistributedContext, work: Callable[[], Any]) -> List[Any]:
    """Call `work` on every rank and return all results. If one call fails, every rank raises."""
    error: Optional[BaseException] = None
    result: Any = None
    try:
        result = work()
    except Exception as e:
        error = e
    outcomes = distributed.allgather((result, repr(error) if error else None))
    if error is not None:
        raise error
    failed = [f"rank {r}: {o[1]}" for r, o in enumerate(outcomes) if o[1] is not None]
    if failed:
        raise RuntimeError(f"the checkpoint failed on another worker: {'; '.join(failed)}")
    return [o[0] for o in outcomes]


def on_local_chief(distributed: DistributedContext, work: Callable[[], Any]) -> Any:
    """Call `work` once for each container. Every worker of the container returns its result, or raises."""
    if distributed.local_rank != 0:
        result, error = distributed.broadcast_local(None)
        if error is not None:
            raise RuntimeError(f"the download failed on this container's local chief: {error}")
        return result
    try:
        result = work()
    except Exception as e:
        distributed.broadcast_local((None, repr(e)))
        raise
    distributed.broadcast_local((result, None))
    return result
