"""Data of a TFKerasTrial: the types that it may return, and a stream of batches that can start at any batch."""

import itertools
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

import numpy as np
import tensorflow as tf

ArrayLike = Union[np.ndarray, List[np.ndarray], Dict[str, np.ndarray]]


class SequenceAdapter:
    """A Keras Sequence. `workers` and related options are ignored, as Keras 3 lacks them."""

    def __init__(
        self,
        sequence: Any,
        use_multiprocessing: bool = False,
        workers: int = 1,
        max_queue_size: int = 10,
    ) -> None:
        self.sequence = sequence


InputData = Union[
    tf.keras.utils.Sequence,
    tf.data.Dataset,
    SequenceAdapter,
    Tuple[ArrayLike, ArrayLike],
    Tuple[ArrayLike, ArrayLike, ArrayLike],
]


def unwrapped(source: Any) -> Any:
    return source.sequence if isinstance(source, SequenceAdapter) else source


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
