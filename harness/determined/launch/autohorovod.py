"""`python3 -m determined.launch.autohorovod [OVERRIDES --] (--trial FILE:CLASS | SCRIPT...)`

With several slots this is `determined.launch.horovod`. With one slot it runs the command directly.
"""

import sys
from typing import Optional, Sequence

from determined.launch import horovod
from determined.launch._arguments import parse


def main(argv: Optional[Sequence[str]] = None) -> int:
    launch = parse("autohorovod", sys.argv[1:] if argv is None else argv)
    return horovod.run_if_many(launch.overrides, launch.command)


if __name__ == "__main__":
    sys.exit(main())
