"""Interactive tasks of the small cluster that the calls of the stock client build."""

from tests.support.stock_asker import World

FILE = {"path": "a.txt", "type": 48, "content": "", "mtime": "1", "mode": 420, "uid": 0, "gid": 0}


def interactive(world: World) -> None:
    """Launch one of each kind, look at it while it runs, steer it, and end it."""
    commands(world)


def commands(world: World) -> None:
    ask = world.ask
    config = {"entrypoint": ["sleep", "1"], "resources": {"slots": 0}}
    body = {"config": config, "files": [FILE], "workspaceId": 1}
    made = ask("post_LaunchCommand", body)["command"]
    one = {"commandId": made["id"]}
    ask("get_GetCommands")
    run(world)
    ask("get_GetCommand", **one)
    ask("post_SetCommandPriority", {**one, "priority": 7}, **one)
    ask("post_KillCommand", **one)
    end(world)
    ask("get_GetCommand", **one)
    ask("get_GetCommands", query={"users": ["admin"], "workspaceId": 1})


def run(world: World) -> None:
    world.api.tick()
    world.agent.poll("assigned")
    world.agent.poll()


def end(world: World) -> None:
    world.agent.poll()
    world.agent.poll("terminated", exit_code=137)
    world.agent.poll()
