"""det import and det export"""

from det_cli.declare import JSON, Arg, Command, Group, IdArg, OneOf, count

_SOURCE = Arg(
    "source",
    help="the old cluster's database: postgresql://USER:PASSWORD@HOST/DATABASE,"
    " or a dump of `pg_dump -Fd`, -Fc or -Fp",
)
_TARGET = (
    Arg(
        "--into",
        metavar="URL",
        help="database of the new cluster (default: a cluster on this machine)",
    ),
    Arg(
        "--cluster-name",
        default="determined",
        help="name of the local cluster (default: determined)",
    ),
    Arg("--data-dir", metavar="DIR", help="data directory of the local cluster"),
)
_EXPORT = (
    OneOf(
        Arg("--all", action="store_true", help="export all experiments that you may see"),
        Arg(
            "--project", metavar="WORKSPACE/PROJECT", help="export the experiments of this project"
        ),
        IdArg(
            "--experiment",
            kind="experiment",
            action="append",
            dest="experiments",
            metavar="ID[,ID...]",
            help="export these experiments (may be repeated)",
        ),
    ),
    Arg(
        "directory",
        metavar="DIR",
        help="a new or empty directory, or the one of an interrupted export",
    ),
)

# Options of an import, also of `det deploy aws|gcp import`.
IMPORTING = (
    Arg(
        "--logs",
        default="all",
        metavar="WHICH",
        help="logs to import: all (default), errors (of failed trials), none, or since=DATE",
    ),
    Arg(
        "--id-offset",
        type=count,
        default=0,
        metavar="N",
        help="add at least N to all ids (default: 0 for an empty cluster)",
    ),
    Arg(
        "--merge-users",
        action="store_true",
        help="users with equal names are the same people in both clusters",
    ),
    Arg(
        "--name",
        default="",
        help="name of the old cluster, for ids such as old:NAME/17 (default: a number)",
    ),
    Arg("--dry-run", action="store_true", help="show what would move, and change nothing"),
)
BESIDE = (
    Arg(
        "source",
        help="the old cluster's database: postgresql://USER:PASSWORD@HOST/DATABASE,"
        " at an address that the cluster's network reaches",
    ),
    *IMPORTING,
    Arg("--verify", action="store_true", help="compare an imported cluster with its source"),
)

MEMBERS = {
    "export": Group(
        "export",
        "copy experiments, metrics and models out of this cluster",
        Command(
            "parquet",
            "write experiments, trials, metrics, checkpoints and models as Parquet files;"
            " an interrupted export continues",
            "exports:parquet",
            *_EXPORT,
        ),
        Command(
            "mlflow",
            "write experiments and trials as a file store of MLflow; an interrupted export continues",
            "exports:mlflow",
            *_EXPORT,
        ),
        Command(
            "verify",
            "compare an export with its cluster",
            "exports:verify",
            Arg("directory", metavar="DIR", help="the directory of the export"),
        ),
    ),
    "import": Group(
        "import",
        "move a Determined cluster into this one",
        Command(
            "determined",
            "import users, experiments, metrics, logs, checkpoints and models; an interrupted import continues",
            "moving:determined",
            _SOURCE,
            *_TARGET,
            *IMPORTING,
            Arg(
                "--mapping",
                metavar="FILE",
                help="write the old and the new ids to this CSV file (kind,old_id,new_id)",
            ),
        ),
        Command(
            "list",
            "list the imports of this cluster with the ids of their experiments",
            "moving:list_",
            JSON,
            aliases=["ls"],
        ),
        Command(
            "verify",
            "compare an imported cluster with its source",
            "moving:verify",
            _SOURCE,
            *_TARGET,
        ),
    ),
}
