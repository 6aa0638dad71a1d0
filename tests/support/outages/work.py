"""The work of one agent before, during and after an outage: trials, commands and a generic task."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.outages import train
from tests.support.cluster import Cluster

CODE = Path(train.__file__).parent
HELD_AT = 20
PACES = (train.QUICK, train.SLOW)
SERVES = "it serves after the outage"
# Both commands wait for the beginning of the outage. Then one ends; the other one runs until it is killed.
_ENDING = """
echo started >> {folder}/{name}.notes
until [ -e {folder}/begun ]; do sleep 2; done
sleep 3; echo ended >> {folder}/{name}.notes
"""
_LASTING = """
echo started $$ >> {folder}/{name}.notes
until [ -e {folder}/over ]; do sleep 2; done
echo serves $$ >> {folder}/{name}.notes; echo {serves}
sleep 3600
"""


@dataclass(frozen=True)
class Pace:
    """Return the duration of a step between the beginning of the outage and step 50."""

    quick_s: float
    slow_s: float
    asks: bool = False  # trials send a request that only the cluster can answer


def pace_of(length_s: float, trains_on: bool) -> Pace:
    """Let quick trials train for a third of the outage, slow ones for three quarters.

    Training that has to wait for its agent makes up for it when the agent is back.
    """
    steps = 30
    quick_s = min(length_s / 3, 25) / steps
    if trains_on:
        return Pace(quick_s, length_s * 0.75 / steps)
    return Pace(quick_s, quick_s, asks=True)


@dataclass(frozen=True)
class Work:
    """The work in one pool. Containers read and write files in its folder: gates for the work, and their steps."""

    pool: str
    folder: Path
    cluster: Cluster
    experiment: int
    command: str
    lasting: str
    task: str
    trials: list[str]  # names by pace and seed

    def begin(self) -> None:
        (self.folder / "begun").touch()

    def end(self) -> None:
        (self.folder / "over").touch()

    def steps_of(self, trial: str) -> list[str]:
        return _lines(self.folder / f"{trial}.steps")

    def notes_of(self, task: str) -> list[str]:
        return _lines(self.folder / f"{task}.notes")

    def trained(self) -> set[str]:
        """Return the trials that have trained all their steps."""
        return {
            name for name in self.trials if any("has trained" in s for s in self.steps_of(name))
        }

    def serves(self) -> bool:
        """Return whether the lasting command has noted the end of the outage in its file and in its log."""
        is_noted = any(note.startswith("serves") for note in self.notes_of("lasting"))
        return is_noted and SERVES in self.cluster.text(f"/api/v1/tasks/{self.lasting}/logs")

    def until_in_the_middle(self) -> None:
        """Wait until every trial waits after step 20, and all commands and tasks have started."""
        last = f"step {HELD_AT}"

        def held() -> bool:
            files = [_lines(path) for path in self.folder.glob("*.steps")]
            return len(files) == len(self.trials) and all(
                lines[-1:] and last in lines[-1] for lines in files
            )

        self.cluster.until(held, f"all trials of {self.pool} are at step {HELD_AT}")
        names = ("command", "lasting", "task")
        self.cluster.until(lambda: all(map(self.notes_of, names)), f"the tasks of {self.pool} run")


def start_work(cluster: Cluster, folder: Path, pool: str, pace: Pace, pairs: int) -> Work:
    """Start pairs of a quick and a slow trial, a command and a task that end, and a command that lasts."""
    folder.mkdir(parents=True)
    experiment = _start_experiment(cluster, folder, pool, pace, pairs)
    command = _start_command(cluster, folder, pool, "command", _ENDING)
    lasting = _start_command(cluster, folder, pool, "lasting", _LASTING)
    config = _task_config(folder, pool, "task", _ENDING)
    body = {"config": yaml.safe_dump(config), "contextDirectory": []}
    task = cluster.post("/api/v1/generic-tasks", body)["taskId"]
    trials = [f"{name}-{seed}" for name in PACES for seed in range(1, pairs + 1)]
    return Work(pool, folder, cluster, experiment, command, lasting, task, trials)


def _start_experiment(cluster: Cluster, folder: Path, pool: str, pace: Pace, pairs: int) -> int:
    config = {
        "name": f"outage-{pool}",
        "entrypoint": "python3 train.py",
        "hyperparameters": {
            "seed": {"type": "categorical", "vals": list(range(1, pairs + 1))},
            "pace": {"type": "categorical", "vals": list(PACES)},
        },
        "searcher": {"name": "grid", "metric": "loss", "smaller_is_better": True},
        "checkpoint_storage": {"save_trial_latest": train.STEPS},
        "resources": {"resource_pool": pool, "slots_per_trial": 1},
        "environment": {
            "environment_variables": [
                f"OUTAGE_FOLDER={folder}",
                f"OUTAGE_QUICK_STEP_S={pace.quick_s}",
                f"OUTAGE_SLOW_STEP_S={pace.slow_s}",
                *(["OUTAGE_ASKS=1"] if pace.asks else []),
            ]
        },
        "bind_mounts": _mounts(folder),
        "max_restarts": 3,
    }
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(config))
    return cluster.create(path, CODE)


def _start_command(cluster: Cluster, folder: Path, pool: str, name: str, script: str) -> str:
    config = _task_config(folder, pool, name, script)
    return str(cluster.post("/api/v1/commands", {"config": config})["command"]["id"])


def _task_config(folder: Path, pool: str, name: str, script: str) -> dict[str, Any]:
    return {
        "entrypoint": ["bash", "-c", script.format(folder=folder, name=name, serves=SERVES)],
        "resources": {"resource_pool": pool, "slots": 0},
        "bind_mounts": _mounts(folder),
    }


def _mounts(folder: Path) -> list[dict[str, str]]:
    return [{"host_path": str(folder), "container_path": str(folder)}]


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
