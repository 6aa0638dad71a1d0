"""Write reported metrics as TensorBoard scalars."""

from determined.tensorboard.metric_writers._batch import BatchMetricWriter, MetricWriter

__all__ = ["BatchMetricWriter", "MetricWriter"]
