"""Write the model registry of an export into a file store of MLflow."""

import json
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

from det_cli.exporting.mlflow_files import FileNames, milliseconds, run_id, write_folder
from det_cli.exporting.rows import Model, ModelVersion

FOLDER = "models"  # in the store
_FORBIDDEN = str.maketrans("/:", "__")  # MLflow refuses them in names of models


class MlflowModels:
    """The registered models of an export, each in a directory with its versions."""

    def __init__(self, folder: Path, store: Path, cluster: Any) -> None:
        self._folder, self._store, self._cluster = folder, store, cluster
        self._names = FileNames()
        self.counts: Counter[str] = Counter()

    def add_model(self, m: Model) -> None:
        name = self._name(m.name)
        meta = {
            "name": name, "description": m.description, "creation_timestamp": milliseconds(m.creation_time),
            "last_updated_timestamp": milliseconds(m.update_time), "aliases": {},
        }  # fmt: skip
        tags = {
            "determined.model_id": str(m.id), "determined.name": m.name, "determined.notes": m.notes,
            "determined.labels": json.dumps(m.labels), "determined.archived": str(m.archived).lower(),
            "determined.user": m.username, "determined.metadata": m.metadata,
        }  # fmt: skip
        self._folder.mkdir(exist_ok=True)
        write_folder(self._folder / name, meta, {"tags": tags, "aliases": {}})
        self.counts["models"] += 1

    def add_version(self, v: ModelVersion) -> None:
        name = self._name(v.model)
        source = _location(self._store, self._run_of(v), v)
        meta = {
            "name": name, "version": v.version, "description": v.comment, "user_id": v.username,
            "creation_timestamp": milliseconds(v.creation_time),
            "last_updated_timestamp": milliseconds(v.update_time), "current_stage": "None", "source": source,
            "storage_location": source, "run_id": self._run_of(v), "run_link": None, "status": "READY",
            "status_message": None,
        }  # fmt: skip
        tags = {
            "determined.name": v.name, "determined.notes": v.notes, "determined.labels": json.dumps(v.labels),
            "determined.checkpoint": v.checkpoint_uuid, "determined.metadata": v.metadata,
        }  # fmt: skip
        write_folder(self._folder / name / f"version-{v.version}", meta, {"tags": tags})
        self.counts["model_versions"] += 1

    def _name(self, name: str) -> str:
        return self._names.of(name.translate(_FORBIDDEN))

    def _run_of(self, v: ModelVersion) -> str | None:
        return None if v.trial_id is None else run_id(self._cluster, v.trial_id)


def count_stored(store: Path) -> dict[str, int]:
    folder = store / FOLDER
    models = sum(1 for _ in folder.glob("*/meta.yaml"))
    return {"models": models, "model_versions": sum(1 for _ in folder.glob("*/*/meta.yaml"))}


def _location(store: Path, run: str | None, v: ModelVersion) -> str:
    """Return the URI of a version's checkpoint, from the list of checkpoints of its run."""
    if run is not None and v.experiment_id is not None:
        file = store / str(v.experiment_id) / run / "artifacts" / "checkpoints.json"
        for checkpoint in json.loads(file.read_text()) if file.exists() else ():
            if checkpoint["uuid"] == v.checkpoint_uuid:
                return uri_of(checkpoint["storage"] or {}, v.checkpoint_uuid)
    return f"determined:{v.checkpoint_uuid}"


def uri_of(storage: dict[str, Any], uuid: str) -> str:
    """Return the URI of a checkpoint's directory."""
    kind = storage.get("type")
    if kind in ("s3", "gcs"):
        parts = (storage["bucket"], (storage.get("prefix") or "").strip("/"), uuid)
        return f"{'gs' if kind == 'gcs' else 's3'}://{'/'.join(part for part in parts if part)}"
    if kind == "azure":
        return f"azure://{storage['container']}/{uuid}"
    folder = storage.get("container_path") or storage.get("host_path")
    if folder is None:
        return f"determined:{uuid}"
    path = Path(folder) / (storage.get("storage_path") or "") / uuid
    return "file://" + quote(str(path))
