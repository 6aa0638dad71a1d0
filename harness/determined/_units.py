"""Lengths and periods of training: `Batch(100)`, `Epoch(3)`, `Batch([10, 100, 1000])`."""

from dataclasses import dataclass
from typing import Any, Container, Mapping, Optional, Union

from determined.workloads import At, Every, Period


@dataclass(frozen=True)
class TrainUnit:
    """A length or a period. A period may also be a container of the batch or epoch numbers at which it is due."""

    value: Union[int, Container[int]]

    def __post_init__(self) -> None:
        if isinstance(self.value, int) and (isinstance(self.value, bool) or self.value < 1):
            raise ValueError(f"{type(self).__name__} must be at least 1, not {self.value!r}")
        if not isinstance(self.value, int) and not hasattr(self.value, "__contains__"):
            raise TypeError(
                f"{type(self).__name__} takes an integer or a container of integers, not {self.value!r}"
            )

    def batches(self, epoch_len: Optional[int]) -> int:
        """Return this length in batches."""
        if not isinstance(self.value, int):
            raise TypeError(f"a length must be a number of batches or epochs, not {self.value!r}")
        return self.value * self._unit(epoch_len)

    def period(self, epoch_len: Optional[int]) -> Period:
        unit = self._unit(epoch_len)
        if isinstance(self.value, int):
            return Every(self.value * unit)
        return At(self.value, unit)

    def _unit(self, epoch_len: Optional[int]) -> int:
        raise NotImplementedError("use Batch or Epoch")


@dataclass(frozen=True)
class Batch(TrainUnit):
    """A number of batches on each rank."""

    def _unit(self, epoch_len: Optional[int]) -> int:
        return 1


@dataclass(frozen=True)
class Epoch(TrainUnit):
    """A number of passes over the training data."""

    def _unit(self, epoch_len: Optional[int]) -> int:
        if epoch_len is None:
            raise ValueError(
                "Epoch needs a training data loader with a length; this one has none. Use Batch instead."
            )
        return epoch_len


def unit_from_config(length: Any, global_batch_size: int = 0) -> Optional[TrainUnit]:
    """Read a configured length (`{"epochs": 3}`, `{"records": 10}`, 100). Return None if it is zero or absent."""
    if isinstance(length, int):
        length = {"batches": length}
    if not isinstance(length, Mapping) or len(length) != 1:
        return None
    (name, count) = next(iter(length.items()))
    if not count:
        return None
    if name == "epochs":
        return Epoch(int(count))
    if name == "batches":
        return Batch(int(count))
    if name == "records":
        return Batch(max(1, int(count) // _needed_batch_size(global_batch_size)))
    raise ValueError(f"unknown unit of length {name!r}: use batches, records or epochs")


def _needed_batch_size(global_batch_size: int) -> int:
    if global_batch_size < 1:
        raise ValueError("lengths in records need the hyperparameter global_batch_size")
    return global_batch_size
