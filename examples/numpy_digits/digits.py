"""Noisy, shifted pictures of digits, drawn here so that the example downloads no data."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

SIDE = 10
GLYPHS = (
    "01110 10001 10011 10101 11001 10001 01110",
    "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00010 00100 01000 11111",
    "11110 00001 00001 01110 00001 00001 11110",
    "00010 00110 01010 10010 11111 00010 00010",
    "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110",
    "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110",
    "01110 10001 10001 01111 00001 00010 01100",
)


def draw(count: int, seed: int, noise: float = 0.35) -> tuple[Floats, Labels]:
    """`count` flat pictures and their digits; the same seed draws the same pictures."""
    rng = np.random.default_rng(seed)
    glyphs = np.array([[[float(c) for c in row] for row in g.split()] for g in GLYPHS])
    labels = rng.integers(0, 10, count)
    pictures = rng.normal(0.0, noise, (count, SIDE, SIDE))
    tops = rng.integers(0, SIDE - 7 + 1, count)
    lefts = rng.integers(0, SIDE - 5 + 1, count)
    for picture, label, top, left in zip(pictures, labels, tops, lefts, strict=True):
        picture[top : top + 7, left : left + 5] += glyphs[label]
    return pictures.reshape(count, SIDE * SIDE), labels
