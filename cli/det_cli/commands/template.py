"""det template"""

from det_cli.declare import OUTPUT, Arg, Command, Group

NAME = Arg("template_name")
FILE = Arg("template_file", help="the template: a partial configuration, in YAML")
SPACE = Arg("-w", "--workspace-name", help="the workspace of the template")

MEMBERS = {
    "template": Group(
        "template",
        "manage configuration templates",
        Command("create", "create a template", "templates:create", NAME, FILE, SPACE),
        Command("describe", "print a template", "templates:describe", NAME),
        Command(
            "list",
            "list templates",
            "templates:list_",
            Arg("-d", "--details", action="store_true", help="show the contents"),
            OUTPUT,
            aliases=["ls"],
        ),
        Command("remove", "remove a template", "templates:remove", NAME, aliases=["rm"]),
        Command("set", "create or replace a template", "templates:set_", NAME, FILE),
        Group(
            "set-value",
            "change a template",
            Command("config", "replace its contents", "templates:replace", NAME, FILE),
        ),
        aliases=["tpl"],
        default="list",
    )
}
