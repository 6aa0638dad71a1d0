"""Data-parallel training by PyTorch alone; the Core API reports, saves and stops all workers together.

On a cluster:             det experiment create distributed.yaml .
Here, with two workers:   torchrun --nproc-per-node 2 train.py
"""

import logging

import determined as det
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

BATCHES = 100
PERIOD = 25


def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(32, 1, generator=generator)
    return x, torch.sin(6 * x)


class Training:
    def __init__(self, rank: int, size: int) -> None:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
        self.model = DistributedDataParallel(net)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.rank, self.size, self.batches = rank, size, 0

    def train_batch(self) -> None:
        """Learn from this worker's share; DistributedDataParallel averages the gradients of all."""
        x, y = batch(self.batches * self.size + self.rank)
        self.optimizer.zero_grad()
        nn.functional.mse_loss(self.model(x), y).backward()
        self.optimizer.step()
        self.batches += 1

    def validate(self, core: det.core.Context) -> None:
        """Each worker measures a part of the validation set; the chief averages and reports."""
        x, y = batch(-1 - self.rank)
        with torch.no_grad():
            errors = core.distributed.gather(nn.functional.mse_loss(self.model(x), y).item())
        if errors is not None:
            metrics = {"validation_error": sum(errors) / len(errors)}
            core.train.report_validation_metrics(self.batches, metrics)

    def save(self, core: det.core.Context) -> None:
        """Store one checkpoint to which every worker adds a file."""
        metadata = {"steps_completed": self.batches}
        with core.checkpoint.store_path(metadata, shard=True) as (folder, _):
            if self.rank == 0:
                torch.save(self.model.module.state_dict(), folder / "model.pth")
                torch.save(self.optimizer.state_dict(), folder / "optimizer.pth")
            (folder / f"batches_of_{self.rank}.txt").write_text(str(self.batches))

    def load(self, core: det.core.Context, checkpoint: str) -> None:
        with core.checkpoint.restore_path(checkpoint) as folder:
            self.model.module.load_state_dict(torch.load(folder / "model.pth"))
            self.optimizer.load_state_dict(torch.load(folder / "optimizer.pth"))
            self.batches = int((folder / "batches_of_0.txt").read_text())


def main(core: det.core.Context) -> None:
    info = det.get_cluster_info()
    training = Training(core.distributed.rank, core.distributed.size)
    if info and info.latest_checkpoint:
        training.load(core, info.latest_checkpoint)
    batches = info.trial.hparams["batches"] if info else BATCHES
    while training.batches < batches:
        training.train_batch()
        if training.batches % PERIOD == 0 or training.batches == batches:
            training.validate(core)
            training.save(core)
            # The chief asks, and all workers hear the same answer.
            if core.preempt.should_preempt():
                return


if __name__ == "__main__":
    # Off a cluster, reports are log lines.
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    distributed.init_process_group("gloo")
    try:
        with det.core.init(
            distributed=det.core.DistributedContext.from_torch_distributed()
        ) as core:
            main(core)
    finally:
        distributed.destroy_process_group()
