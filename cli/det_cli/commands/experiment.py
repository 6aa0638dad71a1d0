"""det experiment"""

from det_cli.declare import (
    BEST_CHECKPOINT,
    CSV,
    DOWNLOAD_QUIET,
    JSON,
    OUTPUT,
    PAGING,
    TABLE,
    WATCHING,
    YAML,
    YES,
    Arg,
    Command,
    Group,
    IdArg,
    OneOf,
    TextArg,
    log_options,
    number_or_old,
    searching,
)

ID = IdArg(
    "experiment_id",
    kind="experiment",
    type=number_or_old,
    help="the experiment's number, or old:NUMBER for the number in an imported cluster",
)
IDS = IdArg(
    "experiment_ids",
    kind="experiment",
    nargs="+",
    help="experiment ids (or old:NUMBER), separated by spaces or commas",
)
CONFIG = Arg(
    "--config",
    action="append",
    default=[],
    metavar="KEY=VALUE",
    help="change the configuration: a.b=c, lists as x,y, anything else as JSON (may be repeated)",
)
FOLLOW = Arg(
    "-f",
    "--follow-first-trial",
    action="store_true",
    help="print the first trial's logs until the experiment ends; exit with 1 unless it completed",
)
INCLUDE = Arg(
    "-i",
    "--include",
    action="append",
    default=[],
    metavar="PATH",
    help="also upload this file or directory (may be repeated)",
)


def _change(name: str, verb: str, done: str, help: str, *aliases: str) -> Command:
    values = {"verb": verb, "done": done}
    return Command(name, help, "experiments:change_state", IDS, aliases=aliases, values=values)


def _set(name: str, help: str, field: str, *args: Arg) -> Command:
    return Command(name, help, "experiment_settings:set_field", ID, *args, values={"field": field})


CREATE = Command(
    "create",
    "submit an experiment",
    "experiment_create:create",
    Arg("config_file", help="the experiment's configuration, in YAML"),
    Arg("model_def", nargs="?", help="the directory or file with the model code"),
    INCLUDE,
    CONFIG,
    Arg("--template", metavar="NAME", help="merge the configuration into this template"),
    Arg(
        "--project_id",
        "--project-id",
        type=int,
        dest="project_id",
        help="create the experiment in this project",
    ),
    JSON,
    Arg(
        "--max-cost",
        metavar="DOLLARS",
        help="set a budget: pause the experiment before it costs more than this",
    ),
    Arg("--wait", action="store_true", help="wait for the end; exit with 1 unless it completed"),
    Arg(
        "--local",
        action="store_true",
        help="with --test-mode: run on this machine, without a cluster",
    ),
    Arg(
        "-p",
        "--publish",
        action="append",
        default=[],
        metavar="LOCAL[:REMOTE]",
        help="with --follow-first-trial: forward a local port to a proxied port of the trial (may be repeated)",
    ),
    OneOf(
        FOLLOW,
        Arg("--paused", action="store_true", help="create the experiment paused"),
        Arg("-t", "--test-mode", action="store_true", help="train and validate only one batch"),
        Arg(
            "--dry-run",
            "--validate-only",
            action="store_true",
            help="validate the experiment and print its trials, slots, hours and cost; create nothing",
        ),
    ),
    Arg(
        "--show-config",
        action="store_true",
        help="with --dry-run: also print the full configuration (--json: only the configuration)",
    ),
)

