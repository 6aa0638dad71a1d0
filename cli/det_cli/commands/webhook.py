"""det webhook"""

from det_cli.declare import OUTPUT, Arg, Command, Group

ID = Arg("webhook_id", type=int)
EVENTS = (
    Arg(
        "--on",
        action="append",
        choices=("completed", "error"),
        default=[],
        help="send when an experiment ends in this state (may be repeated)",
    ),
    Arg(
        "--on-log",
        action="append",
        default=[],
        metavar="REGEX",
        help="send the first log line of a trial that matches (may be repeated)",
    ),
    Arg(
        "--on-alert",
        action="store_true",
        help="send alerts from core_context.alert in training code; requires --specific",
    ),
    Arg(
        "--on-budget",
        action="store_true",
        help="send when 80, 100 and 110 percent of a budget of the workspace or its experiments are spent;"
        " with --cluster also for budgets of pools, users and all workspaces",
    ),
    Arg(
        "--on-straggler",
        action="store_true",
        help="send when a rank of a trial is slower than the other ranks",
    ),
    Arg(
        "--on-deadline",
        action="store_true",
        help="send when an experiment uses machines on demand because its deadline leaves no more slack,"
        " when it is in danger to miss its deadline, and when it has missed it",
    ),
)

MEMBERS = {
    "webhook": Group(
        "webhook",
        "send events to other systems",
        Command("list", "list webhooks", "webhooks:list_", OUTPUT, aliases=["ls"]),
        Command(
            "create",
            "create a webhook",
            "webhooks:create",
            Arg("name", help="the name by which experiments select the webhook"),
            Arg("url", help="the URL that receives the messages"),
            *EVENTS,
            Arg(
                "--specific",
                action="store_true",
                help="only for experiments that select it by name",
            ),
            Arg("--slack", action="store_true", help="format the messages for Slack"),
            Arg("-w", "--workspace-name", help="send events of experiments in this workspace"),
            Arg(
                "--cluster",
                action="store_true",
                help="send events of all workspaces (administrators)",
            ),
        ),
        Command(
            "edit",
            "change a webhook; new events replace all previous events",
            "webhooks:edit",
            ID,
            Arg("--url", help="the new URL"),
            Arg("--name", help="the new name"),
            Arg("--enabled", choices=["true", "false"], help="whether messages are sent"),
            *EVENTS,
        ),
        Command(
            "deliveries",
            "list the last deliveries with the causes of failures",
            "webhooks:deliveries",
            ID,
            OUTPUT,
        ),
        Command("test", "send an example message now", "webhooks:test", ID),
        Command("delete", "delete a webhook", "webhooks:delete", ID, aliases=["rm"]),
        default="list",
    )
}
