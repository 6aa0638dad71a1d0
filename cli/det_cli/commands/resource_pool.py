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
            "manage which workspaces a pool is for",
            _binding("add", "keep a pool for these workspaces too", "POST", "Added"),
            _binding("remove", "take workspaces off a pool", "DELETE", "Removed"),
            _binding("replace", "keep a pool for just these workspaces", "PUT", "Replaced"),
            Command(
                "list-workspaces",
                "list the workspaces a pool is kept for",
                "resource_pools:list_workspaces",
                POOL,
                OUTPUT,
            ),
        ),
        aliases=["rp"],
        default="list",
    )
}
