"""`python3 -m determined.launch.autohorovod ...`: Horovod with many slots, the bare command with one."""

import os
import sys
from typing import Optional, Sequence

from determined.launch import horovod
from determined.launch._arguments import parse
from determined.launch._peers import find_peers
from determined.launch._workers import replace_process


def main(argv: Optional[Sequence[str]] = None) -> int:
    launch = parse("autohorovod", sys.argv[1:] if argv is None else argv)
    if find_peers().total == 1:
        return replace_process(launch.command, os.environ)
    return horovod.run(launch.overrides, launch.command)


if __name__ == "__main__":
    sys.exit(main())
