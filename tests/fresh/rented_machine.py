"""Boot this machine from its unchanged user data until its agent has run a trial.

    .venv/bin/python -m tests.fresh.rented_machine FOLDER

apt-get installs Docker if it is missing, and pip the agent from the cluster and its libraries from the index.
"""

import subprocess
import sys
import urllib.request
from pathlib import Path

from det_controlplane.core.provision.boot import Boot, user_data

from tests.support.cluster import Cluster, local_cluster

CONFIG = """
name: on a machine that had nothing
entrypoint: echo trained on $DET_AGENT_ID
searcher: {name: single, metric: loss, max_length: {batches: 1}}
resources: {slots_per_trial: 1}
max_restarts: 0
"""


def boot(cluster: Cluster) -> None:
    """Run the user data that a pool without further settings gives its machines."""
    master = f"http://127.0.0.1:{cluster.port}"
    with urllib.request.urlopen(f"{master}/agents/v1/wheel") as newest:
        package = newest.url
    result = cluster.run("agent", "token", "create", environ={"DET_USER": "admin"})
    assert result.code == 0, result.err
    token = cluster.folder / "token"
    token.write_text(result.out.strip())
    options = {
        "agent_id": "rented", "token_file": str(token), "container_runtime": "process", "slots": "artificial:1",
    }  # fmt: skip
    script = cluster.folder / "user-data"
    script.write_text(
        user_data(
            Boot(cluster.cluster_id(), master, "default", "token", package, agent_config=options)
        )
    )
    script.chmod(0o700)
    subprocess.run([script], check=True, stdin=subprocess.DEVNULL)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True)
    (folder / "code").mkdir()
    (folder / "config.yaml").write_text(CONFIG)
    with local_cluster(folder, runtime="process", agents=1, slots=0) as cluster:
        boot(cluster)
        experiment = cluster.create(folder / "config.yaml", folder / "code")
        state = cluster.until_state(experiment, "COMPLETED", "ERROR")
        (trial,) = cluster.trials(experiment)
        print(cluster.logs(trial["id"]))
        print(f"the trial on the rented machine: {state}")


if __name__ == "__main__":
    main()
