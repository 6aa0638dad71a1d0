"""The types of data that a TFKerasTrial may return, by the names that its code annotates."""

from typing import Any, Dict, List, Tuple, Union

import numpy as np
import tensorflow as tf

ArrayLike = Union[np.ndarray, List[np.ndarray], Dict[str, np.ndarray]]


class SequenceAdapter:
    """A Keras Sequence. Keras 3 has no more `workers` and its kin; they are ignored."""

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
