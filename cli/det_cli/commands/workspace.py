"""det workspace"""

from det_cli.declare import (
    JSON,
    OUTPUT,
    YES,
    Arg,
    Command,
    Group,
    OneOf,
    ReplacedArg,
    replaced_flag,
)

NAME = Arg("workspace_name")
SORT_PAGE = (
    Arg("--sort-by", choices=["id", "name"], default="id"),
    Arg("--order-by", choices=["asc", "desc"], default="asc"),
    Arg("--limit", type=int, default=200, help="rows to fetch at a time"),
    Arg("--offset", type=int, default=0, help="rows to skip at the start"),
)
_FIELDS = (
    Arg("--agent-uid", type=int, help="run the workspace's tasks as this user on the agents"),
    Arg("--agent-user"),
    Arg("--agent-gid", type=int),
    Arg("--agent-group"),
    OneOf(
        Arg(
            "--checkpoint-storage-config",
            metavar="JSON",
            help="checkpoint storage of the workspace",
        ),
        Arg(
            "--checkpoint-storage-config-file",
            metavar="FILE",
            help="checkpoint storage, in a YAML file",
        ),
    ),
    Arg("--default-compute-pool", metavar="POOL"),
    Arg("--default-aux-pool", metavar="POOL"),
    JSON,
)
_KUBERNETES = "is not supported: Kubernetes is not used here"
_OF_KUBERNETES = (
    *(
        ReplacedArg(*names, instead=_KUBERNETES, refused=True)
        for names in (("--cluster-name",), ("--namespace", "-n"), ("--resource-quota",))
    ),
    *(
        replaced_flag(name, instead=_KUBERNETES, refused=True)
        for name in ("--auto-create-namespace", "--auto-create-namespace-all-clusters")
    ),
)


def _change(verb: str, done: str, help: str) -> Command:
    return Command(verb, help, "workspaces:change", NAME, values={"verb": verb, "done": done})


MEMBERS = {
    "workspace": Group(
        "workspace",
        "group projects in workspaces",
        _change("archive", "Archived", "archive a workspace, which hides it from lists"),
        Command(
            "create",
            "create a workspace",
            "workspaces:create",
            Arg("name"),
            *_FIELDS,
            *_OF_KUBERNETES,
        ),
        Command("delete", "delete a workspace", "workspaces:delete", NAME, YES),
        Command("describe", "describe a workspace", "workspaces:describe", NAME, OUTPUT),
        Command(
            "edit",
            "change a workspace",
            "workspaces:edit",
            NAME,
            Arg("--name", help="the new name"),
            *_FIELDS,
        ),
        Command("list", "list workspaces", "workspaces:list_", *SORT_PAGE, OUTPUT, aliases=["ls"]),
        Command(
            "list-members",
            "list the users and groups with roles in a workspace",
            "roles:members",
            NAME,
            OUTPUT,
        ),
        Command(
            "list-pools",
            "list the pools that a workspace may use",
            "workspaces:list_pools",
            NAME,
            OUTPUT,
        ),
        Command(
            "list-projects",
            "list the projects of a workspace",
            "projects:list_",
            NAME,
            *SORT_PAGE,
            OUTPUT,
        ),
        _change("unarchive", "Unarchived", "unarchive a workspace"),
        aliases=["w"],
        default="list",
    )
}
