"""Save or load a model with a framework's own sharded strategy: sharded_script.py FRAMEWORK FOLDER [CHECKPOINT].

Each rank passes the directory of `core.checkpoint.store_path(shard=True)` to the framework. Ranks of a second machine
have another folder for temporary files at the same path.
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from determined.core import CheckpointContext, DistributedContext
from torch import distributed, nn

from tests.support.held_storage import RecordingRegistry


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 3))


def values(state: Any) -> Any:
    """Return whole tensors as lists."""
    if isinstance(state, torch.Tensor):
        return (state.full_tensor() if hasattr(state, "full_tensor") else state).tolist()
    if isinstance(state, dict):
        return {str(key): values(value) for key, value in state.items()}
    return [values(value) for value in state] if isinstance(state, (list, tuple)) else state


class Lightning:
    """Lightning's ModelParallelStrategy with FSDP2, which saves a directory of `torch.distributed.checkpoint`."""

    name = "lightning.ckpt"

    def __init__(self) -> None:
        import lightning
        from lightning.pytorch.strategies import ModelParallelStrategy
        from torch.distributed.fsdp import fully_shard

        class Module(lightning.LightningModule):  # type: ignore[misc]
            def configure_model(self) -> None:
                if not hasattr(self, "net"):
                    self.net = net()
                    fully_shard(self.net, mesh=self.device_mesh["data_parallel"])

            def training_step(self, batch: Any, batch_idx: int) -> Any:
                return self.net(batch).square().mean()

            def configure_optimizers(self) -> Any:
                return torch.optim.AdamW(self.parameters(), lr=0.01)

            def train_dataloader(self) -> Any:
                return torch.utils.data.DataLoader(torch.ones(8, 6), batch_size=2)

        strategy = ModelParallelStrategy(
            data_parallel_size=2, tensor_parallel_size=1, process_group_backend="gloo"
        )
        self.module = Module()
        self.trainer = lightning.Trainer(
            accelerator="cpu",
            devices=int(os.environ["LOCAL_WORLD_SIZE"]),
            num_nodes=int(os.environ["GROUP_WORLD_SIZE"]),
            strategy=strategy,
            max_steps=2,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )

    def train(self) -> None:
        self.trainer.fit(self.module)

    def save(self, path: Path) -> None:
        self.trainer.save_checkpoint(path / self.name)

    def load(self, path: Path) -> None:
        self.trainer.fit_loop.epoch_loop.max_steps = 2
        self.trainer.fit(self.module, ckpt_path=path / self.name, weights_only=False)

    def state(self) -> Any:
        (optimizer,) = self.trainer.optimizers
        return [values(self.module.state_dict()), values(optimizer.state_dict()["state"])]


class Transformers:
    """A model of transformers under FSDP2, saved and loaded by the functions of accelerate that its Trainer calls.

    The Trainer itself replaces FSDP by DistributedDataParallel on CPUs.
    """

    def __init__(self) -> None:
        import transformers
        from accelerate import Accelerator, FullyShardedDataParallelPlugin
        from torch.distributed.fsdp import fully_shard

        sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
        config = transformers.BertConfig(intermediate_size=16, vocab_size=20, **sizes)
        self.model = transformers.BertModel(config)
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,))
        for layer in self.model.encoder.layer:
            fully_shard(layer, mesh=mesh)
        fully_shard(self.model, mesh=mesh)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.accelerator = Accelerator(cpu=True)
        self.plugin = FullyShardedDataParallelPlugin(
            fsdp_version=2, state_dict_type="SHARDED_STATE_DICT"
        )

    def train(self) -> None:
        for _ in range(2):
            out = self.model(input_ids=torch.arange(10)[None])
            (out.last_hidden_state[:, 0] + out.pooler_output).square().mean().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()

    def save(self, path: Path) -> None:
        from accelerate.utils import save_fsdp_model, save_fsdp_optimizer

        save_fsdp_model(self.plugin, self.accelerator, self.model, str(path))
        save_fsdp_optimizer(self.plugin, self.accelerator, self.optimizer, self.model, str(path))

    def load(self, path: Path) -> None:
        from accelerate.utils import load_fsdp_model, load_fsdp_optimizer

        load_fsdp_model(self.plugin, self.accelerator, self.model, str(path))
        load_fsdp_optimizer(self.plugin, self.accelerator, self.optimizer, self.model, str(path))

    def state(self) -> Any:
        return [values(self.model.state_dict()), values(self.optimizer.state_dict()["state"])]


def hide_temporary_files() -> None:
    """Mount an empty file system over the folder of temporary files, for this process alone."""
    new_mount_namespace = 0x20000
    assert ctypes.CDLL(None).unshare(new_mount_namespace) == 0
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", tempfile.gettempdir()], check=True)


def main(framework: str, folder: str, *checkpoint: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(len(checkpoint))
    from determined.common.storage import from_config

    if int(os.environ["GROUP_RANK"]) > 0:
        hide_temporary_files()
    distributed.init_process_group("gloo")
    ranks = DistributedContext.from_torch_distributed()
    registry = RecordingRegistry()
    checkpoints = CheckpointContext(ranks, from_config(json.loads(folder)), registry)
    trained: Any = {"lightning": Lightning, "transformers": Transformers}[framework]()
    result: dict[str, Any] = {}
    if checkpoint:
        # Lightning reads the path of rank 0 on all ranks, so it must be the same on each machine.
        target = Path(tempfile.gettempdir()) / checkpoint[0]
        checkpoints.download(checkpoint[0], target)
        trained.load(target)
    else:
        trained.train()
        with checkpoints.store_path({"steps_completed": 2}, shard=True) as (path, uuid):
            trained.save(path)
        result = {"uuid": uuid, "files": dict(registry.resources.get(uuid, {}))}
    result["state"] = trained.state()
    checkpoints.close()
    if ranks.rank == 0:
        print("\n" + json.dumps(result))
    distributed.destroy_process_group()


main(*sys.argv[1:])
