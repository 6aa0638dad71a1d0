"""det user-group"""

from det_cli.declare import OUTPUT, YES, Arg, Command, Group, paging

NAME = Arg("group_name")
_USERS = Arg("usernames", nargs="+", help="user names, separated by commas or spaces")

MEMBERS = {
    "user-group": Group(
        "user-group",
        "manage user groups",
        Command("add-user", "add users to a group", "user_groups:add_users", NAME, _USERS),
        Command(
            "change-name",
            "rename a group",
            "user_groups:rename",
            Arg("old_group_name"),
            Arg("new_group_name"),
        ),
        Command(
            "create",
            "create a group",
            "user_groups:create",
            NAME,
            Arg(
                "--add-user",
                action="append",
                metavar="USERNAME",
                help="add this user (may be repeated)",
            ),
        ),
        Command("delete", "delete a group, but not its users", "user_groups:delete", NAME, YES),
        Command("describe", "describe a group and its users", "user_groups:describe", NAME, OUTPUT),
        Command(
            "list",
            "list groups",
            "user_groups:list_",
            Arg("--groups-user-belongs-to", metavar="USERNAME", help="only groups of this user"),
            *paging(200),
            OUTPUT,
            aliases=["ls"],
        ),
        Command(
            "remove-user", "remove users from a group", "user_groups:remove_users", NAME, _USERS
        ),
        default="list",
    )
}
