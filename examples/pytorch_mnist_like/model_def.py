"""A small convolutional network on drawn digits; needs no download."""

from typing import Any

import torch
from determined import pytorch
from torch import nn

SEGMENTS = ["abcefd", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgcde", "abc", "abcdefg", "abcdfg"]
# Where the bars of a seven-segment digit lie, as (row, column, height, width) in 16 x 16 pixels.
BARS = {
    "a": (2, 4, 2, 8),
    "b": (3, 11, 6, 2),
    "c": (8, 11, 6, 2),
    "d": (13, 4, 2, 8),
    "e": (8, 3, 6, 2),
    "f": (3, 3, 6, 2),
    "g": (7, 4, 2, 8),
}


class Digits(torch.utils.data.Dataset):
    """Noisy seven-segment digits; the same index gives the same picture."""

    def __init__(self, records: int, offset: int = 0) -> None:
        self.records = records
        self.offset = offset

    def __len__(self) -> int:
        return self.records

    def __getitem__(self, index: int) -> Any:
        generator = torch.Generator().manual_seed(self.offset + index)
        label = int(torch.randint(10, (), generator=generator))
        picture = torch.zeros(1, 16, 16)
        for name in SEGMENTS[label]:
            row, column, height, width = BARS[name]
            picture[:, row : row + height, column : column + width] = 1
        return picture + 0.7 * torch.randn(1, 16, 16, generator=generator), label


class DigitsTrial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        filters = context.get_hparam("filters")
        net = nn.Sequential(
            nn.Conv2d(1, filters, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(context.get_hparam("dropout")),
            nn.Linear(filters * 49, 10),
        )
        self.model = context.wrap_model(net)
        adam = torch.optim.Adam(self.model.parameters(), lr=context.get_hparam("learning_rate"))
        self.optimizer = context.wrap_optimizer(adam)

    def build_training_data_loader(self) -> pytorch.DataLoader:
        size, records = self.context.get_per_slot_batch_size(), self.context.get_hparam("records")
        return pytorch.DataLoader(Digits(records), batch_size=size, shuffle=True)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        size, records = self.context.get_per_slot_batch_size(), self.context.get_hparam("records")
        return pytorch.DataLoader(Digits(records // 4, offset=1_000_000), batch_size=size)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        pictures, labels = batch
        loss = nn.functional.cross_entropy(self.model(pictures), labels)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        pictures, labels = batch
        scores = self.model(pictures)
        return {
            "validation_loss": nn.functional.cross_entropy(scores, labels),
            "accuracy": (scores.argmax(1) == labels).float().mean(),
        }
