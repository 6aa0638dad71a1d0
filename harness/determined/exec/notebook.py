"""`python3 -m determined.exec.notebook`: JupyterLab behind the cluster's proxy."""

import importlib.util
import os
import pathlib
import sys
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, List, Mapping

from determined.common.failures import Failure
from determined.common.http import NotFoundError, Session
from determined.common.times import parsed
from determined.exec import _install, _serve

_REPORT_S = 30.0


def main() -> int:
    python = _install.interpreter(_install.JUPYTERLAB)
    port, task = int(os.environ["NOTEBOOK_PORT"]), os.environ["DET_TASK_ID"]
    token = token_of(os.environ)
    _serve.wait_for_port(port)
    env = {**os.environ, **paths(os.environ), "JUPYTER_TOKEN": token}
    jupyter = Jupyter(port, f"/proxy/{task}", token, os.environ.get("NOTEBOOK_IDLE_TYPE", ""))

    def report(session: Session) -> None:
        body = {"notebookId": task, "idle": jupyter.is_idle()}
        session.request("PUT", f"/api/v1/notebooks/{task}/report_idle", body=body)

    service = _serve.Service(command(python, port, task), port, env, look=report, every_s=_REPORT_S)
    return service.wait()


def token_of(env: Mapping[str, str]) -> str:
    """Return the notebook's token. Raise without one, because the notebook would be open to everybody."""
    token = env.get("DET_NOTEBOOK_TOKEN", "")
    if not token.strip("*"):
        raise Failure(
            "the cluster gave this notebook no token (DET_NOTEBOOK_TOKEN)",
            "it cannot read its secrets: its administrator looks at DET_SECRETS_KEY, then launch another notebook",
        )
    return token


def command(python: str, port: int, task: str) -> List[str]:
    settings = {
        "ip": _serve.host(),
        "port": port,
        "port_retries": 0,
        "base_url": f"/proxy/{task}/",
        "allow_root": True,
        "allow_remote_access": True,
        "open_browser": False,
        "root_dir": os.getcwd(),
        # Jupyter starts login shells by default, and /etc/profile would replace the PATH that contains `det`.
        "terminado_settings": {"shell_command": [os.environ.get("SHELL") or _shell()]},
    }
    options = [f"--ServerApp.{name}={value}" for name, value in settings.items()]
    return [python, "-m", "jupyterlab", *options]


def _shell() -> str:
    return next(
        (path for path in ("/bin/bash", "/usr/bin/bash") if os.path.exists(path)), "/bin/sh"
    )


def paths(env: Mapping[str, str]) -> Dict[str, str]:
    """Return the variables with which Jupyter finds its installed terminals, extensions and other kernels.

    By default Jupyter searches below its interpreter's prefix, but a process task uses a virtual environment."""
    spec = importlib.util.find_spec("jupyterlab")
    folders = list(pathlib.Path(spec.origin).parents) if spec is not None and spec.origin else []
    prefix = next((f.parent for f in folders if f.name in ("lib", "lib64", "Lib")), None)
    if prefix is None:
        return {}
    folders_by_name = {
        "JUPYTER_CONFIG_PATH": prefix / "etc/jupyter",
        "JUPYTER_PATH": prefix / "share/jupyter",
    }
    return {
        name: os.pathsep.join(filter(None, (env.get(name), str(folder))))
        for name, folder in folders_by_name.items()
    }


class Jupyter:
    """A running Jupyter server that can be asked whether it is idle."""

    def __init__(self, port: int, base: str, token: str, idle_type: str) -> None:
        headers = {"Authorization": f"token {token}"}
        self._session = Session(
            f"http://127.0.0.1:{port}{base}/api", headers, retries=0, timeout_s=10
        )
        self._idle_type = idle_type

    def is_idle(self) -> bool:
        if self._idle_type == "activity":
            return not self._was_active()
        kernels = self._get("kernels")
        if self._idle_type == "kernel_connections":
            return not any(kernel.get("connections") for kernel in kernels)
        return not kernels and not self._terminals()

    def _terminals(self) -> Any:
        try:
            return self._get("terminals")
        except NotFoundError:
            return []  # a server without that extension

    def _was_active(self) -> bool:
        if any(kernel.get("execution_state") == "busy" for kernel in self._get("kernels")):
            return True
        last = self._get("status").get("last_activity")
        since = datetime.now(timezone.utc) - timedelta(seconds=2 * _REPORT_S)
        return bool(last) and parsed(last) > since

    def _get(self, path: str) -> Any:
        return self._session.get(f"/{path}")


if __name__ == "__main__":
    sys.exit(_serve.run(main))
