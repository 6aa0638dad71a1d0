"""det audit"""

from det_cli.declare import OUTPUT, Arg, Command, Group

WHEN = (
    Arg(
        "--since",
        metavar="TIME",
        help="only later entries: 2026-01-31T08:00:00Z, or 24h for a day ago",
    ),
    Arg("--until", metavar="TIME", help="only earlier entries, in the same form"),
)
WHICH = (
    Arg("--user", dest="by", metavar="NAME", help="only actions of this user"),
    Arg("--object", metavar="OBJECT", help="only actions on this object, such as 'experiment 12'"),
    Arg(
        "--action", metavar="ACTION", help="only this action, such as experiment or experiment.kill"
    ),
    *WHEN,
)

MEMBERS = {
    "audit": Group(
        "audit",
        "show the audit log (administrators)",
        Command("export", "print all entries as JSON lines, oldest first", "audit:export", *WHICH),
        Command(
            "list",
            "list the newest entries",
            "audit:list_",
            *WHICH,
            Arg("--limit", type=int, default=100, help="the number of entries (100)"),
            OUTPUT,
            aliases=["ls"],
        ),
        default="list",
    )
}
