"""TensorBoard files of a trial: where to write them, and how they reach the storage."""
