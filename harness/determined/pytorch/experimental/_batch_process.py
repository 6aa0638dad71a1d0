"""`torch_batch_process`, which shards a data set over slots, saves its progress, and resumes."""

import json
import logging
import pathlib
from typing import Any, Dict, Iterator, List, Optional, Type

import torch

from determined._info import task_info
from determined.pytorch import _rng
from determined.pytorch._init import join_workers
from determined.pytorch.experimental._processor import (
    TorchBatchProcessor,
    TorchBatchProcessorContext,
)
from determined.pytorch.samplers import adapt_batch_sampler

logger = logging.getLogger("determined.pytorch")

PROGRESS_FILE = "batch_progress.json"


def torch_batch_process(
    batch_processor_cls: Type[TorchBatchProcessor],
    dataset: Any,
    batch_size: Optional[int] = None,
    max_batches: Optional[int] = None,
    checkpoint_interval: int = 5,
    dataloader_kwargs: Optional[Dict[str, Any]] = None,
    distributed_context: Optional[Any] = None,
) -> None:
    """Run a processor over a map-style data set. Each slot processes a shard.

    Progress is saved every `checkpoint_interval` batches, so that a paused or restarted run continues there.
    Preemption is checked at the same time. `max_batches` limits the total of all slots.
    """
    from determined import core

    options = dict(dataloader_kwargs or {})
    _check(dataset, checkpoint_interval, options)
    size = batch_size or options.pop("batch_size", None) or 1
    options.pop("batch_size", None)
    backend, distributed = join_workers(distributed_context)
    info = task_info()
    with core.init(
        distributed=distributed, preempt_mode=core.PreemptMode.ChiefOnly
    ) as core_context:
        _rng.seed_everything(info.trial.trial_seed if info and info.task_type == "TRIAL" else 0)
        latest = info.latest_checkpoint if info is not None else None
        run = _Run(core_context, checkpoint_interval, latest)
        batches = _batches(dataset, size, options, core_context.distributed, run.skip)
        run.process(batch_processor_cls, batches, _limit(dataset, size, max_batches, core_context))
    backend.close()


class _Run:
    """A rank's share of a batch inference. Ranks synchronize at each checkpoint."""

    def __init__(self, core_context: Any, interval: int, latest: Optional[str]) -> None:
        self._core = core_context
        self._distributed = core_context.distributed
        self._interval = interval
        self.skip = 0
        storage_id = None
        if latest is not None:
            with core_context.checkpoint.restore_path(latest) as path:
                progress = json.loads((pathlib.Path(path) / PROGRESS_FILE).read_text())
            self.skip = int(progress["batches"])
            storage_id = progress["storage_path"]
        self._storage_path = storage_id or self._distributed.broadcast(_new_id())

    def process(
        self, processor_class: Type[TorchBatchProcessor], batches: Iterator[Any], limit: int
    ) -> None:
        context = TorchBatchProcessorContext(self._core, self._storage_path)
        processor = processor_class(context)
        max_limit = self._max_limit(limit)
        for index in range(self.skip, max_limit):
            batch = next(batches, None) if index < limit else None
            if batch is not None:
                processor.process_batch(batch, index)
            batches_done = index + 1
            if batches_done % self._interval == 0 or batches_done == max_limit:
                processor.on_checkpoint_start()
                if self._save(batches_done, context) and batches_done < max_limit:
                    logger.info("preempted after %d batches", batches_done)
                    return
        processor.on_finish()
        self._report_reducers(context, max_limit)

    def _max_limit(self, limit: int) -> int:
        """Return the largest limit of all ranks. Ranks with one batch less still take part in the last checkpoint."""
        limits: List[int] = self._distributed.allgather(limit)
        return max(limits)

    def _save(self, done: int, context: TorchBatchProcessorContext) -> bool:
        """Save progress when every rank has arrived. Return whether to stop."""
        arrived = self._distributed.gather(done)
        stop = False
        if arrived is not None:
            progress = {"batches": done, "storage_path": self._storage_path}
            with self._core.checkpoint.store_path({"steps_completed": done}) as (path, _):
                (path / PROGRESS_FILE).write_text(json.dumps(progress))
            stop = bool(self._core.preempt.should_preempt())
        return bool(self._distributed.broadcast(stop))

    def _report_reducers(self, context: TorchBatchProcessorContext, done: int) -> None:
        gathered = self._distributed.gather(context._per_slot(training=False))
        if gathered:
            metrics = context._cross_slot(training=False, per_slot=gathered)
            if metrics:
                self._core.train.report_metrics("inference", done, metrics)


def _batches(
    dataset: Any, batch_size: int, options: Dict[str, Any], distributed: Any, skip: int
) -> Iterator[Any]:
    """Return an iterator over this rank's batches."""
    sequential = torch.utils.data.SequentialSampler(dataset)
    batch_sampler = torch.utils.data.BatchSampler(sequential, batch_size, False)
    adapted = adapt_batch_sampler(
        batch_sampler, skip=skip, num_replicas=distributed.size, rank=distributed.rank
    )
    loader = torch.utils.data.DataLoader(dataset, batch_sampler=adapted, **options)
    return iter(loader)


def _limit(dataset: Any, batch_size: int, max_batches: Optional[int], core_context: Any) -> int:
    """Return the number of batches of this rank."""
    total = -(-len(dataset) // batch_size)
    if max_batches is not None:
        total = min(total, max_batches)
    size, rank = core_context.distributed.size, core_context.distributed.rank
    return int(total // size + (rank < total % size))


def _check(dataset: Any, checkpoint_interval: int, options: Dict[str, Any]) -> None:
    if isinstance(dataset, torch.utils.data.IterableDataset):
        raise ValueError("torch_batch_process needs a map-style dataset to shard and resume it")
    if checkpoint_interval < 1:
        raise ValueError(f"checkpoint_interval must be at least 1, not {checkpoint_interval}")
    reserved: List[str] = sorted(
        {"sampler", "batch_sampler", "shuffle", "drop_last"} & set(options)
    )
    if reserved:
        raise ValueError(
            f"dataloader_kwargs may not contain {', '.join(reserved)}: sharding sets it"
        )


def _new_id() -> str:
    import uuid

    return str(uuid.uuid4())
