"""Options of both `det deploy aws` and `det deploy gcp`, including options of Determined without effect here."""

from det_cli.declare import Arg, OneOf, ReplacedArg, replaced_flag

YES = Arg("-y", "--yes", "--no-prompt", action="store_true", help="do not ask for confirmation")
CONFIG = Arg(
    "--master-config-path", "--config", dest="master_config_path", metavar="FILE",
    help="the cluster's configuration, in YAML; its pools replace the default pools",
)  # fmt: skip
PREFLIGHT = Arg(
    "--no-preflight-checks",
    action="store_true",
    help="do not check permissions, machine types, quotas and task images",
)
DELETE_DATA = Arg(
    "--delete-data", action="store_false", dest="keep_data", default=True,
    help="also delete checkpoints and the database",
)  # fmt: skip
FORCE = Arg(
    "--force", action="store_true",
    help="terminate machines now, without waiting for checkpoints, and continue if machines cannot be listed",
)  # fmt: skip
DRAIN = Arg(
    "--drain-timeout", type=int, default=600, metavar="SECONDS",
    help="how long to wait for running work to save checkpoints; 0: fail if machines run",
)  # fmt: skip
DIRECTORY = Arg("directory", help="a new directory")


def compute(default: str) -> Arg:
    return Arg(
        "--compute-agent-instance-type", "--gpu-agent-instance-type", dest="compute_agent_instance_type",
        metavar="TYPE", help=f"machine type of the GPU pool ({default})",
    )  # fmt: skip


def aux(default: str) -> Arg:
    return Arg(
        "--aux-agent-instance-type", "--cpu-agent-instance-type", dest="aux_agent_instance_type",
        metavar="TYPE", help=f"machine type of the CPU pool ({default})",
    )  # fmt: skip


POOLS = (
    Arg("--min-dynamic-agents", type=int, metavar="N", help="minimum number of machines in a pool (0)"),
    Arg("--max-dynamic-agents", type=int, metavar="N", help="maximum number of machines in a pool (5)"),
    Arg("--max-idle-agent-period", metavar="TIME", help="terminate machines after this idle time (10m)"),
    Arg("--max-agent-starting-period", metavar="TIME",
            help="terminate machines that do not join within this time (20m)"),
    Arg("--max-aux-containers-per-agent", "--max-cpu-containers-per-agent", dest="max_aux_containers_per_agent",
        type=int, metavar="N", help="maximum number of zero-slot containers per machine (16)"),
)  # fmt: skip
WORK = (
    Arg("--scheduler-type", choices=["fair_share", "priority", "round_robin"],
        help="the scheduler of the pools (priority)"),
    Arg("--preemption-enabled", choices=["true", "false"], metavar="true|false",
        help="allow jobs of higher priority to preempt other jobs (false)"),
    Arg("--cpu-env-image", metavar="IMAGE", help="default image of tasks without GPUs"),
    Arg("--gpu-env-image", metavar="IMAGE", help="default image of tasks with GPUs"),
)  # fmt: skip
IMAGE = (
    Arg("--pool", action="append", metavar="POOL",
        help="a pool that gets the image (may be repeated; default: all pools that rent here)"),
    Arg("--pull-image", action="append", metavar="IMAGE",
        help="a task image that the machine image contains (may be repeated; default: the default GPU image)"),
    Arg("--machine-type", metavar="TYPE",
        help="machine type on which the image is made, without a GPU (AWS: m5.xlarge, Google Cloud: n1-standard-4)"),
    Arg("--base-image", metavar="IMAGE", help="image to start from (default: the public image with NVIDIA's driver)"),
    Arg("--disk-size", type=int, default=100, metavar="GB", help="disk of the image (100)"),
    OneOf(
        Arg("--use", metavar="IMAGE", help="use this image instead of making one"),
        Arg("--roll-back", action="store_true", help="return to the image before the last change"),
    ),
)  # fmt: skip
CLUSTER_OPTIONS = (
    Arg("--initial-user-password", metavar="PASSWORD",
        help="password of the first users: 8 characters, both cases, a digit (default: random, `up` prints it)"),
    Arg("--forget-options", action="store_true",
        help="do not reuse the options of the previous `up`: configuration, machines, --var"),
    Arg("--dry-run", action="store_true", help="print the planned resources and their cost, and change nothing"),
)  # fmt: skip

# Options of Determined's commands for both clouds that have no effect here.
NO_VERSION = ReplacedArg(
    "--det-version",
    metavar="VERSION",
    instead="is not needed: the cluster has the version of this program",
)
NO_DB_PASSWORD = ReplacedArg(
    "--db-password",
    metavar="PASSWORD",
    instead="is not needed: the database password is generated and stored as a secret in the cloud",
)
NO_MASTER_TYPE = ReplacedArg(
    "--master-instance-type",
    metavar="TYPE",
    instead="is not needed: the control plane runs serverless, without a machine",
)
NO_TEMPLATE = ReplacedArg(
    "--master-config-template-path", metavar="FILE", refused=True,
    instead="is not supported: pass a configuration with --config FILE; `dump-master-config-template`"
    " prints one to start from",
)  # fmt: skip
GROUP = (
    Arg("--no-preflight-checks", action="store_true"),
    replaced_flag(
        "--no-wait-for-master",
        instead="is ignored: the command waits until the cluster answers, or reports why it does not",
    ),
    ReplacedArg(
        "--image-repo-prefix",
        instead="is not needed: the cluster pulls no images of its own",
    ),
)

# Options of `rehearse` itself. It also accepts the options with which `up` creates a cluster.
REHEARSAL = (
    Arg("--max-cost", type=float, default=5.0, metavar="USD",
        help="refuse a rehearsal that may cost more than this"),
    Arg("--steps", metavar="A,B,…",
        help="run only these steps: up, idle, spot, train, interruption, upgrade, notebook, down (default: all)"),
    Arg("--pool", metavar="POOL", help="pool for the jobs (default: the cheapest pool with spot machines)"),
    Arg("--idle-minutes", type=float, default=10.0, metavar="N",
        help="duration of the idle step"),
    OneOf(
        Arg("--keep", action="store_true", help="do not remove a cluster that the rehearsal created"),
        Arg("--down", action="store_true", dest="remove",
            help="remove the cluster at the end, even if it existed before"),
    ),
    Arg("--report", metavar="FILE",
        help="path of the Markdown report (default: rehearsal-NAME.md); a JSON report is written next to it"),
)  # fmt: skip
