"""det resource-pool"""

from det_cli.declare import OUTPUT, Arg, Command, Group

POOL = Arg("pool_name")
SPACES = Arg("workspace_names", nargs="+")


def _binding(name: str, help: str, method: str, done: str) -> Command:
    values = {"method": method, "done": done}
    return Command(name, help, "resource_pools:change_bindings", POOL, SPACES, values=values)


MEMBERS = {
    "resource-pool": Group(
        "resource-pool",
        "list resource pools",
        Command("list", "list resource pools", "resource_pools:list_", OUTPUT, aliases=["ls"]),
        Group(
            "bindings",
            "manage the workspaces that a pool is bound to",
            _binding("add", "bind a pool to additional workspaces", "POST", "Added"),
            _binding("remove", "unbind workspaces from a pool", "DELETE", "Removed"),
            _binding("replace", "bind a pool to these workspaces only", "PUT", "Replaced"),
            Command(
                "list-workspaces",
                "list the workspaces that a pool is bound to",
                "resource_pools:list_workspaces",
                POOL,
                OUTPUT,
            ),
        ),
        aliases=["rp"],
        default="list",
    )
}
