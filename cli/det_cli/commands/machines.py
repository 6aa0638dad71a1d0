"""det instance and det resource-pool"""

from det_cli.declare import OUTPUT, Arg, Command, Group

INSTANCE = Arg("instance_id", help="the instance's id")

POOL = Arg("pool_name")

SPACES = Arg("workspace_names", nargs="+")


def _binding_command(name: str, help: str, method: str, done: str) -> Command:
    values = {"method": method, "done": done}
    return Command(name, help, "machines:change_bindings", POOL, SPACES, values=values)


MEMBERS = {
    "instance": Group(
        "instance",
        "list and terminate rented machines",
        Command(
            "describe", "show everything about a machine", "machines:describe", INSTANCE, OUTPUT
        ),
        Command(
            "list",
            "list rented machines",
            "machines:list_",
            Arg("--all", action="store_true", help="include terminated machines"),
            Arg("--pool", default="", help="only machines of this resource pool"),
            OUTPUT,
            aliases=["ls"],
        ),
        Command(
            "terminate",
            "terminate a machine; its jobs are rescheduled on other machines",
            "machines:terminate",
            INSTANCE,
            Arg("--yes", "-y", action="store_true", help="do not ask for confirmation"),
        ),
        aliases=["i"],
        default="list",
    ),
    "resource-pool": Group(
        "resource-pool",
        "list resource pools",
        Command(
            "list", "list resource pools", "machines:list_resource_pools", OUTPUT, aliases=["ls"]
        ),
        Group(
            "bindings",
            "manage the workspaces that a pool is bound to",
            _binding_command("add", "bind a pool to additional workspaces", "POST", "Added"),
            _binding_command("remove", "unbind workspaces from a pool", "DELETE", "Removed"),
            _binding_command("replace", "bind a pool to these workspaces only", "PUT", "Replaced"),
            Command(
                "list-workspaces",
                "list the workspaces that a pool is bound to",
                "machines:list_pool_workspaces",
                POOL,
                OUTPUT,
            ),
        ),
        aliases=["rp"],
        default="list",
    ),
}
