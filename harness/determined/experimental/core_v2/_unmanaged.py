"""A trial that runs outside of a cluster and reports to it."""

import json
import logging
import sys
import threading
from types import TracebackType
from typing import Any, Dict, Optional, TextIO, Tuple, Type

from determined._info import ClusterInfo, TrialInfo
from determined.common.http import APIError, MasterUnreachableError, Session
from determined.core._context import Context, TensorboardMode, resolve_storage, trial_context
from determined.core._distributed import DistributedContext
from determined.exec._ship import LineSplitter, LogShipper
from determined.experimental.core_v2._config import Config, experiment_config, storage_of

logger = logging.getLogger("determined.core")

HEARTBEAT_S = 60.0
LAST_LOGS_S = 30.0


class Heartbeat:
    """Reports periodically that the trial runs. After some minutes without a report, the cluster marks it as failed."""

    def __init__(self, session: Session, trial_id: int) -> None:
        self._session = session
        self._path = f"/api/v1/trials/{trial_id}"
        self._trial_id = trial_id
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="determined-heartbeat", daemon=True)
        self._thread.start()

    def close(self, state: str) -> None:
        self._stop.set()
        self._thread.join()
        self._report(state)

    def _run(self) -> None:
        while not self._stop.wait(HEARTBEAT_S):
            try:
                self._report("STATE_ACTIVE")
            except (APIError, MasterUnreachableError) as e:
                logger.warning("the heartbeat did not arrive: %s", e)
        self._session.close()

    def _report(self, state: str) -> None:
        self._session.patch(self._path, {"trialId": self._trial_id, "state": state})


class LogTee:
    """A replacement for sys.stdout or sys.stderr that also ships the written text as log lines."""

    def __init__(self, stream: TextIO, stdtype: str, logs: LogShipper) -> None:
        self._stream = stream
        self._stdtype = stdtype
        self._logs = logs
        self._splitter = LineSplitter()

    def write(self, text: str) -> int:
        for line in self._splitter.feed(text.encode("utf-8", "replace")):
            self._logs.add(line, self._stdtype)
        return self._stream.write(text)

    def finish(self) -> TextIO:
        for line in self._splitter.end():
            self._logs.add(line, self._stdtype)
        return self._stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class UnmanagedContext(Context):
    """The context of an unmanaged trial, with its heartbeat and its logs."""

    def __init__(self, reporting: Context, session: Session, info: ClusterInfo) -> None:
        self.__dict__.update(vars(reporting))
        is_chief = self.distributed.rank == 0
        self._heartbeat = Heartbeat(session, info.trial.trial_id) if is_chief else None
        self._logs = LogShipper(session, {"task_id": info.task_id})
        self._tees: Tuple[LogTee, ...] = ()

    def start(self) -> None:
        super().start()
        out, err = (
            LogTee(sys.stdout, "stdout", self._logs),
            LogTee(sys.stderr, "stderr", self._logs),
        )
        self._tees = (out, err)
        sys.stdout, sys.stderr = out, err

    def close(
        self,
        exc_type: Optional[Type[BaseException]] = None,
        exc_val: Optional[BaseException] = None,
        exc_tb: Optional[TracebackType] = None,
    ) -> None:
        """Send all pending reports, then report the trial's final state."""
        state = "STATE_ERROR"
        try:
            super().close(exc_type, exc_val, exc_tb)
            state = "STATE_COMPLETED" if exc_val is None else state
        finally:
            self._restore_streams()
            self._logs.close(LAST_LOGS_S)
            if self._heartbeat is not None:
                self._heartbeat.close(state)
            if self._session is not None:
                self._session.close()

    def _restore_streams(self) -> None:
        for name, tee in zip(("stdout", "stderr"), self._tees):
            original = tee.finish()
            if getattr(sys, name) is tee:
                setattr(sys, name, original)


def open_unmanaged(
    session: Session,
    config: Config,
    distributed: DistributedContext,
    tensorboard_mode: TensorboardMode,
) -> UnmanagedContext:
    storage = storage_of(config)
    # Resolve the storage first. If that fails, no experiment is left on the cluster.
    manager = resolve_storage(storage, in_task=False)
    run: Dict[str, Any] = {}
    if distributed.rank == 0:
        run = _register(session, config, experiment_config(config, storage))
    run = distributed.broadcast(run)
    info = _cluster_info(session, run, config)
    context = trial_context(info, session, distributed, manager, storage, tensorboard_mode)
    return UnmanagedContext(context, session, info)


def _register(
    session: Session, config: Config, experiment_configuration: Dict[str, Any]
) -> Dict[str, Any]:
    """Create the experiment and trial, or find them by their external ids, and start a run."""
    body = {"config": json.dumps(experiment_configuration), "unmanaged": True, "activate": True}
    external = config.external_experiment_id
    if external is None:
        experiment = session.post("/api/v1/experiments", body)
    else:
        path = f"/api/v1/experiments/by-external-id/{external}"
        experiment = session.put(path, {**body, "externalExperimentId": str(external)})
    experiment_id = int(experiment["experiment"]["id"])
    request = {"experimentId": experiment_id, "hparams": config.hparams or {}, "unmanaged": True}
    if config.external_trial_id is None:
        trial = session.post("/api/v1/trials", request)["trial"]
    else:
        trial_request = {
            "externalTrialId": str(config.external_trial_id),
            "createTrialRequest": request,
        }
        trial = session.put("/api/v1/trials", trial_request)["trial"]
    resume = config.external_trial_id is not None
    start = {"trialId": int(trial["id"]), "resume": resume}
    run = session.post(f"/api/v1/trials/{trial['id']}/start", start)
    return {
        "experiment_id": experiment_id,
        "trial_id": int(trial["id"]),
        "task_id": str(trial.get("taskId") or (trial.get("taskIds") or [""])[-1]),
        "run_id": int(run["trialRunId"]),
        "latest_checkpoint": run.get("latestCheckpoint"),
        "steps_completed": int(run.get("stepsCompleted") or 0),
        "config": experiment.get("config") or experiment_configuration,
        "cluster_id": session.get("/info").get("cluster_id", ""),
    }


def _cluster_info(session: Session, run: Dict[str, Any], config: Config) -> ClusterInfo:
    trial = TrialInfo(
        trial_id=run["trial_id"],
        experiment_id=run["experiment_id"],
        trial_seed=0,
        hparams=dict(config.hparams or {}),
        config=run["config"],
        steps_completed=run["steps_completed"],
        trial_run_id=run["run_id"],
    )
    return ClusterInfo(
        master_url=session.base_url,
        cluster_id=run["cluster_id"],
        agent_id="unmanaged",
        slot_ids=[],
        task_id=run["task_id"],
        allocation_id="",
        session_token="",
        task_type="TRIAL",
        latest_checkpoint=run["latest_checkpoint"],
        trial_info=trial,
    )
