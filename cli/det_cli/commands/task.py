"""det task"""

from det_cli.commands.interactive import CONFIG, CONTEXT
from det_cli.commands.log_options import log_options
from det_cli.declare import JSON, OUTPUT, YAML, Arg, Command, Group, OneOf

ID = Arg("task_id", help="the task's id, or how it begins")
FOLLOW = Arg("-f", "--follow", action="store_true", help="print its log, and exit as it does")
PROJECT = Arg(
    "--project_id", "--project-id", type=int, dest="project_id", help="put it in this project"
)

MEMBERS = {
    "task": Group(
        "task",
        "create tasks in trees, list what runs, and read logs",
        Command("cleanup-logs", "delete logs whose time is over", "tasks:cleanup_logs"),
        Command("config", "print a task's configuration", "generic_tasks:config", ID, JSON),
        Command(
            "create",
            "create a task, which may have children",
            "generic_tasks:create",
            Arg("config_file", help="the task's configuration, in YAML"),
            *CONTEXT,
            PROJECT,
            CONFIG,
            FOLLOW,
            Arg("--fork", metavar="TASK_ID", help="take from this task what is not given"),
            Arg("-p", "--parent", metavar="TASK_ID", help="make it a child of this task"),
            Arg(
                "--inherit_context",
                "--inherit-context",
                action="store_true",
                dest="inherit_context",
                help="with the files of its parent",
            ),
            Arg(
                "--no_pause",
                "--no-pause",
                action="store_true",
                dest="no_pause",
                help="never pause it, also when its parent is",
            ),
        ),
        Command(
            "describe",
            "show a task: its state, why, machine, cost and tree",
            "tasks:describe",
            ID,
            OneOf(JSON, YAML),
        ),
        Command(
            "fork",
            "create a task like another one",
            "generic_tasks:fork",
            Arg("parent_task_id", help="the id of the other one, or how it begins"),
            FOLLOW,
            PROJECT,
        ),
        Command(
            "kill",
            "end a task and those below it",
            "generic_tasks:kill",
            ID,
            Arg("--root", action="store_true", help="end the whole tree that it belongs to"),
        ),
        Command(
            "list", "list tasks that run, wait or are paused", "tasks:list_", OUTPUT, aliases=["ls"]
        ),
        Command(
            "logs",
            "print a task's logs",
            "logs:of_task",
            ID,
            *log_options(of_task=True),
            values={"kind": ""},
        ),
        Command("pause", "stop a task and those below it for now", "generic_tasks:pause", ID),
        Command("unpause", "let a paused task go on", "generic_tasks:unpause", ID),
        default="list",
    )
}
