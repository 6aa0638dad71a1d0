"""Determined's own client 0.38.1 from PyPI, driven as a user drives it."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.cluster import ROOT, Answer

# Importing the client takes a second of CPU, so one process imports it, and each command is a fork of it that runs the
# console script. Its own session keeps password prompts away from our terminal.
_SERVER = """
import json, os, sys
from determined.cli.__main__ import main
for line in sys.stdin:
    order = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for fd, name, flags in ((0, "in", os.O_RDONLY), (1, "out", os.O_WRONLY), (2, "err", os.O_WRONLY)):
            os.dup2(os.open(order[name], flags), fd)
        os.chdir(order["cwd"])
        sys.argv = ["det", *order["args"]]
        code = 1
        try:
            code = main(order["args"]) or 0
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else int(e.code is not None)
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(json.dumps(status), flush=True)
"""


def stock_python() -> Path:
    """Make the environment at the first use; a failing installation fails the test."""
    result = subprocess.run(
        [ROOT / "scripts/stock-client"], capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, f"the stock client cannot be installed: {result.stderr}"
    return Path(result.stdout.strip())


@dataclass
class StockClient:
    python: Path
    env: dict[str, str]
    folder: Path
    server: "subprocess.Popen[str]"

    def run(self, *args: object, stdin: str = "") -> Answer:
        """Run one `det` command; `typed` is the user's input at its prompts."""
        paths = {name: self.folder / f"{name}.txt" for name in ("in", "out", "err")}
        for name, path in paths.items():
            path.write_text(stdin if name == "in" else "")
        order: dict[str, Any] = {name: str(path) for name, path in paths.items()}
        order |= {"args": [str(a) for a in args], "cwd": str(self.folder)}
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps(order) + "\n")
        self.server.stdin.flush()
        code = int(self.server.stdout.readline())
        return Answer(code, paths["out"].read_text(), paths["err"].read_text())

    def det(self, *args: object, stdin: str = "") -> str:
        """Run a command that must succeed without a traceback. Return its output."""
        answer = self.run(*args, stdin=stdin)
        message = f"det {' '.join(map(str, args))}: exit {answer.code}\n{answer.out}{answer.err}"
        assert answer.code == 0, message
        assert "Traceback" not in answer.err.replace("getpass", ""), message
        return answer.out

    def refused(self, *args: object, stdin: str = "") -> str:
        """Run a command that must fail with a sentence; return the sentence."""
        answer = self.run(*args, stdin=stdin)
        output = answer.out + answer.err
        assert answer.code != 0, output
        assert "Traceback" not in output, output
        return output

    def script(self, path: Path, *args: object) -> Answer:
        command = [str(self.python), "-W", "ignore", str(path), *map(str, args)]
        result = subprocess.run(
            command, env=self.env, cwd=self.folder, capture_output=True, text=True, timeout=300
        )
        return Answer(result.returncode, result.stdout, result.stderr)


@contextmanager
def stock_client(
    master: str, folder: Path, environ: Mapping[str, str] | None = None
) -> Iterator[StockClient]:
    """Return a client that is signed in nowhere yet: its home is a new directory."""
    python = stock_python()
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DET_", "PYTHONPATH"))}
    with tempfile.TemporaryDirectory(dir=folder) as home:
        env |= {"DET_MASTER": master, "HOME": home, "XDG_CONFIG_HOME": f"{home}/.config"}
        env |= environ or {}
        server = subprocess.Popen(
            [str(python), "-W", "ignore", "-c", _SERVER],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with server:
            try:
                yield StockClient(python, env, folder, server)
            finally:
                server.kill()
