"""Run scripts in forks of a process that has loaded a framework: `python forking.py MODULE...`, then a job a line.

It runs where the framework is, so it needs nothing of this project. A script finds modules loaded that take seconds to
load, and is otherwise alone in its process.
"""

import importlib
import json
import os
import runpy
import sys
import tempfile
import traceback
from typing import Any, NoReturn


def serve(modules: list[str]) -> None:
    """Load modules, then answer each job of the input with how its script ended and what it said."""
    for name in modules:
        importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(_ran(json.loads(line))), flush=True)


def _ran(job: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            _run(job, output.fileno())
        _, status = os.waitpid(child, 0)
        output.seek(0)
        said = output.read().decode(errors="replace")
    return {"code": os.waitstatus_to_exitcode(status), "output": said}


def _run(job: dict[str, Any], output: int) -> NoReturn:
    code = 1
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ.clear()
        os.environ.update(job["environment"])
        sys.argv = job["arguments"]
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1:])
