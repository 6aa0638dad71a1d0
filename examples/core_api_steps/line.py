"""A line through noisy points, fitted by stochastic gradient descent. It needs only Python."""

import random


def points(count: int, seed: int) -> list[tuple[float, float]]:
    """Draw points around y = 3x + 1; the same seed draws the same ones."""
    rng = random.Random(seed)
    xs = [rng.uniform(-1, 1) for _ in range(count)]
    return [(x, 3 * x + 1 + rng.gauss(0, 0.1)) for x in xs]


class Line:
    def __init__(self, slope: float = 0.0, offset: float = 0.0) -> None:
        self.slope = slope
        self.offset = offset

    def learn(self, x: float, y: float, learning_rate: float) -> float:
        """Take one step towards a point; return the squared error before it."""
        error = self.slope * x + self.offset - y
        self.slope -= learning_rate * error * x
        self.offset -= learning_rate * error
        return error * error

    def mean_error(self, data: list[tuple[float, float]]) -> float:
        return sum((self.slope * x + self.offset - y) ** 2 for x, y in data) / len(data)
