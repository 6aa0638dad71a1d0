from typing import List, Optional


def get_ds_config_path_from_args(args: List[str]) -> Optional[str]:
    """Return the path of `--deepspeed PATH` or `--deepspeed=PATH` in a command line, or None."""
    for i, argument in enumerate(args):
        if argument == "--deepspeed" and i + 1 < len(args):
            return args[i + 1]
        if argument.startswith("--deepspeed="):
            return argument.split("=", 1)[1]
    return None
