"""det command, det notebook, det shell and det tensorboard"""

from det_cli.declare import (
    JSON,
    OUTPUT,
    Arg,
    Command,
    Group,
    IdArg,
    TextArg,
    log_options,
    number_or_old,
)

_SORT_KEYS = [
    "id",
    "username",
    "description",
    "state",
    "exitStatus",
    "resourcePool",
    "workspaceName",
    "startTime",
]
CONFIG_FILE = Arg("--config-file", metavar="FILE", help="the task's configuration, in YAML")
WORKSPACE = Arg("-w", "--workspace-name", metavar="NAME", help="the workspace of the task")
VOLUME = Arg(
    "-v",
    "--volume",
    action="append",
    default=[],
    metavar="HOST:CONTAINER",
    help="mount a directory of the agent's machine (may be repeated)",
)
CONTEXT = (
    Arg("-c", "--context", metavar="DIR", help="upload the files of this directory, or this file"),
    Arg(
        "-i",
        "--include",
        action="append",
        default=[],
        metavar="PATH",
        help="also upload this file or directory (may be repeated)",
    ),
)
CONFIG = Arg(
    "--config",
    action="append",
    default=[],
    metavar="KEY=VALUE",
    help="change the configuration: a.b=c, lists as x,y, anything else as JSON (may be repeated)",
)
TEMPLATE = Arg("--template", metavar="NAME", help="merge the configuration into this template")
DETACH = Arg(
    "-d", "--detach", action="store_true", help="print the task's id and do not wait for it"
)


NO_BROWSER = Arg(
    "--no-browser", action="store_true", help="print the address and do not open a browser"
)


def id_of(kind: str, name: str) -> Arg:
    return Arg("task_id", metavar=f"{kind}_id", help=f"the id of the {name}, or a prefix of it")


def members(kind: str, name: str) -> "tuple[Command | Group, ...]":
    """Return the commands of one kind of task. `name` is the kind as it appears in sentences."""
    values = {"kind": kind}
    id = id_of(kind, name)
    ids = Arg(
        "task_ids", nargs="+", metavar=f"{kind}_id", help=f"the ids of {name}s, or prefixes of them"
    )
    force = Arg(
        "-f", "--force", action="store_true", help="continue with the other ids if one fails"
    )
    return (
        Command("config", f"print the configuration of a {name}", "interactive:config", id, JSON, values=values),
        Command("describe", f"describe a {name}", "interactive:describe", id, OUTPUT, values=values),
        Command("kill", f"stop {name}s immediately", "interactive:kill", ids, force, values=values),
        Command(
            "list",
            f"list {name}s that are active or ended within a day",
            "interactive:list_",
            Arg("-a", "--all", action="store_true", help=f"include {name}s of all users"),
            Arg("-q", "--quiet", action="store_true", help="print only ids"),
            WORKSPACE,
            Arg("--sort-by", choices=_SORT_KEYS, default="startTime", help="sort by this column"),
            Arg("--order-by", choices=["asc", "desc"], default="asc", help="the direction"),
            OUTPUT,
            aliases=["ls"],
            values=values,
        ),
        Command("logs", f"print the logs of a {name}", "logs:of_task", id, *log_options(of_task=True), values=values),
        Group(
            "set",
            f"change a {name}",
            Command(
                "priority",
                "set the priority, from 1 (highest) to 99",
                "interactive:set_priority",
                id,
                Arg("priority", type=int),
                values=values,
            ),
        ),
    )  # fmt: skip


RUN = Command(
    "run",
    "run a command on the cluster and print its output",
    "interactive_start:run",
    TextArg(
        "entrypoint",
        nargs="...",
        help="the command; a single argument is run by a shell; without it, only the startup hook runs",
    ),
    CONFIG_FILE,
    VOLUME,
    *CONTEXT,
    WORKSPACE,
    CONFIG,
    TEMPLATE,
    DETACH,
)

SHELL_ID = id_of("shell", "shell")
SSH_OPTIONS = TextArg("ssh_opts", nargs="*", help="additional arguments for ssh, after `--`")
SHOW = Arg(
    "--show-ssh-command", action="store_true", help="print the ssh command before running it"
)


def _show_ssh(name: str) -> Command:
    return Command(
        name,
        "print the ssh command that opens a shell",
        "interactive_open:show_ssh",
        SHELL_ID,
        SSH_OPTIONS,
    )


MEMBERS = {
    "command": Group(
        "command",
        "run commands on the cluster",
        *members("command", "command"),
        RUN,
        aliases=["cmd"],
        default="list",
    ),
    "notebook": Group(
        "notebook",
        "start and manage JupyterLab notebooks",
        *members("notebook", "notebook"),
        Command(
            "open",
            "open a notebook in the browser",
            "interactive_open:open_",
            id_of("notebook", "notebook"),
            NO_BROWSER,
            values={"kind": "notebook"},
        ),
        Command(
            "start",
            "start JupyterLab and open it in the browser",
            "interactive_start:notebook",
            CONFIG_FILE,
            WORKSPACE,
            VOLUME,
            *CONTEXT,
            CONFIG,
            TEMPLATE,
            NO_BROWSER,
            DETACH,
            Arg(
                "--preview",
                action="store_true",
                help="print the configuration and do not start a notebook",
            ),
        ),
        default="list",
    ),
    "shell": Group(
        "shell",
        "start and manage SSH shells",
        *members("shell", "shell"),
        Command("open", "open a shell", "interactive_open:open_shell", SHELL_ID, SSH_OPTIONS, SHOW),
        _show_ssh("show-ssh-command"),
        _show_ssh("show_ssh_command"),
        Command(
            "start",
            "start a shell and open it",
            "interactive_start:shell",
            SSH_OPTIONS,
            CONFIG_FILE,
            WORKSPACE,
            VOLUME,
            *CONTEXT,
            CONFIG,
            TEMPLATE,
            DETACH,
            SHOW,
        ),
        default="list",
    ),
    "tensorboard": Group(
        "tensorboard",
        "start and manage TensorBoards",
        *members("tensorboard", "TensorBoard"),
        Command(
            "open",
            "open a TensorBoard in the browser",
            "interactive_open:open_",
            id_of("tensorboard", "TensorBoard"),
            NO_BROWSER,
            values={"kind": "tensorboard"},
        ),
        Command(
            "start",
            "start a TensorBoard for experiments or trials and open it",
            "interactive_start:tensorboard",
            IdArg(
                "experiment_ids",
                kind="experiment",
                nargs="*",
                type=number_or_old,
                help="experiment ids; all their trials are shown",
            ),
            IdArg(
                "-t",
                "--trial-ids",
                kind="trial",
                nargs="+",
                type=number_or_old,
                default=[],
                help="trial ids",
            ),
            WORKSPACE,
            CONFIG_FILE,
            *CONTEXT,
            CONFIG,
            TEMPLATE,
            NO_BROWSER,
            DETACH,
        ),
        default="list",
    ),
}
