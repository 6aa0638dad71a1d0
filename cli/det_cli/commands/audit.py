"""det audit"""

from det_cli.declare import OUTPUT, Arg, Command, Group

WHEN = (
    Arg("--since", metavar="TIME", help="such as 2026-01-31T08:00:00Z, or 24h: a day ago"),
    Arg("--until", metavar="TIME", help="the same"),
)
WHICH = (
    Arg("--user", dest="by", metavar="NAME", help="by this user"),
    Arg("--object", metavar="OBJECT", help="to this object, such as 'experiment 12'"),
    Arg("--action", metavar="ACTION", help="such as experiment, or experiment.kill"),
    *WHEN,
)

MEMBERS = {
    "audit": Group(
        "audit",
        "tell who changed what (administrators)",
        Command(
            "export", "print all entries, oldest first, as lines of JSON", "audit:export", *WHICH
        ),
        Command(
            "list",
            "list the newest entries",
            "audit:list_",
            *WHICH,
            Arg("--limit", type=int, default=100, help="how many (100)"),
            OUTPUT,
            aliases=["ls"],
        ),
        default="list",
    )
}
