"""Run a script on several ranks of one machine, with the variables of torchrun."""

import json
import pathlib
from typing import Any

from tests.support import ml
from tests.support.ports import free_port


def run(
    forks: ml.Forks,
    script: pathlib.Path,
    ranks: int,
    home: pathlib.Path,
    *arguments: str,
    machines: int = 1,
    **environment: str,
) -> Any:
    """Return the JSON in the last line of the chief's output. `machines` only changes the variables of the ranks."""
    local = ranks // machines
    home.mkdir(exist_ok=True)
    gang = {
        **environment,
        "XDG_DATA_HOME": str(home), "TORCHELASTIC_RUN_ID": "1", "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(local), "GROUP_WORLD_SIZE": str(machines),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
        **{f"INTER_TRAIN_PROCESS_COMM_PORT_{i}": str(free_port()) for i in (1, 2)},
    }  # fmt: skip
    workers = (
        {**gang, "RANK": str(n), "LOCAL_RANK": str(n % local), "GROUP_RANK": str(n // local)}
        for n in range(ranks)
    )
    outputs = forks.run_beside([str(script), *arguments], home, *workers)
    return json.loads(outputs[0].splitlines()[-1])
