"""det master"""

from det_cli.declare import JSON, YAML, Arg, Command, Group, OneOf, count

AS = OneOf(JSON, YAML)

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
    )
}
