"""det master, det audit and det dev"""

from det_cli.declare import JSON, OUTPUT, YAML, Arg, Command, Group, OneOf, TextArg, count

AS = OneOf(JSON, YAML)

AUDIT_TIMES = (
    Arg(
        "--since",
        metavar="TIME",
        help="only later entries: 2026-01-31T08:00:00Z, or 24h for a day ago",
    ),
    Arg("--until", metavar="TIME", help="only earlier entries, in the same form"),
)
AUDIT_FILTERS = (
    Arg("--user", dest="by", metavar="NAME", help="only actions of this user"),
    Arg("--object", metavar="OBJECT", help="only actions on this object, such as 'experiment 12'"),
    Arg(
        "--action", metavar="ACTION", help="only this action, such as experiment or experiment.kill"
    ),
    *AUDIT_TIMES,
)

MEMBERS = {
    "master": Group(
        "master",
        "describe the cluster",
        Group(
            "config",
            "show or change the cluster's configuration",
            Command("show", "print the configuration", "master:config", AS),
            Command(
                "set",
                "change the log settings",
                "master:set_config",
                Arg(
                    "--log.level",
                    dest="log_level",
                    choices=["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"],
                ),
                Arg("--log.color", dest="log_color", choices=["on", "off"]),
            ),
            default="show",
        ),
        Group(
            "cluster-message",
            "manage the message that all users see",
            Command(
                "clear",
                "remove the message",
                "master:clear_message",
                Arg(
                    "-c",
                    "--clear",
                    action="store_true",
                    help="accepted for compatibility with Determined",
                ),
            ),
            Command("get", "print the message", "master:get_message", AS),
            Command(
                "set",
                "set the message",
                "master:set_message",
                Arg("-s", "--start", default="now", metavar="TIME", help="RFC 3339 (default: now)"),
                OneOf(
                    Arg("-e", "--end", metavar="TIME", help="end time, RFC 3339"),
                    Arg("-d", "--duration", help="display time, such as 2h"),
                ),
                Arg("-m", "--message", required=True, help="the text"),
            ),
        ),
        Command(
            "counts",
            "verify the stored counts of trials and checkpoints",
            "master:counts",
            Arg("--repair", action="store_true", help="correct wrong counts"),
            AS,
        ),
        Command("info", "print the cluster's version and identity", "master:info", AS),
        Command(
            "logs",
            "print the control plane's log",
            "master:logs",
            Arg("-f", "--follow", action="store_true", help="print new lines until interrupted"),
            Arg(
                "--tail",
                type=count,
                metavar="N",
                help="print the last N lines (with -f, 0: only new lines)",
            ),
        ),
    ),
    "audit": Group(
        "audit",
        "show the audit log (administrators)",
        Command(
            "export",
            "print all entries as JSON lines, oldest first",
            "master:export_audit",
            *AUDIT_FILTERS,
        ),
        Command(
            "list",
            "list the newest entries",
            "master:list_audit",
            *AUDIT_FILTERS,
            Arg(
                "--limit",
                type=count,
                default=100,
                metavar="N",
                help="print at most N entries (100)",
            ),
            OUTPUT,
            aliases=["ls"],
        ),
        default="list",
    ),
    "dev": Group(
        "dev",
        "call the API by hand",
        Command("auth-token", "print the token of this session", "dev:auth_token"),
        Command(
            "curl",
            "send one request as the signed-in user",
            "dev:curl",
            Arg("path", help="such as /api/v1/me"),
            Arg("-x", action="store_true", dest="show", help="tell the curl command for it first"),
            Arg("-X", "--request", metavar="METHOD", help="default: GET, or POST with --data"),
            Arg("-d", "--data", help="the body, in JSON"),
            aliases=["c"],
        ),
        Group(
            "bindings",
            "call the API by the names of its calls",
            Command(
                "call",
                "send the call of this name as the signed-in user",
                "dev:call_binding",
                Arg("name", help="as in `det dev bindings list`"),
                Arg("-y", "--yes", "--auto-confirm", action="store_true", help="do not ask"),
                TextArg(
                    "words",
                    nargs="...",
                    metavar="args",
                    help="what stands in its address, in order; then KEY=VALUE, a value of the body in JSON or as text",
                ),
                aliases=["c"],
            ),
            Command(
                "list",
                "list the calls and what they take",
                "dev:list_bindings",
                Arg("--show-unusable", action="store_true", help="the same: all can be called"),
                OUTPUT,
                aliases=["ls"],
            ),
            aliases=["b"],
        ),
    ),
}
