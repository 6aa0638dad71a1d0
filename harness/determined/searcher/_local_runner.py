"""Run a search method in this process, for example on a laptop, in a notebook or in a pipeline."""

import json
import logging
import os
import pathlib
import shutil
import uuid
from typing import Iterable, Optional

from determined import _paths
from determined.common.http import Session
from determined.searcher._runner import Config, PathLike, SearchRunner
from determined.searcher._search_method import SearchMethod

logger = logging.getLogger("determined.searcher")

_EXPERIMENT = "experiment.json"
_CURRENT = "current"


class LocalSearchRunner(SearchRunner):
    """A runner with its state in `searcher_dir`. Run it again with the same directory to continue the search."""

    def __init__(
        self,
        search_method: SearchMethod,
        searcher_dir: Optional[PathLike] = None,
        session: Optional[Session] = None,
    ) -> None:
        super().__init__(search_method)
        new_dir = _paths.offline_dir() / "searcher" / uuid.uuid4().hex
        self._dir = new_dir if searcher_dir is None else pathlib.Path(searcher_dir)
        self._open_session = session

    def run(
        self,
        exp_config: Config,
        model_dir: Optional[PathLike] = None,
        includes: Optional[Iterable[PathLike]] = None,
    ) -> int:
        self._dir.mkdir(parents=True, exist_ok=True)
        logger.info("the state of the search is kept in %s", self._dir)
        current = self._dir / _CURRENT
        if current.exists():
            return self._search(self._read_from(self._dir / current.read_text()))
        experiment_id = self._create(exp_config, model_dir, includes, self._key())
        return self._search(experiment_id)

    def _session(self) -> Session:
        if self._open_session is None:
            from determined.experimental.client import Determined

            self._open_session = Determined()._session
        return self._open_session

    def _key(self) -> str:
        """Return the idempotency key of this directory's experiment. Every attempt to create it uses the same key."""
        path = self._dir / _EXPERIMENT
        if not path.exists():
            _write(path, json.dumps({"idempotency_key": str(uuid.uuid4())}))
        return str(json.loads(path.read_text())["idempotency_key"])

    def _save(self) -> None:
        """Save into a new folder. The file `current` names it only after all files are on disk."""
        folder = self._dir / f"state-{self.state.last_event_id:08d}-{uuid.uuid4().hex[:8]}"
        self._write_to(folder)
        for file in (p for p in folder.rglob("*") if p.is_file()):
            _flush(file)
        _write(self._dir / _CURRENT, folder.name)
        for old in self._dir.glob("state-*"):
            if old.name != folder.name:
                shutil.rmtree(old, ignore_errors=True)


def _write(path: pathlib.Path, text: str) -> None:
    """Replace a file atomically, so that it has either the old or the new content, even after a power failure."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(text)
    _flush(temporary)
    os.replace(temporary, path)


def _flush(path: pathlib.Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
