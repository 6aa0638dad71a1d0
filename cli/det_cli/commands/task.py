"""det task and det job"""

from typing import Any

from det_cli.commands.interactive import CONFIG, CONTEXT
from det_cli.declare import JSON, OUTPUT, PAGING, YAML, Arg, Command, Group, OneOf, log_options

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

TYPES = ["experiment", "command", "notebook", "shell", "tensorboard", "generic"]
STATES = [
    "queued", "pulling", "starting", "running", "active", "paused", "stopping", "completed", "canceled", "error",
]  # fmt: skip


def _many(flag: str, help: str, **options: Any) -> Arg:
    """Return an option of the list of all work that may be repeated."""
    return Arg(flag, action="append", default=[], help=f"{help} (may be repeated)", **options)


JOB = Arg("job_id", help="the job's id, a prefix of it, or the number of an experiment")

WORK_FILTERS = (
    _many("--type", "only work of this type", choices=TYPES),
    _many("--state", "only work in this state", choices=STATES),
    _many("--owner", "only work of this user", metavar="NAME"),
    Arg("-w", "--workspace-name", metavar="NAME", help="only work of this workspace"),
    Arg("--name", metavar="TEXT", help="only work with this text in its name"),
    Arg("--since", metavar="TIME", help="only work submitted since: 12h, 7d or an RFC 3339 time"),
    Arg(
        "--sort",
        metavar="COLUMN[=desc]",
        help="submitted, ended, name or owner",
    ),
    Arg("--archived", action="store_true", help="include archived experiments"),
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
        Command(
            "resources",
            "show the CPU, memory, disk, network and GPUs that a task uses",
            "task_resources:resources",
            ID,
            Arg("--last", metavar="TIME", help="only this time, such as 30m, 2h or 1d"),
            OUTPUT,
        ),
        Command("unpause", "resume a paused task", "generic_tasks:unpause", ID),
        default="list",
    ),
    "job": Group(
        "job",
        "show and reorder the job queue",
        Command(
            "list",
            "list the jobs of a pool in queue order, or all work",
            "jobs:list_",
            Arg(
                "-p",
                "-rp",
                "--resource-pool",
                help="the pool (default: the default compute pool; with --all: every pool)",
            ),
            Arg(
                "--all",
                action="store_true",
                help="list running and finished work of all types, the newest first",
            ),
            *WORK_FILTERS,
            *PAGING,
            Arg("--reverse", action="store_true", help="list the last job first"),
            OUTPUT,
            aliases=["ls"],
        ),
        Command(
            "update",
            "change a job's priority, weight, pool or position in the queue",
            "jobs:update",
            JOB,
            OneOf(
                Arg("-p", "--priority", type=int, help="1 (highest) to 99 (priority scheduler)"),
                Arg("-w", "--weight", type=float, help="weight (fair-share scheduler)"),
                Arg("-rp", "--resource-pool", help="move it to this pool"),
                Arg("--ahead-of", metavar="JOB", help="move it directly before this job"),
                Arg("--behind-of", metavar="JOB", help="move it directly after this job"),
            ),
            aliases=["u"],
        ),
        Command(
            "update-batch",
            "change several jobs in the given order",
            "jobs:update_batch",
            Arg(
                "operation",
                nargs="+",
                metavar="JOB.OPERATION=VALUE",
                help="OPERATION is priority, weight, resource-pool, ahead-of or behind-of",
            ),
        ),
        aliases=["j"],
        default="list",
    ),
}
