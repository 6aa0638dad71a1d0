"""det rbac"""

from det_cli.declare import OUTPUT, Arg, Command, Group, paging

ROLE = Arg("role_name", help="a role, as `det rbac list-roles` names it")
_HOLDER = (
    Arg("-w", "--workspace-name", help="in this workspace only (default: in the whole cluster)"),
    Arg("-u", "--username-to-assign", metavar="USERNAME", help="of this user"),
    Arg("-g", "--group-name-to-assign", metavar="GROUP", help="of this group"),
)

MEMBERS = {
    "rbac": Group(
        "rbac",
        "give roles to users and groups, and see them",
        Command("assign-role", "give a role to a user or group", "roles:assign", ROLE, *_HOLDER),
        Command("describe-role", "show what a role may do", "roles:describe", ROLE, OUTPUT),
        Command(
            "list-groups-roles",
            "list the roles of a group",
            "roles:of_group",
            Arg("group_name"),
            OUTPUT,
        ),
        Command(
            "list-roles",
            "list the roles that there are",
            "roles:list_",
            Arg(
                "--exclude-global-roles",
                action="store_true",
                help="only those that can be given for one workspace",
            ),
            *paging(200),
            OUTPUT,
        ),
        Command(
            "list-users-roles",
            "list the roles of a user, also those by groups",
            "roles:of_user",
            Arg("username"),
            OUTPUT,
        ),
        Command("my-permissions", "show what you may do, and where", "roles:mine", OUTPUT),
        Command(
            "unassign-role", "take a role from a user or group", "roles:unassign", ROLE, *_HOLDER
        ),
        default="my-permissions",
    )
}
