"""det webhook"""

from det_cli.declare import OUTPUT, Arg, Command, Group

ID = Arg("webhook_id", type=int)
EVENTS = (
    Arg(
        "--on",
        action="append",
        choices=("completed", "error"),
        default=[],
        help="tell of experiments that end so; may be given twice",
    ),
    Arg(
        "--on-log",
        action="append",
        default=[],
        metavar="REGEX",
        help="tell of a trial's first log line that matches; may be repeated",
    ),
    Arg(
        "--on-alert",
        action="store_true",
        help="tell what training code sends by core_context.alert; only of webhooks made with --specific",
    ),
    Arg(
        "--on-budget",
        action="store_true",
        help="tell when 80, 100 and 110 percent of a budget are spent: of the workspace and its experiments;"
        " those of pools and users, and of all workspaces, need --cluster",
    ),
)

MEMBERS = {
    "webhook": Group(
        "webhook",
        "tell other systems what happens",
        Command("list", "list webhooks", "webhooks:list_", OUTPUT, aliases=["ls"]),
        Command(
            "create",
            "create a webhook",
            "webhooks:create",
            Arg("name", help="by which experiments choose it"),
            Arg("url", help="where its messages are posted to"),
            *EVENTS,
            Arg(
                "--specific",
                action="store_true",
                help="only for experiments that choose it by name",
            ),
            Arg("--slack", action="store_true", help="send messages in the form that Slack shows"),
            Arg("-w", "--workspace-name", help="the workspace whose experiments it tells of"),
            Arg("--cluster", action="store_true", help="tell of all workspaces (administrators)"),
        ),
        Command(
            "edit",
            "change a webhook; events that are given take the place of all earlier ones",
            "webhooks:edit",
            ID,
            Arg("--url", help="its new address"),
            Arg("--name", help="its new name"),
            *EVENTS,
        ),
        Command(
            "deliveries",
            "show the last tries to deliver its messages, and why some failed",
            "webhooks:deliveries",
            ID,
            OUTPUT,
        ),
        Command("test", "send an example, now", "webhooks:test", ID),
        Command("delete", "delete a webhook", "webhooks:delete", ID, aliases=["rm"]),
        default="list",
    )
}
