"""det rbac"""

from det_cli.declare import OUTPUT, Arg, Command, Group, paging

ROLE = Arg("role_name", help="the name of a role, as shown by `det rbac list-roles`")
_HOLDER = (
    Arg("-w", "--workspace-name", help="for this workspace only (default: for the whole cluster)"),
    Arg("-u", "--username-to-assign", metavar="USERNAME", help="the user"),
    Arg("-g", "--group-name-to-assign", metavar="GROUP", help="the group"),
)

MEMBERS = {
    "rbac": Group(
        "rbac",
        "assign and list roles",
        Command("assign-role", "assign a role to a user or group", "roles:assign", ROLE, *_HOLDER),
        Command("describe-role", "show the permissions of a role", "roles:describe", ROLE, OUTPUT),
        Command(
            "list-groups-roles",
            "list the roles of a group",
            "roles:of_group",
            Arg("group_name"),
            OUTPUT,
        ),
        Command(
            "list-roles",
            "list all roles",
            "roles:list_",
            Arg(
                "--exclude-global-roles",
                action="store_true",
                help="only roles that can be assigned in a single workspace",
            ),
            *paging(200),
            OUTPUT,
        ),
        Command(
            "list-users-roles",
            "list the roles of a user, including roles from groups",
            "roles:of_user",
            Arg("username"),
            OUTPUT,
        ),
        Command("my-permissions", "show your own permissions", "roles:mine", OUTPUT),
        Command(
            "unassign-role", "remove a role from a user or group", "roles:unassign", ROLE, *_HOLDER
        ),
        default="my-permissions",
    )
}
