"""The types of data that a TFKerasTrial may return. User code names them in annotations."""

from typing import Any, Dict, List, Tuple, Union

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
