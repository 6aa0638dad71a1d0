"""Split a piece of work among child tasks, wait for them, and print their results.

det task create examples/generic_tasks/tree.yaml --context examples/generic_tasks --follow
"""

import json
import os
import time
import urllib.request

PARTS = int(os.environ.get("PARTS", "3"))
CHILD = "entrypoint: [python3, part.py]\nresources: {slots: 0}\ndescription: part %d\n"
CHILD += "environment: {environment_variables: [PART=%d]}\n"


def ask(method: str, path: str, body: object = None) -> dict:
    """Ask the cluster as the owner of this task; DET_MASTER and the token are in every container."""
    request = urllib.request.Request(
        os.environ["DET_MASTER"] + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {os.environ['DET_SESSION_TOKEN']}"},
        method=method,
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def main() -> None:
    own = os.environ["DET_TASK_ID"]
    children = []
    for part in range(PARTS):
        child = {"config": CHILD % (part, part), "parentId": own, "inheritContext": True}
        children.append(ask("POST", "/api/v1/generic-tasks", child)["taskId"])
        print(f"part {part} is task {children[-1]}", flush=True)
    waiting = set(children)
    while waiting:
        time.sleep(0.5)
        for child in sorted(waiting):
            task = ask("GET", f"/api/v1/tasks/{child}")["task"]
            if task.get("endTime"):
                waiting.discard(child)
                state = task["taskState"].rpartition("_")[2]
                print(f"part {children.index(child)}: {state}", flush=True)
    print(f"all {PARTS} parts have ended")


if __name__ == "__main__":
    main()
