"""A network with one hidden layer, its gradient written out, trained by SGD with momentum."""

from typing import Any

import numpy as np
from digits import Floats, Labels

Weights = dict[str, Floats]


class Network:
    """ReLU units, softmax output, cross-entropy loss."""

    def __init__(self, inputs: int, hidden: int, outputs: int, rng: np.random.Generator) -> None:
        self.weights: Weights = {
            "w1": rng.normal(0, np.sqrt(2 / inputs), (inputs, hidden)),
            "b1": np.zeros(hidden),
            "w2": rng.normal(0, np.sqrt(2 / hidden), (hidden, outputs)),
            "b2": np.zeros(outputs),
        }

    def loss_and_gradient(self, x: Floats, y: Labels) -> tuple[float, Weights]:
        hidden, probabilities = self._forward(x)
        rows = np.arange(len(y))
        loss = float(-np.log(probabilities[rows, y] + 1e-12).mean())
        d_scores = probabilities
        d_scores[rows, y] -= 1
        d_scores /= len(y)
        d_hidden = (d_scores @ self.weights["w2"].T) * (hidden > 0)
        gradient = {
            "w1": x.T @ d_hidden,
            "b1": d_hidden.sum(axis=0),
            "w2": hidden.T @ d_scores,
            "b2": d_scores.sum(axis=0),
        }
        return loss, gradient

    def evaluate(self, x: Floats, y: Labels) -> dict[str, float]:
        _, probabilities = self._forward(x)
        chosen = probabilities[np.arange(len(y)), y]
        return {
            "validation_loss": float(-np.log(chosen + 1e-12).mean()),
            "validation_error": float((probabilities.argmax(axis=1) != y).mean()),
        }

    def _forward(self, x: Floats) -> tuple[Floats, Floats]:
        hidden = np.maximum(x @ self.weights["w1"] + self.weights["b1"], 0)
        scores = hidden @ self.weights["w2"] + self.weights["b2"]
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        return hidden, exponentials / exponentials.sum(axis=1, keepdims=True)


class Momentum:
    """Stochastic gradient descent that remembers its direction."""

    def __init__(self, weights: Weights, learning_rate: float, momentum: float) -> None:
        self.velocity: Weights = {name: np.zeros_like(w) for name, w in weights.items()}
        self._learning_rate = learning_rate
        self._momentum = momentum

    def step(self, weights: Weights, gradient: Weights) -> None:
        for name, weight in weights.items():
            self.velocity[name] *= self._momentum
            self.velocity[name] -= self._learning_rate * gradient[name]
            weight += self.velocity[name]


def arrays_of(network: Network, optimizer: Momentum) -> dict[str, Any]:
    """Everything that training changes, by name, ready for np.savez."""
    velocity = {f"velocity_{name}": v for name, v in optimizer.velocity.items()}
    return {**network.weights, **velocity}


def restore(network: Network, optimizer: Momentum, arrays: Any) -> None:
    for name in network.weights:
        network.weights[name] = arrays[name]
        optimizer.velocity[name] = arrays[f"velocity_{name}"]
