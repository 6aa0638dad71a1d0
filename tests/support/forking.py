"""Run scripts in forks of a process with a loaded framework: `python forking.py MODULE...`, then lists of jobs.

It runs in the environment of the framework and needs no module of this project. Slow imports are done once, and each
script has its own process.
"""

import importlib
import json
import os
import runpy
import sys
import tempfile
import traceback
from contextlib import ExitStack
from typing import IO, Any, NoReturn


def serve(modules: list[str]) -> None:
    """Load modules, then run the jobs of each line at the same time, and print their exits and output."""
    for name in modules:
        importlib.import_module(name)
    for line in sys.stdin:
        with ExitStack() as files:
            document = [
                _started(job, files.enter_context(tempfile.TemporaryFile()))
                for job in json.loads(line)
            ]
            print(json.dumps([_ended(child, output) for child, output in document]), flush=True)


def _started(job: dict[str, Any], output: IO[bytes]) -> tuple[int, IO[bytes]]:
    child = os.fork()
    if child == 0:
        _run(job, output.fileno())
    return child, output


def _ended(child: int, output: IO[bytes]) -> dict[str, Any]:
    _, status = os.waitpid(child, 0)
    output.seek(0)
    printed_output = output.read().decode(errors="replace")
    return {"code": os.waitstatus_to_exitcode(status), "output": printed_output}


def _run(job: dict[str, Any], output: int) -> NoReturn:
    code = 1
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ.clear()
        os.environ.update(job["environment"])
        sys.argv = job["arguments"]
        if sys.argv[0] == "-m":
            sys.argv = sys.argv[1:]
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else int(e.code is not None)
        if isinstance(e.code, str):
            print(e.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1:])
