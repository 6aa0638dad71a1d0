"""Points of two spirals, drawn here so that the example downloads no data."""

import math

import torch


def draw(count: int, seed: int) -> torch.utils.data.TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (count,), generator=generator)
    turns = torch.rand(count, generator=generator)
    angles = 4 * turns + math.pi * labels
    points = torch.stack([turns * torch.cos(angles), turns * torch.sin(angles)], dim=1)
    return torch.utils.data.TensorDataset(
        points + 0.02 * torch.randn(count, 2, generator=generator), labels
    )
