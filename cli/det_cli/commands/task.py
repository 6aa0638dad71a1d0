"""det task"""

from det_cli.commands.log_options import log_options
from det_cli.declare import OUTPUT, Arg, Command, Group

MEMBERS = {
    "task": Group(
        "task",
        "list running tasks and read their logs",
        Command("cleanup-logs", "delete logs whose time is over", "tasks:cleanup_logs"),
        Command("list", "list running tasks", "tasks:list_", OUTPUT, aliases=["ls"]),
        Command(
            "logs",
            "print a task's logs",
            "logs:of_task",
            Arg("task_id", help="the task's id"),
            *log_options(of_task=True),
        ),
        default="list",
    )
}
