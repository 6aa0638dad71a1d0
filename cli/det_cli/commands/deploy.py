"""det deploy and det deploy local"""

from det_cli.commands.deploy_aws import AWS
from det_cli.commands.deploy_gcp import GCP
from det_cli.commands.deploy_options import GROUP
from det_cli.declare import Arg, Command, Group, ReplacedArg, replaced_flag

CLUSTER = Arg(
    "--cluster-name",
    help="name of the cluster, if this machine has several (default: the name in --data-dir, or determined)",
)
PORT = Arg("--master-port", type=int, metavar="PORT", help="port of the API (8080)")
CONFIG = Arg(
    "--config",
    "--master-config-path",
    dest="master_config_path",
    metavar="FILE",
    help="the cluster's configuration, in YAML",
)
STORAGE = Arg("--storage-host-path", metavar="DIR", help="directory for checkpoints")
PASSWORD = Arg(
    "--initial-user-password",
    metavar="PASSWORD",
    help="password of the first users: 8 characters, both cases, a digit ('': no sign-in, only on this machine)",
)
DATABASE = Arg(
    "--db", metavar="URL", help="URL of a PostgreSQL database (default: one in the data directory)"
)
DATA = Arg("--data-dir", metavar="DIR", help="directory for all data of the cluster")
SLOTS = Arg(
    "--slots-per-agent",
    type=int,
    metavar="N",
    help="number of artificial slots, instead of devices",
)
FOREGROUND = Arg("--foreground", action="store_true", help="stay in the foreground until Ctrl-C")
HOST = Arg(
    "--host",
    metavar="ADDRESS",
    help="listen address of the API (default: only this machine; 0.0.0.0: all interfaces)",
)
TLS = (
    Arg("--tls-cert", metavar="FILE", help="serve HTTPS with this certificate, in PEM"),
    Arg("--tls-key", metavar="FILE", help="the key of the certificate"),
    Arg("--no-tls", action="store_true", help="serve plain HTTP even to other machines"),
)
RUNTIME = Arg("--container-runtime", metavar="KIND", help="how tasks run: auto, docker or process")
DELETE_DB = Arg(
    "--delete-db",
    action="store_true",
    help="delete the database with experiments, users and records of checkpoints",
)
WORK_DIR = Arg("--auto-work-dir", metavar="DIR", help="mount this directory into all tasks")
GPU = (
    Arg(
        "--gpu", action="store_true", dest="gpu", default=True, help="use the GPUs of this machine"
    ),
    Arg("--no-gpu", action="store_false", dest="gpu", help="do not use GPUs"),
)
# Options of Determined's command that have no effect here.
REPLACED = (
    ReplacedArg("--det-version", metavar="VERSION",
            instead="is not needed: the cluster has the version of this program"),
    ReplacedArg("--db-password", metavar="PASSWORD",
        instead="is not needed: only this user can connect to the database; --db accepts a URL with a password"),
    replaced_flag("--no-autorestart",
        instead="is not needed: the cluster does not start with the machine; run `cluster-up` after a reboot"),
    ReplacedArg("--image-repo-prefix", metavar="PREFIX",
        instead="is not needed: the cluster pulls no images of its own"),
    replaced_flag("--enterprise-edition",
        instead="is not needed: roles, groups, single sign-on and the audit log are part of every cluster"),
)  # fmt: skip
NO_MASTER_NAME = ReplacedArg(
    "--master-name",
    metavar="NAME",
    instead="is not needed: use --cluster-name if this machine has several clusters",
)
_UP = (
    CONFIG,
    STORAGE,
    PASSWORD,
    PORT,
    HOST,
    *TLS,
    CLUSTER,
    DATABASE,
    DATA,
    DELETE_DB,
    WORK_DIR,
    FOREGROUND,
    *REPLACED,
)


def _action(name: str, help: str, *args: Arg) -> Command:
    values = {"action": name.replace("-", "_")}
    return Command(name, help, "deploy_local:run", *args, values=values)


LOCAL = Group(
    "local",
    "run a cluster on this machine",
    _action(
        "cluster-up",
        "start a cluster with its agents",
        Arg(
            "--agents",
            type=int,
            metavar="N",
            help="number of agents (default: 1, or the previous number)",
        ),
        SLOTS,
        RUNTIME,
        *GPU,
        *_UP,
    ),
    _action("cluster-down", "stop a cluster and its agents", CLUSTER, DATA, DELETE_DB),
    _action("master-up", "start a cluster without agents", *_UP, NO_MASTER_NAME),
    _action(
        "master-down",
        "stop a cluster and its agents, like cluster-down",
        CLUSTER,
        DATA,
        DELETE_DB,
        NO_MASTER_NAME,
    ),
    _action(
        "agent-up",
        "start an agent on this machine",
        Arg("master_host", nargs="?", default="localhost", help="host name or URL of the API"),
        PORT,
        Arg(
            "--master-cert-sha256",
            metavar="SHA256",
            help="use HTTPS and trust the certificate with this fingerprint",
        ),
        Arg("--agent-config-path", metavar="FILE", help="the agent's configuration, in YAML"),
        Arg("--agent-name", metavar="NAME", help="id of the agent (default: det-agent-HOSTNAME)"),
        Arg("--agent-resource-pool", metavar="POOL", help="the agent's resource pool"),
        SLOTS,
        RUNTIME,
        *GPU,
        CLUSTER,
        DATA,
        FOREGROUND,
        *REPLACED,
    ),
    _action(
        "agent-down",
        "stop agents on this machine",
        Arg("--agent-name", metavar="NAME", help="id of the agent (default: det-agent-HOSTNAME)"),
        Arg("--all", action="store_true", help="stop all agents of the cluster on this machine"),
        CLUSTER,
        DATA,
    ),
    _action("status", "show the processes and addresses of a cluster", CLUSTER, DATA),
    _action(
        "support-bundle",
        "write an archive with diagnostic information",
        CLUSTER,
        DATA,
        Arg(
            "-o",
            "--output-dir",
            metavar="DIRECTORY",
            help="destination directory (default: the current directory)",
        ),
    ),
    _action(
        "backup",
        "back up the database, secrets and files of a cluster to one file; the cluster may be running",
        Arg("file", help="the file to write; it contains secrets and only you can read it"),
        Arg(
            "--without-checkpoints",
            action="store_true",
            help="skip checkpoints and TensorBoard files",
        ),
        Arg("--force", action="store_true", help="replace FILE if it exists"),
        CLUSTER,
        DATA,
    ),
    _action(
        "restore",
        "restore a cluster from a backup into a new data directory",
        Arg("file", help="a file that `backup` wrote"),
        Arg("--cluster-name", help="name of the new cluster (default: the name in the backup)"),
        Arg(
            "--data-dir",
            metavar="DIR",
            help="data directory of the new cluster; it must be empty or must not exist",
        ),
    ),
    _action(
        "logs",
        "print the log of a cluster's control plane",
        CLUSTER,
        DATA,
        Arg("--no-follow", action="store_true", help="print the existing lines and exit"),
    ),
)

MEMBERS = {
    "deploy": Group(
        "deploy",
        "start and stop clusters",
        LOCAL,
        AWS,
        GCP,
        aliases=["d"],
        args=GROUP,
    ),
}
