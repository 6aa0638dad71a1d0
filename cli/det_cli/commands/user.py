"""det user"""

from det_cli.declare import OUTPUT, Arg, Command, Group

_TRUE_FALSE = ["true", "false"]
WHO = Arg("target_user", help="the user's name")
OF = Arg("--of", metavar="USER", help="of this user, for administrators (default: yours)")

MEMBERS = {
    "user": Group(
        "user",
        "sign in and manage users",
        Command(
            "activate",
            "let a user sign in again",
            "users:activate",
            WHO,
        ),
        Command(
            "change-password",
            "set a new password, which ends all other sessions and access tokens of the user",
            "users:change_password",
            Arg("target_user", nargs="?", help="whose (default: yours)"),
            Arg(
                "--end-tokens",
                action="store_true",
                help="restrict the tokens of running tasks too: they can only report from then on",
            ),
        ),
        Command(
            "create",
            "create a user",
            "users:create",
            Arg("username"),
            Arg("--admin", action="store_true", help="with all rights"),
            Arg("--password", help="the first password (default: DET_NEW_PASS, or asked for)"),
            Arg("--remote", action="store_true", help="signs in elsewhere and has no password"),
        ),
        Command(
            "deactivate",
            "keep a user from signing in, end the user's tokens, and tell what still runs",
            "users:deactivate",
            WHO,
            Arg(
                "--pause-work",
                action="store_true",
                help="pause the user's experiments and generic tasks, end the other tasks",
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
            "sign out elsewhere",
            "users:end_sessions",
            Arg("session_id", type=int, nargs="*", help="their ids, as list-sessions shows them"),
            Arg("--others", action="store_true", help="all but the one that asks"),
            OF,
        ),
        Command(
            "link-with-agent-user",
            "run a user's tasks as this account of the agents",
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
            Arg("-a", "--all", action="store_true", help="inactive ones too"),
            OUTPUT,
            aliases=["ls"],
        ),
        Command(
            "list-sessions",
            "show where you are signed in: since when, from which address, by which program",
            "users:list_sessions",
            OF,
            OUTPUT,
        ),
        Command(
            "login",
            "sign in",
            "users:login",
            Arg("username", nargs="?", help="default: the last"),
            Arg(
                "--pipeline",
                action="store_true",
                help="as the user of this pipeline, by the token of its CI service",
            ),
            Arg("--audience", help="for whom that token is made; default: determined:CLUSTER_ID"),
        ),
        Command(
            "logout",
            "sign out, and say as whom commands go on",
            "users:logout",
            Arg("-a", "--all", action="store_true", help="every user of this machine"),
        ),
        Command("rename", "change a user's name", "users:rename", WHO, Arg("new_username")),
        Command("whoami", "print who is signed in", "users:whoami"),
        aliases=["u"],
        default="list",
    )
}
