"""Interactive tasks of the small cluster that the calls of the stock client build."""

from tests.support.stock_asker import World

FILE = {"path": "a.txt", "type": 48, "content": "", "mtime": "1", "mode": 420, "uid": 0, "gid": 0}


def interactive(world: World) -> None:
    """Launch one of each kind, look at it while it runs, steer it, and end it."""
    commands(world)
    notebooks(world)
    shells(world)
    tensorboards(world)
    generic(world)


def commands(world: World) -> None:
    ask = world.ask
    config = {"entrypoint": ["sleep", "1"], "resources": {"slots": 0}}
    body = {"config": config, "files": [FILE], "workspaceId": 1}
    command = ask("post_LaunchCommand", body)["command"]
    one = {"commandId": command["id"]}
    ask("get_GetCommands")
    run(world)
    ask("get_GetCommand", **one)
    ask("post_SetCommandPriority", {**one, "priority": 7}, **one)
    ask("post_KillCommand", **one)
    end(world)
    ask("get_GetCommand", **one)
    ask("get_GetCommands", query={"users": ["admin"], "workspaceId": 1})


def notebooks(world: World) -> None:
    ask = world.ask
    body = {"config": {"resources": {"slots": 0}}, "files": [FILE], "workspaceId": 1}
    ask("post_LaunchNotebook", {**body, "preview": True})
    one = {"notebookId": ask("post_LaunchNotebook", body)["notebook"]["id"]}
    ask("get_GetNotebooks")
    run(world)
    ask("get_GetTasks")
    ask("get_GetNotebook", **one)
    ask("put_IdleNotebook", {**one, "idle": True}, **one)
    ask("post_SetNotebookPriority", {**one, "priority": 7}, **one)
    ask("post_KillNotebook", **one)
    end(world)


def shells(world: World) -> None:
    ask = world.ask
    body = {"config": {"resources": {"slots": 0}}, "files": [FILE], "workspaceId": 1}
    one = {"shellId": ask("post_LaunchShell", body)["shell"]["id"]}
    ask("get_GetShells")
    run(world)
    ask("get_GetShell", **one)
    ask("post_SetShellPriority", {**one, "priority": 7}, **one)
    ask("post_KillShell", **one)
    end(world)


def tensorboards(world: World) -> None:
    ask = world.ask
    experiment = ask("get_GetExperiments")["experiments"][0]
    trial = ask("get_GetExperimentTrials", experimentId=experiment["id"])["trials"][0]
    body = {"experimentIds": [experiment["id"]], "trialIds": [trial["id"]]}
    response = ask("post_LaunchTensorboard", {"config": {}, "workspaceId": 1, **body})
    one = {"tensorboardId": response["tensorboard"]["id"]}
    ask("get_GetTensorboards")
    run(world)
    ask("get_GetTensorboard", **one)
    ask("post_SetTensorboardPriority", {**one, "priority": 7}, **one)
    ask("post_KillTensorboard", **one)
    end(world)


def generic(world: World) -> None:
    ask = world.ask
    body = {"config": "{entrypoint: [ls], resources: {slots: 0}}", "contextDirectory": [FILE]}
    root = ask("post_CreateGenericTask", {**body, "projectId": 1, "noPause": False})["taskId"]
    more = {"parentId": root, "inheritContext": True, "forkedFrom": root}
    ask("post_CreateGenericTask", {"config": body["config"], "contextDirectory": [], **more})
    one = {"taskId": root}
    ask("get_GetTask", **one)
    ask("get_GetGenericTaskConfig", **one)
    ask("post_PauseGenericTask", **one)
    ask("post_UnpauseGenericTask", **one)
    ask("post_KillGenericTask", {**one, "killFromRoot": True}, **one)


def run(world: World) -> None:
    world.api.tick()
    world.agent.poll("assigned")
    world.agent.poll()


def end(world: World) -> None:
    world.agent.poll()
    world.agent.poll("terminated", exit_code=137)
    world.agent.poll()
