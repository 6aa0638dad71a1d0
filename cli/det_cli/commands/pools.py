"""det pool"""

from det_cli.declare import OUTPUT, Arg, Command, Group, count

POOL = Arg("pool_name", help="the pool's name")

SETTINGS = (
    Arg("--config", metavar="FILE", help="the pool's settings, in YAML, as in the cluster configuration"),
    Arg("--description", metavar="TEXT", help="a description for users"),
    Arg("--provider", metavar="CLOUD", help="rent machines from this cloud: aws, gcp or another provider"),
    Arg("--region", action="append", metavar="REGION", help="where to rent machines (may be repeated)"),
    Arg("--zone", action="append", metavar="ZONE", help="where to rent machines (may be repeated)"),
    Arg("--instance-type", action="append", metavar="TYPE", help="machine type (may be repeated)"),
    Arg("--spot", action="store_true", help="rent spot machines"),
    Arg("--min-instances", type=count, metavar="N", help="minimum number of machines (0)"),
    Arg("--max-instances", type=count, metavar="N", help="maximum number of machines (5)"),
    Arg("--max-idle", metavar="TIME", help="terminate machines that are idle for so long (20m)"),
    Arg("--set", action="append", default=[], metavar="KEY=VALUE",
        help="set any other key, such as scheduler.type=fair_share (may be repeated)"),
    Arg("--dry-run", action="store_true", help="only check the settings"),
)  # fmt: skip

HOLDERS = (
    Arg(
        "--user",
        dest="users",
        action="append",
        default=[],
        metavar="NAME",
        help="a user (may be repeated)",
    ),
    Arg(
        "--group",
        dest="groups",
        action="append",
        default=[],
        metavar="NAME",
        help="a group (may be repeated)",
    ),
)

MEMBERS = {
    "pool": Group(
        "pool",
        "manage resource pools and the access to them",
        Group(
            "access",
            "manage the users and groups that may use a pool",
            Command(
                "grant",
                "let only the listed users and groups use a pool, and add some to the list",
                "pools:grant",
                POOL,
                *HOLDERS,
            ),
            Command(
                "list", "list the users and groups of a pool", "pools:list_access", POOL, OUTPUT, aliases=["ls"]
            ),
            Command("open", "let everybody use a pool", "pools:open_to_all", POOL),
            Command(
                "revoke",
                "take users and groups off the list of a pool; their work stays",
                "pools:revoke",
                POOL,
                *HOLDERS,
            ),
        ),
        Command(
            "adopt",
            "move a pool from the cluster configuration to the database, to change it without a restart",
            "pools:adopt",
            POOL,
        ),
        Command(
            "create",
            "create a pool without a restart, from a file, options or both",
            "pools:create",
            Arg("pool_name", nargs="?", help="the pool's name (default: pool_name of the file)"),
            *SETTINGS,
        ),
        Command(
            "default",
            "make a pool the default for work that names none",
            "pools:set_default",
            POOL,
            Arg("--compute", action="store_true", help="for work with slots"),
            Arg("--aux", action="store_true", help="for work without slots"),
        ),
        Command(
            "delete",
            "delete a pool that has no work",
            "pools:delete",
            POOL,
            Arg("--drain", action="store_true", help="take no new work, and delete the pool when its work has ended"),
            Arg("--agents-to", default="", metavar="POOL", help="move the pool's agents to this pool"),
            Arg("--cancel", action="store_true", help="call off an earlier --drain"),
            Arg("--yes", "-y", action="store_true", help="do not ask for confirmation"),
        ),
        Command(
            "describe",
            "show a pool's settings, work, offers, refusals and usual start times",
            "pools:describe",
            POOL,
            OUTPUT,
        ),
        Command(
            "hold",
            "stop launching machines in a pool",
            "machines:hold",
            POOL,
            Arg("--reason", default="", help="the reason that users with queued jobs see"),
        ),
        Command("list", "list pools", "pools:list_", OUTPUT, aliases=["ls"]),
        Command(
            "release",
            "return an adopted pool to the cluster configuration",
            "pools:release",
            POOL,
        ),
        Command("resume", "resume launching machines in a pool", "machines:resume", POOL),
        Command(
            "update",
            "change a pool of the database; a file replaces its settings, options change single ones",
            "pools:update",
            POOL,
            *SETTINGS,
            Arg("--unset", action="append", default=[], metavar="KEY", help="remove a key (may be repeated)"),
            Arg("--replace-machines", action="store_true",
                help="replace rented machines: idle ones now, busy ones after their work"),
        ),
        Command("why", "explain why a pool launches no machines", "machines:why", POOL, OUTPUT),
        default="list",
    ),
}  # fmt: skip
