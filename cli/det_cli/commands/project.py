"""det project"""

from det_cli.commands.workspace import SORT_PAGE
from det_cli.declare import JSON, OUTPUT, YES, Arg, Command, Group

SPACE = Arg("workspace_name")
NAME = Arg("project_name")
_FIELDS = (Arg("--description"), Arg("--key", help="the prefix of run names in the project"), JSON)
_ALL = Arg("-a", "--all", action="store_true", help="include archived experiments")


def _change(verb: str, done: str, help: str) -> Command:
    values = {"verb": verb, "done": done}
    return Command(verb, help, "projects:change", SPACE, NAME, values=values)


MEMBERS = {
    "project": Group(
        "project",
        "group experiments in projects",
        _change("archive", "Archived", "archive a project, which hides it from lists"),
        Command("create", "create a project", "projects:create", SPACE, Arg("name"), *_FIELDS),
        Command("delete", "delete a project", "projects:delete", SPACE, NAME, YES),
        Command("describe", "describe a project", "projects:describe", SPACE, NAME, _ALL, OUTPUT),
        Command(
            "edit",
            "change a project",
            "projects:edit",
            SPACE,
            NAME,
            Arg("--new_name", "--new-name", dest="new_name"),
            *_FIELDS,
        ),
        Command(
            "list",
            "list the projects of a workspace",
            "projects:list_",
            SPACE,
            *SORT_PAGE,
            OUTPUT,
            aliases=["ls"],
        ),
        Command(
            "list-experiments",
            "list the experiments of a project",
            "projects:list_experiments",
            SPACE,
            NAME,
            _ALL,
            *SORT_PAGE,
            OUTPUT,
        ),
        _change("unarchive", "Unarchived", "unarchive a project"),
        aliases=["p"],
    )
}
