"""Options that `det deploy aws` and `det deploy gcp` share, and Determined's that mean nothing for functions."""

from det_cli.declare import Arg, OneOf, ReplacedArg, replaced_flag

YES = Arg("-y", "--yes", "--no-prompt", action="store_true", help="do not ask for confirmation")
CONFIG = Arg(
    "--master-config-path", "--config", dest="master_config_path", metavar="FILE",
    help="the cluster's configuration, in YAML; where it has pools, they are the pools",
)  # fmt: skip
PREFLIGHT = Arg(
    "--no-preflight-checks",
    action="store_true",
    help="do not look at permissions, machine types, quotas and the images of tasks",
)
DELETE_DATA = Arg(
    "--delete-data", action="store_false", dest="keep_data", default=True,
    help="delete checkpoints and the database too",
)  # fmt: skip
FORCE = Arg(
    "--force", action="store_true",
    help="end machines at once, without waiting for checkpoints; go on where machines cannot be looked for",
)  # fmt: skip
DRAIN = Arg(
    "--drain-timeout", type=int, default=600, metavar="SECONDS",
    help="how long work may take to save checkpoints and end (600; 0: refuse while machines run)",
)  # fmt: skip
DIRECTORY = Arg("directory", help="a new directory")


def compute(default: str) -> Arg:
    return Arg(
        "--compute-agent-instance-type", "--gpu-agent-instance-type", dest="compute_agent_instance_type",
        metavar="TYPE", help=f"machines for work with GPUs ({default})",
    )  # fmt: skip


def aux(default: str) -> Arg:
    return Arg(
        "--aux-agent-instance-type", "--cpu-agent-instance-type", dest="aux_agent_instance_type",
        metavar="TYPE", help=f"machines for work without ({default})",
    )  # fmt: skip


POOLS = (
    Arg("--min-dynamic-agents", type=int, metavar="N", help="machines that always run (0)"),
    Arg("--max-dynamic-agents", type=int, metavar="N", help="most machines of a pool (5)"),
    Arg("--max-idle-agent-period", metavar="TIME", help="how long idle machines are kept (10m)"),
    Arg("--max-agent-starting-period", metavar="TIME", help="how long machines may take to join (20m)"),
    Arg("--max-aux-containers-per-agent", "--max-cpu-containers-per-agent", dest="max_aux_containers_per_agent",
        type=int, metavar="N", help="containers without slots a machine (16)"),
)  # fmt: skip
WORK = (
    Arg("--scheduler-type", choices=["fair_share", "priority", "round_robin"],
        help="how pools share their slots (priority)"),
    Arg("--preemption-enabled", choices=["true", "false"], metavar="true|false",
        help="whether work of a higher priority takes the place of other work (false)"),
    Arg("--cpu-env-image", metavar="IMAGE", help="of tasks without GPUs that name none"),
    Arg("--gpu-env-image", metavar="IMAGE", help="of tasks with GPUs that name none"),
)  # fmt: skip
CLUSTER_OPTIONS = (
    Arg("--initial-user-password", metavar="PASSWORD",
        help="of the first users: 8 characters, both cases, a digit (one is made, and shown by the first `up`)"),
    Arg("--forget-options", action="store_true",
        help="do not use what the last time gave: configuration, machines, --var"),
    Arg("--dry-run", action="store_true", help="tell what would be made, and what it costs"),
)  # fmt: skip

# Of Determined's commands for both clouds.
NO_VERSION = ReplacedArg(
    "--det-version",
    metavar="VERSION",
    instead="is not needed: the cluster is made of this program's version",
)
NO_DB_PASSWORD = ReplacedArg(
    "--db-password",
    metavar="PASSWORD",
    instead="is not needed: the database gets a password of its own, which the cloud keeps as a secret",
)
NO_MASTER_TYPE = ReplacedArg(
    "--master-instance-type",
    metavar="TYPE",
    instead="is not needed: no machine runs for the master, and requests are answered where the cloud runs code",
)
NO_TEMPLATE = ReplacedArg(
    "--master-config-template-path", metavar="FILE", refused=True,
    instead="is not understood: --config FILE takes the configuration itself, and `dump-master-config-template`"
    " prints one to begin with",
)  # fmt: skip
GROUP = (
    Arg("--no-preflight-checks", action="store_true"),
    replaced_flag(
        "--no-wait-for-master",
        instead="is not followed: the command ends when the cluster answers, or says why it does not",
    ),
    ReplacedArg(
        "--image-repo-prefix",
        instead="is not needed: no image of the cluster is pulled from a registry",
    ),
)

# Options of `rehearse` itself. It also takes the options by which `up` creates a cluster.
REHEARSAL = (
    Arg("--max-cost", type=float, default=5.0, metavar="USD",
        help="refuse a rehearsal that may cost more US dollars (5)"),
    Arg("--steps", metavar="A,B,…",
        help="only these of up, idle, spot, train, interruption, upgrade, notebook, down (all)"),
    Arg("--pool", metavar="POOL", help="where jobs run (the cheapest pool with spot machines)"),
    Arg("--idle-minutes", type=float, default=10.0, metavar="N",
        help="how long the idle cluster is left alone (10)"),
    OneOf(
        Arg("--keep", action="store_true", help="do not remove a cluster that the rehearsal created"),
        Arg("--down", action="store_true", dest="remove",
            help="remove the cluster at the end, also one that existed before"),
    ),
    Arg("--report", metavar="FILE",
        help="the report in Markdown; the same as JSON is beside it (rehearsal-NAME.md)"),
)  # fmt: skip
