"""A notebook in a Python without JupyterLab installs it from the package index and serves through the cluster."""

import json
import re
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import local_cluster

pytestmark = pytest.mark.heavy("it installs JupyterLab, which takes minutes on a busy machine")


def test_notebook_installs_jupyterlab_and_starts_a_kernel(tmp_path: Path) -> None:
    with local_cluster(
        tmp_path, runtime="process", environ={"DET_TASK_PYTHON": sys.executable}
    ) as cluster:
        free = ("--config", "resources.slots=0", "--no-browser")
        output = cluster.det("notebook", "start", *free, timeout_s=1200).out
        address = re.search(r"^(http\S+/)\S*\?token=(\S+)$", output, re.M)
        assert address, output
        base, token = address[1], address[2]

        def ask(path: str, method: str = "GET") -> Any:
            headers = {"Authorization": f"token {token}"}
            url = f"{base.partition('?')[0]}{path}?token={token}"
            request = urllib.request.Request(url, method=method, headers=headers)
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)

        kernel = ask("api/kernels", "POST")["id"]
        cluster.until(
            lambda: ask(f"api/kernels/{kernel}")["execution_state"] in ("idle", "starting"),
            "a kernel",
        )
        assert ask("api/terminals") == []
        launch = re.search(r"Launched notebook (\S+)", output)
        assert launch
        log = cluster.det("notebook", "logs", launch[1]).out
        assert "JupyterLab is not installed in this machine's Python: installing it with pip" in log
        assert re.search(r"installed JupyterLab in \d+ s", log)
        cluster.det("notebook", "kill", launch[1])
