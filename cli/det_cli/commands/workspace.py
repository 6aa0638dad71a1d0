"""det workspace and det project"""

from det_cli.declare import (
    JSON,
    LIMIT,
    OFFSET,
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
    LIMIT,
    OFFSET,
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


PROJECT = Arg("project_name")
_PROJECT_FIELDS = (
    Arg("--description"),
    Arg("--key", help="the prefix of run names in the project"),
    JSON,
)
_WITH_ARCHIVED = Arg("-a", "--all", action="store_true", help="include archived experiments")


def _change_project(verb: str, done: str, help: str) -> Command:
    values = {"verb": verb, "done": done}
    return Command(verb, help, "projects:change", NAME, PROJECT, values=values)


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
    ),
    "project": Group(
        "project",
        "group experiments in projects",
        _change_project("archive", "Archived", "archive a project, which hides it from lists"),
        Command(
            "create", "create a project", "projects:create", NAME, Arg("name"), *_PROJECT_FIELDS
        ),
        Command("delete", "delete a project", "projects:delete", NAME, PROJECT, YES),
        Command(
            "describe",
            "describe a project",
            "projects:describe",
            NAME,
            PROJECT,
            _WITH_ARCHIVED,
            OUTPUT,
        ),
        Command(
            "edit",
            "change a project",
            "projects:edit",
            NAME,
            PROJECT,
            Arg("--new_name", "--new-name", dest="new_name"),
            *_PROJECT_FIELDS,
        ),
        Command(
            "list",
            "list the projects of a workspace",
            "projects:list_",
            NAME,
            *SORT_PAGE,
            OUTPUT,
            aliases=["ls"],
        ),
        Command(
            "list-experiments",
            "list the experiments of a project",
            "projects:list_experiments",
            NAME,
            PROJECT,
            _WITH_ARCHIVED,
            *SORT_PAGE,
            OUTPUT,
        ),
        _change_project("unarchive", "Unarchived", "unarchive a project"),
        aliases=["p"],
    ),
}
