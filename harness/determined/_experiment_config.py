"""The experiment configuration as training code reads it."""

from typing import Any, Dict, List, Optional, Union


class ExperimentConfig(Dict[str, Any]):
    """The experiment configuration as a dictionary, with methods that return single settings."""

    def debug_enabled(self) -> bool:
        return bool(self.get("debug", False))

    def scheduling_unit(self) -> int:
        return int(self.get("scheduling_unit") or 100)

    def slots_per_trial(self) -> int:
        slots = (self.get("resources") or {}).get("slots_per_trial")
        return 1 if slots is None else int(slots)

    def experiment_seed(self) -> int:
        return int((self.get("reproducibility") or {}).get("experiment_seed") or 0)

    def native_parallel_enabled(self) -> bool:
        return bool((self.get("resources") or {}).get("native_parallel", False))

    def averaging_training_metrics_enabled(self) -> bool:
        return bool(self.get_optimizations_config().get("average_training_metrics", True))

    def average_training_metrics_enabled(self) -> bool:
        return self.averaging_training_metrics_enabled()

    def profiling_enabled(self) -> bool:
        return bool((self.get("profiling") or {}).get("enabled", False))

    def profiling_interval(self) -> Any:
        profiling = self.get("profiling") or {}
        return profiling.get("begin_on_batch", 0), profiling.get("end_after_batch")

    def get_data_layer_type(self) -> str:
        return str((self.get("data_layer") or {}).get("type", "shared_fs"))

    def get_data(self) -> Dict[str, Any]:
        """Return the user's own `data`. A list of data sets, which `determined.data` opens, gives {}."""
        data = self.get("data")
        return data if isinstance(data, dict) else {}

    def get_searcher(self) -> Dict[str, Any]:
        return self.get("searcher") or {}

    def get_searcher_metric(self) -> str:
        return str(self.get_searcher().get("metric"))

    def get_records_per_epoch(self) -> Optional[int]:
        return self.get("records_per_epoch")

    def get_min_validation_period(self) -> Dict[str, int]:
        return self.get("min_validation_period") or {}

    def get_min_checkpoint_period(self) -> Dict[str, int]:
        return self.get("min_checkpoint_period") or {}

    def get_checkpoint_policy(self) -> str:
        return str(self.get("checkpoint_policy") or "best")

    def get_checkpoint_storage(self) -> Dict[str, Any]:
        return self.get("checkpoint_storage") or {}

    def get_optimizations_config(self) -> Dict[str, Any]:
        return self.get("optimizations") or {}

    def get_hyperparameters(self) -> Dict[str, Any]:
        return self.get("hyperparameters") or {}

    def get_entrypoint(self) -> Union[str, List[str], None]:
        return self.get("entrypoint")
