"""det task"""

from det_cli.commands.interactive import CONFIG, CONTEXT
from det_cli.commands.log_options import log_options
from det_cli.declare import JSON, OUTPUT, YAML, Arg, Command, Group, OneOf

ID = Arg("task_id", help="the task's id, or a prefix of it")
FOLLOW = Arg(
    "-f", "--follow", action="store_true", help="print the task's log and exit with its exit code"
)
PROJECT = Arg(
    "--project_id",
    "--project-id",
    type=int,
    dest="project_id",
    help="create the task in this project",
)

MEMBERS = {
    "task": Group(
        "task",
        "create, list and stop tasks, and read their logs",
        Command(
            "cleanup-logs",
            "delete logs that are older than their retention time",
            "tasks:cleanup_logs",
        ),
        Command("config", "print a task's configuration", "generic_tasks:config", ID, JSON),
        Command(
            "create",
            "create a task, optionally as the child of another task",
            "generic_tasks:create",
            Arg("config_file", help="the task's configuration, in YAML"),
            *CONTEXT,
            PROJECT,
            CONFIG,
            FOLLOW,
            Arg("--fork", metavar="TASK_ID", help="use the settings of this task as defaults"),
            Arg(
                "-p", "--parent", metavar="TASK_ID", help="create the task as a child of this task"
            ),
            Arg(
                "--inherit_context",
                "--inherit-context",
                action="store_true",
                dest="inherit_context",
                help="use the files of the parent task",
            ),
            Arg(
                "--no_pause",
                "--no-pause",
                action="store_true",
                dest="no_pause",
                help="do not pause the task when its parent is paused",
            ),
        ),
        Command(
            "describe",
            "describe a task: state, reason, machine, cost and child tasks",
            "tasks:describe",
            ID,
            OneOf(JSON, YAML),
        ),
        Command(
            "fork",
            "create a copy of a task",
            "generic_tasks:fork",
            Arg("parent_task_id", help="the id of the task to copy, or a prefix of it"),
            FOLLOW,
            PROJECT,
        ),
        Command(
            "kill",
            "stop a task and its descendants",
            "generic_tasks:kill",
            ID,
            Arg("--root", action="store_true", help="stop the whole task tree"),
        ),
        Command(
            "list", "list running, queued and paused tasks", "tasks:list_", OUTPUT, aliases=["ls"]
        ),
        Command(
            "logs",
            "print a task's logs",
            "logs:of_task",
            ID,
            *log_options(of_task=True),
            values={"kind": ""},
        ),
        Command("pause", "pause a task and its descendants", "generic_tasks:pause", ID),
        Command("unpause", "resume a paused task", "generic_tasks:unpause", ID),
        default="list",
    )
}
