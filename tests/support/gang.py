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
    **environment: str,
) -> Any:
    """Return the JSON in the last line of the chief's output."""
    home.mkdir(exist_ok=True)
    gang = {
        **environment,
        "XDG_DATA_HOME": str(home), "TORCHELASTIC_RUN_ID": "1", "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks), "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
        **{f"INTER_TRAIN_PROCESS_COMM_PORT_{i}": str(free_port()) for i in (1, 2)},
    }  # fmt: skip
    workers = ({**gang, "RANK": str(n), "LOCAL_RANK": str(n)} for n in range(ranks))
    outputs = forks.run_beside([str(script), *arguments], home, *workers)
    return json.loads(outputs[0].splitlines()[-1])