EXPERIMENT = Group(
    "experiment",
    "manage experiments",
    _change("activate", "activate", "Activated", "resume paused experiments", "unpause"),
    _change(
        "archive",
        "archive",
        "Archived",
        "archive experiments that have ended, which hides them from lists",
    ),
    _change("cancel", "cancel", "Canceled", "stop experiments after saving checkpoints"),
    Command("config", "print an experiment's configuration", "experiments:config", ID, JSON),
    Command(
        "continue",
        "continue an experiment that has ended",
        "experiment_create:continue_",
        ID,
        Arg("--config-file", help="changes to its configuration, in YAML"),
        CONFIG,
        FOLLOW,
    ),
    CREATE,
    Command("delete", "delete experiments and their files", "experiments:delete", IDS, YES),
    Command("delete-tb-files", "delete TensorBoard files", "experiments:delete_tb_files", ID),
    Command(
        "describe",
        "summarize experiments; --format table lists their trials and workloads",
        "experiment_describe:describe",
        IDS,
        Arg(
            "--metrics",
            action="store_true",
            help="include the metrics of every workload in the tables",
        ),
        OneOf(
            JSON,
            CSV,
            YAML,
            TABLE,
            Arg(
                "-o",
                "--output",
                "--format",
                choices=["table", "json", "yaml", "csv"],
                dest="format",
                help="print tables of experiments, trials and workloads, or data (default: a summary)",
            ),
        ),
        Arg("--outdir", metavar="DIR", help="write the tables as CSV files to this directory"),
    ),
    Command(
        "download",
        "download the best checkpoints of an experiment",
        "checkpoint_download:of_experiment",
        ID,
        Arg("-o", "--output-dir", default="checkpoints", help="destination directory"),
        Arg("--top-n", type=int, default=1, help="the number of checkpoints"),
        *BEST_CHECKPOINT,
        DOWNLOAD_QUIET,
    ),
    Command(
        "download-model-def",
        "download the model code of an experiment",
        "experiments:download_model_def",
        ID,
        Arg("--output-dir", default=".", help="destination directory of the archive"),
    ),
    Command(
        "importance",
        "show how much each hyperparameter separates the best trials from all trials",
        "searches:importance",
        ID,
        OUTPUT,
    ),
    _change("kill", "kill", "Killed", "stop experiments immediately, without checkpoints"),
    Group(
        "label",
        "manage an experiment's labels",
        Command("add", "add a label", "experiment_settings:add_label", ID, Arg("label")),
        Command("remove", "remove a label", "experiment_settings:remove_label", ID, Arg("label")),
    ),
    Command(
        "list",
        "list experiments",
        "experiments:list_",
        Arg(
            "-a",
            "--all",
            action="store_true",
            help="include experiments of all users and archived experiments",
        ),
        Arg(
            "--show_project",
            "--show-project",
            action="store_true",
            help="show the workspace and project",
        ),
        *searching("hp.lr"),
        *PAGING,
        OUTPUT,
        aliases=["ls"],
    ),
    Command(
        "list-checkpoints",
        "list an experiment's checkpoints",
        "experiments:list_checkpoints",
        ID,
        Arg("--best", type=int, metavar="N", help="only the best N"),
        OUTPUT,
        aliases=["lc"],
    ),
    Command(
        "list-trials",
        "list an experiment's trials",
        "experiments:list_trials",
        ID,
        *PAGING,
        OUTPUT,
        aliases=["lt"],
    ),
    Command("logs", "print the first trial's logs", "logs:of_experiment", ID, *log_options()),
    Command(
        "move",
        "move an experiment to another project",
        "experiment_settings:move",
        ID,
        Arg("workspace_name"),
        Arg("project_name"),
    ),
    _change("pause", "pause", "Paused", "pause experiments after saving checkpoints"),
    Group(
        "set",
        "change an experiment",
        _set("description", "set the description", "description", TextArg("value", metavar="TEXT")),
        _set("name", "set the name", "name", Arg("value", metavar="NAME")),
        _set(
            "deadline",
            "set the time by which an experiment has to end",
            "deadline",
            Arg(
                "value",
                metavar="TIME",
                help="a time with a zone, such as 2026-12-04T18:00Z, a duration from now, such as 3h, or none",
            ),
        ),
        _set(
            "max-slots",
            "limit the number of slots that an experiment uses at the same time",
            "maxSlots",
            Arg("value", metavar="N", help="the maximum number of slots, or none"),
        ),
        _set(
            "priority",
            "set the priority, from 1 (highest) to 99",
            "priority",
            Arg("value", metavar="1-99", type=int),
        ),
        _set(
            "weight",
            "set the weight for fair-share scheduling",
            "weight",
            Arg("value", metavar="WEIGHT", type=float),
        ),
        Command(
            "gc-policy",
            "set which checkpoints to keep",
            "experiment_settings:set_gc_policy",
            ID,
            Arg(
                "--save-experiment-best",
                type=int,
                required=True,
                metavar="N",
                help="best checkpoints of the experiment to keep",
            ),
            Arg(
                "--save-trial-best",
                type=int,
                required=True,
                metavar="N",
                help="best checkpoints of each trial to keep",
            ),
            Arg(
                "--save-trial-latest",
                type=int,
                required=True,
                metavar="N",
                help="latest checkpoints of each trial to keep",
            ),
            YES,
        ),
        Command(
            "log-retention",
            "set how long to keep the logs",
            "experiment_settings:set_log_retention",
            ID,
            OneOf(
                Arg(
                    "--days", type=int, help="delete logs so many days after the end of their trial"
                ),
                Arg("--forever", action="store_true", help="never delete logs"),
            ),
            values={"kind": "experiment"},
        ),
    ),
    _change("unarchive", "unarchive", "Unarchived", "unarchive experiments"),
    Command(
        "wait",
        "wait until experiments end; exit with 1 unless all of them completed",
        "experiments:wait",
        IDS,
        Arg("--polling-interval", type=float, default=5, metavar="SECONDS"),
    ),
    Command(
        "watch",
        "watch the trials of an experiment with curves and rungs until it ends (q quits)",
        "watch:experiment",
        ID,
        *WATCHING,
    ),
    aliases=["e"],
    default="list",
)
MEMBERS = {"experiment": EXPERIMENT}
