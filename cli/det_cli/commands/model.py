"""det model"""

from det_cli.declare import OUTPUT, Arg, Command, Group

NAME = Arg("name", help="the model's name")
SPACE = Arg("-w", "--workspace-name")

MEMBERS = {
    "model": Group(
        "model",
        "manage the model registry",
        Command(
            "create",
            "create a model",
            "models:create",
            NAME,
            SPACE,
            Arg("--description"),
            OUTPUT,
        ),
        Command("delete", "delete a model", "models:delete", NAME),
        Command(
            "describe",
            "describe a model and one of its versions",
            "models:describe",
            NAME,
            Arg("--version", type=int, default=-1, help="the version (default: the newest)"),
            OUTPUT,
        ),
        Command(
            "list",
            "list models",
            "models:list_",
            Arg(
                "-w",
                "--workspace-names",
                help="only models of these workspaces, separated by commas",
            ),
            Arg(
                "--sort-by",
                choices=["name", "description", "creation_time", "last_updated_time"],
                default="last_updated_time",
            ),
            Arg("--order-by", choices=["asc", "desc"], default="asc"),
            OUTPUT,
            aliases=["ls"],
        ),
        Command("list-versions", "list a model's versions", "models:list_versions", NAME, OUTPUT),
        Command(
            "move",
            "move a model to another workspace",
            "models:move",
            NAME,
            Arg("-w", "--workspace-name", required=True),
        ),
        Command(
            "register-version",
            "register a checkpoint as the newest version of a model",
            "models:register_version",
            NAME,
            Arg("uuid", help="the checkpoint's UUID"),
            OUTPUT,
        ),
        aliases=["m"],
        default="list",
    )
}
