"""A small transformer that learns to continue counting, sharded over all slots with FSDP2."""

import torch
from determined import pytorch
from torch import nn

VOCABULARY = 32
LENGTH = 16


class Sequences(torch.utils.data.Dataset):
    """Sequences that count up from a random number with a random step, modulo the vocabulary."""

    def __init__(self, records: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        start = torch.randint(VOCABULARY, (records, 1), generator=generator)
        step = torch.randint(1, 4, (records, 1), generator=generator)
        self.tokens = (start + step * torch.arange(LENGTH + 1)) % VOCABULARY

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.tokens[index]


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.before_attention = nn.LayerNorm(width)
        self.before_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        y = self.before_attention(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.before_mlp(x))


class Transformer(nn.Module):
    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.zeros(LENGTH, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions
        for block in self.blocks:
            x = block(x)
        # One row for each token: a 3-dimensional output is a view, and FSDP warns of views.
        return self.head(x.flatten(0, 1))


class TransformerTrial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        width, layers = context.get_hparam("width"), context.get_hparam("layers")
        model = Transformer(width, heads=4, layers=layers)
        # Each block gathers its parameters only while it computes. The optimizer then has the shards of this slot.
        self.model = context.wrap_model(model, parallel=pytorch.FSDP(Block))
        adam = torch.optim.AdamW(self.model.parameters(), lr=context.get_hparam("learning_rate"))
        self.optimizer = context.wrap_optimizer(adam)

    def build_training_data_loader(self) -> pytorch.DataLoader:
        sequences = Sequences(self.context.get_hparam("records"), seed=1)
        batch_size = self.context.get_per_slot_batch_size()
        return pytorch.DataLoader(sequences, batch_size=batch_size, shuffle=True)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        batch_size = self.context.get_per_slot_batch_size()
        return pytorch.DataLoader(Sequences(200, seed=2), batch_size=batch_size)

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self._loss(batch)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch, batch_idx):
        return {"validation_loss": self._loss(batch)}

    def _loss(self, batch: torch.Tensor) -> torch.Tensor:
        logits = self.model(batch[:, :-1])
        return nn.functional.cross_entropy(logits, batch[:, 1:].flatten())
