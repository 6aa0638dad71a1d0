"""Training data of a TFKerasTrial as an endless stream of batches that can start at any batch."""

import itertools
from typing import Any, Iterator, Optional

import tensorflow as tf


class Batches:
    """An endless stream of batches. `take(n)` yields the next n batches, across several passes if necessary."""

    def __init__(self, source: Any, batch_size: int) -> None:
        if isinstance(source, tuple):
            source = tf.data.Dataset.from_tensor_slices(source).batch(batch_size)
        self._source = source
        self.epoch_len = _length(source)
        self._stream: Iterator[Any] = iter(())

    def start_at(self, batch: int) -> None:
        if isinstance(self._source, tf.data.Dataset):
            self._stream = self._source.repeat().skip(batch).as_numpy_iterator()
        else:
            self._stream = self._passes(batch)

    def take(self, number: int) -> Iterator[Any]:
        for batch in itertools.islice(self._stream, number):
            yield tuple(batch) if isinstance(batch, list) else batch

    def _passes(self, batch: int) -> Iterator[Any]:
        """Yield batches of a Keras Sequence in repeated passes, starting with this index."""
        length = len(self._source)
        for index in itertools.count(batch):
            yield self._source[index % length]
            if index % length == length - 1 and hasattr(self._source, "on_epoch_end"):
                self._source.on_epoch_end()


def _length(source: Any) -> Optional[int]:
    if not isinstance(source, tf.data.Dataset):
        return len(source)
    cardinality = int(source.cardinality())
    return cardinality if cardinality > 0 else None
