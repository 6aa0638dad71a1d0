"""det deploy gcp"""

from det_cli.commands import deploy_options as common
from det_cli.declare import (
    JSON,
    OUTPUT,
    YAML,
    Arg,
    Command,
    Group,
    OneOf,
    ReplacedArg,
    replaced_flag,
    web_address,
)

CLUSTER = Arg(
    "--cluster-id", required=True, metavar="NAME", help="tells clusters of a project apart"
)
_NO_LOCAL_STATE = ReplacedArg(
    "--local-state-path",
    metavar="DIR",
    instead="is not needed: Terraform's state lies in a bucket (--tf-state-gcs-bucket-name)",
)
_PROJECT = (
    Arg("--project-id", metavar="PROJECT", help="the project (GOOGLE_CLOUD_PROJECT, or gcloud's)"),
    Arg("--region", metavar="REGION", help="the region (GOOGLE_CLOUD_REGION, or us-west1)"),
    Arg("--keypath", metavar="FILE", help="a key of a service account, instead of your own sign-in"),
    Arg("--tf-state-gcs-bucket-name", metavar="BUCKET",
        help="bucket of Terraform's states (PROJECT-determined-deploy)"),
    Arg("--endpoint-url", type=web_address, metavar="URL",
        help="of a Google Cloud that is not Google's, for trials"),
)  # fmt: skip

_REPLACED = (
    _NO_LOCAL_STATE,
    ReplacedArg("--network", metavar="NAME", refused=True, harmless=["det-default"],
        instead="cannot be given: the cluster has a network det-CLUSTER of its own; "
        " --var network_id=ID, with subnetwork_id and network_peering, takes one that is there"),
    ReplacedArg("--filestore-address", metavar="ADDRESS", refused=True, harmless=[""],
        instead="cannot be given: machines mount no Filestore: `startup_script` of a pool can,"
        " and `bind_mounts` hand it on"),
    replaced_flag("--no-filestore", instead="is not needed: no Filestore is made"),
    common.NO_VERSION,
    ReplacedArg("--operation-timeout-period", metavar="TIME",
        instead="is not needed: a launch does not wait for its operation"),
    common.NO_MASTER_TYPE,
    ReplacedArg("--min-cpu-platform-master", metavar="PLATFORM",
        instead="is not needed: no machine runs for the master"),
    common.NO_DB_PASSWORD,
    ReplacedArg("--port", metavar="PORT",
        instead="is not needed: the address of the cluster begins with https:// and has no port"),
    common.NO_TEMPLATE,
)  # fmt: skip

GCP = Group(
    "gcp",
    "run a cluster on Google Cloud: services of Cloud Run over Cloud SQL",
    Command(
        "down",
        "remove a cluster, and prove that nothing of it is left running",
        "deploy_gcp:down",
        CLUSTER,
        *_PROJECT,
        common.FORCE,
        common.DRAIN,
        common.DELETE_DATA,
        common.YES,
        _NO_LOCAL_STATE,
    ),
    Command(
        "dump-master-config-template",
        "print the configuration that `up` makes without options, to begin with",
        "deploy_gcp:dump_config",
    ),
    Command(
        "dump-template",
        "write the Terraform stacks to a directory",
        "deploy_gcp:dump_template",
        common.DIRECTORY,
    ),
    Command("list", "list the clusters of the project", "deploy_gcp:list_", *_PROJECT, OneOf(JSON, YAML),
            aliases=["ls"]),
    Command("status", "describe a cluster", "deploy_gcp:status", CLUSTER, *_PROJECT, OUTPUT),
    Command(
        "up",
        "create a cluster, or bring it up to date",
        "deploy_gcp:up",
        CLUSTER,
        *_PROJECT,
        Arg("--zone", metavar="ZONE", help="where machines are rented (any zone of the region)"),
        common.CONFIG,
        common.compute("n1-standard-8"),
        Arg("--gpu-type", metavar="GPU", help="attached to N1 machines (nvidia-tesla-t4); other types have theirs"),
        Arg("--gpu-num", type=int, metavar="N", help="GPUs attached to a machine (1)"),
        common.aux("n1-standard-4"),
        Arg("--spot", action="store_true", help="rent spot machines for work with GPUs"),
        Arg("--preemptible", nargs="?", const="true", choices=["true", "false"], metavar="true|false",
            help="the same, by its older name"),
        Arg("--min-cpu-platform-agent", metavar="PLATFORM", help="of N1 machines, such as 'Intel Skylake'"),
        Arg("--disk-size", type=int, metavar="GB",
            help="boot disk of the machines with GPUs (200); machines of aux-pool have 100 GB"),
        Arg("--disk-type", metavar="TYPE", help="and its kind, such as pd-ssd (pd-balanced)"),
        Arg("--environment-image", metavar="IMAGE", help="boot image or family of the machines, as a path"),
        *common.POOLS,
        *common.WORK,
        Arg("--add-label", action="append", metavar="KEY=VALUE",
            help="a label of all that is made, machines too (may be repeated)"),
        Arg("--db-backup", metavar="ID",
            help="the id or name of a backup of Cloud SQL, from which a new cluster's database begins (an empty one)"),
        Arg("--image", metavar="IMAGE", help="of the control plane, if you built it (Cloud Build builds it)"),
        Arg("--var", action="append", metavar="NAME=VALUE",
            help="a variable of the Terraform stack, such as database_tier=db-g1-small (may be repeated)"),
        common.PREFLIGHT,
        *common.CLUSTER_OPTIONS,
        common.YES,
        *_REPLACED,
    ),
)  # fmt: skip
