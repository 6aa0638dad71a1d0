"""`python3 -m determined.launch._encoded TOKEN`: run an encoded command, which shells on the way cannot change."""

import base64
import json
import os
import re
import sys
from typing import List, Sequence

from determined.launch._workers import replace_process

_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+")


def through_shells(command: Sequence[str]) -> List[str]:
    """Encode the command if shells could split or expand one of its words."""
    if all(_PLAIN.fullmatch(word) for word in command):
        return list(command)
    token = base64.urlsafe_b64encode(json.dumps(list(command)).encode()).decode()
    return [sys.executable, "-m", "determined.launch._encoded", token]


def main(argv: Sequence[str]) -> int:
    return replace_process(json.loads(base64.urlsafe_b64decode(argv[0])), os.environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
