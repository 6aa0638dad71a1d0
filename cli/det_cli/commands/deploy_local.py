"""det deploy local"""

from det_cli.declare import Arg, Command, Group, ReplacedArg, replaced_flag

CLUSTER = Arg(
    "--cluster-name",
    help="name of the cluster, if this machine has several (the name that the --data-dir has, else determined)",
)
PORT = Arg("--master-port", type=int, metavar="PORT", help="where the API listens (8080)")
CONFIG = Arg(
    "--config",
    "--master-config-path",
    dest="master_config_path",
    metavar="FILE",
    help="the cluster's configuration, in YAML",
)
STORAGE = Arg("--storage-host-path", metavar="DIR", help="where checkpoints are kept")
PASSWORD = Arg(
    "--initial-user-password",
    metavar="PASSWORD",
    help="of the first users: 8 characters, both cases, a digit ('': nobody signs in)",
)
DATABASE = Arg(
    "--db", metavar="URL", help="a PostgreSQL to use; without it one runs in the data directory"
)
DATA = Arg("--data-dir", metavar="DIR", help="where the cluster keeps everything")
SLOTS = Arg("--slots-per-agent", type=int, metavar="N", help="artificial slots instead of devices")
FOREGROUND = Arg("--foreground", action="store_true", help="stay, and stop it all with Ctrl-C")
HOST = Arg(
    "--host",
    metavar="ADDRESS",
    help="address the API listens on; only this machine reaches it unless this is 0.0.0.0 or the like",
)
TLS = (
    Arg("--tls-cert", metavar="FILE", help="speak HTTPS with this certificate, in PEM"),
    Arg("--tls-key", metavar="FILE", help="and its key"),
    Arg("--no-tls", action="store_true", help="plain HTTP also for other machines"),
)
RUNTIME = Arg("--container-runtime", metavar="KIND", help="auto, docker or process")
DELETE_DB = Arg("--delete-db", action="store_true", help="forget all experiments first")
WORK_DIR = Arg("--auto-work-dir", metavar="DIR", help="mount this directory into tasks, trials too")
GPU = (
    Arg("--gpu", action="store_true", dest="gpu", default=True, help="use GPUs where found"),
    Arg("--no-gpu", action="store_false", dest="gpu", help="leave GPUs alone"),
)
# Of Determined's command.
REPLACED = (
    ReplacedArg("--det-version", metavar="VERSION", instead="is not needed: the cluster is of this program's version"),
    ReplacedArg("--db-password", metavar="PASSWORD",
        instead="is not needed: the database listens to this user alone; the URL of --db may hold a password"),
    replaced_flag("--no-autorestart",
        instead="is not needed: after a restart of the machine the cluster is started by `cluster-up`, not by itself"),
    ReplacedArg("--image-repo-prefix", metavar="PREFIX",
        instead="is not needed: no image of the cluster is pulled from a registry"),
    replaced_flag("--enterprise-edition",
        instead="is not needed: roles, groups, single sign-on and the audit log are part of every cluster"),
)  # fmt: skip
NO_MASTER_NAME = ReplacedArg(
    "--master-name",
    metavar="NAME",
    instead="is not needed: --cluster-name tells clusters here apart",
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
        Arg("--agents", type=int, metavar="N", help="how many agents (1, or as before)"),
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
        Arg("master_host", nargs="?", default="localhost", help="where the API is: HOST or a URL"),
        PORT,
        Arg(
            "--master-cert-sha256",
            metavar="SHA256",
            help="reach it by HTTPS and trust the certificate with this fingerprint",
        ),
        Arg("--agent-config-path", metavar="FILE", help="the agent's configuration, in YAML"),
        Arg("--agent-name", metavar="NAME", help="its id (default: det-agent-HOSTNAME)"),
        Arg("--agent-resource-pool", metavar="POOL", help="the pool it joins"),
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
        Arg("--agent-name", metavar="NAME", help="its id (default: det-agent-HOSTNAME)"),
        Arg("--all", action="store_true", help="every agent of the cluster here"),
        CLUSTER,
        DATA,
    ),
    _action("status", "tell what runs and where", CLUSTER, DATA),
    _action(
        "support-bundle",
        "write an archive that helps to find out what is wrong",
        CLUSTER,
        DATA,
        Arg("-o", "--output-dir", metavar="DIRECTORY", help="where to (the current directory)"),
    ),
    _action(
        "backup",
        "write database, secrets and files of a cluster, which may run, to one file",
        Arg("file", help="the file to write; it holds secrets and only you can read it"),
        Arg(
            "--without-checkpoints",
            action="store_true",
            help="leave out checkpoints and TensorBoard files",
        ),
        Arg("--force", action="store_true", help="replace FILE if it exists"),
        CLUSTER,
        DATA,
    ),
    _action(
        "restore",
        "make a cluster from a backup, in a new data directory",
        Arg("file", help="a file that `backup` wrote"),
        Arg("--cluster-name", help="name of the new cluster (default: as in the backup)"),
        Arg(
            "--data-dir",
            metavar="DIR",
            help="data directory of the new cluster; it must be empty or must not exist",
        ),
    ),
    _action(
        "logs",
        "print a cluster's own log",
        CLUSTER,
        DATA,
        Arg("--no-follow", action="store_true", help="print what there is, and stop"),
    ),
)
