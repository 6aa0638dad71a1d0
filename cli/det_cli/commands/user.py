"""det user, det user-group and det rbac"""

from det_cli.declare import OUTPUT, PAGING, YES, Arg, Command, Group

_TRUE_FALSE = ["true", "false"]
WHO = Arg("target_user", help="the user's name")
OF = Arg(
    "--of", metavar="USER", help="the sessions of this user (administrators; default: your own)"
)

GROUP = Arg("group_name")
_USERS = Arg("usernames", nargs="+", help="user names, separated by commas or spaces")

ROLE = Arg("role_name", help="the name of a role, as shown by `det rbac list-roles`")
_HOLDER = (
    Arg("-w", "--workspace-name", help="for this workspace only (default: for the whole cluster)"),
    Arg("-u", "--username-to-assign", metavar="USERNAME", help="the user"),
    Arg("-g", "--group-name-to-assign", metavar="GROUP", help="the group"),
)

MEMBERS = {
    "user": Group(
        "user",
        "sign in and manage users",
        Command(
            "activate",
            "allow a deactivated user to sign in again",
            "users:activate",
            WHO,
        ),
        Command(
            "change-password",
            "set a new password, which also ends all other sessions and access tokens of the user",
            "users:change_password",
            Arg("target_user", nargs="?", help="the user (default: you)"),
            Arg(
                "--end-tokens",
                action="store_true",
                help="also restrict the tokens of running tasks: the tasks can then only report",
            ),
        ),
        Command(
            "create",
            "create a user",
            "users:create",
            Arg("username"),
            Arg("--admin", action="store_true", help="create an administrator"),
            Arg("--password", help="the password (default: DET_NEW_PASS, or a prompt)"),
            Arg(
                "--remote",
                action="store_true",
                help="the user signs in at an identity provider and has no password",
            ),
        ),
        Command(
            "deactivate",
            "block a user from signing in, revoke the user's tokens, and list the user's active jobs",
            "users:deactivate",
            WHO,
            Arg(
                "--pause-work",
                action="store_true",
                help="pause the user's experiments and generic tasks, and stop other tasks",
            ),
        ),
        Command(
            "edit",
            "change a user",
            "users:edit",
            WHO,
            Arg("--display-name"),
            Arg("--username", help="the new name"),
            Arg("--remote", choices=_TRUE_FALSE),
            Arg("--active", choices=_TRUE_FALSE),
            Arg("--admin", choices=_TRUE_FALSE),
        ),
        Command(
            "end-session",
            "end sessions on other devices",
            "users:end_sessions",
            Arg("session_id", type=int, nargs="*", help="session ids, as shown by list-sessions"),
            Arg("--others", action="store_true", help="all sessions except the current one"),
            OF,
        ),
        Command(
            "link-with-agent-user",
            "run a user's tasks as this Linux user on the agents",
            "users:link_with_agent_user",
            Arg("target_user", metavar="det_username"),
            Arg("--agent-uid", type=int, required=True),
            Arg("--agent-user", required=True),
            Arg("--agent-gid", type=int, required=True),
            Arg("--agent-group", required=True),
        ),
        Command(
            "list",
            "list users",
            "users:list_",
            Arg("-a", "--all", action="store_true", help="include inactive users"),
            OUTPUT,
            aliases=["ls"],
        ),
        Command(
            "list-sessions",
            "list your sessions with start time, address and program",
            "users:list_sessions",
            OF,
            OUTPUT,
        ),
        Command(
            "login",
            "sign in",
            "users:login",
            Arg("username", nargs="?", help="the user (default: the last one)"),
            Arg(
                "--pipeline",
                action="store_true",
                help="sign in with the identity token of a CI pipeline",
            ),
            Arg(
                "--audience", help="audience of the identity token (default: determined:CLUSTER_ID)"
            ),
        ),
        Command(
            "logout",
            "sign out, and print the user of later commands",
            "users:logout",
            Arg("-a", "--all", action="store_true", help="sign out all users of this machine"),
        ),
        Command("rename", "change a user's name", "users:rename", WHO, Arg("new_username")),
        Command("whoami", "print the current user", "users:whoami"),
        aliases=["u"],
        default="list",
    ),
    "user-group": Group(
        "user-group",
        "manage user groups",
        Command("add-user", "add users to a group", "user_groups:add_users", GROUP, _USERS),
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
            GROUP,
            Arg(
                "--add-user",
                action="append",
                metavar="USERNAME",
                help="add this user (may be repeated)",
            ),
        ),
        Command("delete", "delete a group, but not its users", "user_groups:delete", GROUP, YES),
        Command(
            "describe", "describe a group and its users", "user_groups:describe", GROUP, OUTPUT
        ),
        Command(
            "list",
            "list groups",
            "user_groups:list_",
            Arg("--groups-user-belongs-to", metavar="USERNAME", help="only groups of this user"),
            *PAGING,
            OUTPUT,
            aliases=["ls"],
        ),
        Command(
            "remove-user", "remove users from a group", "user_groups:remove_users", GROUP, _USERS
        ),
        default="list",
    ),
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
            *PAGING,
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
    ),
}
