"""det deploy gcp"""

from det_cli.declare import OUTPUT, YES, Arg, Command, Group

CLUSTER = Arg(
    "--cluster-id", required=True, metavar="NAME", help="tells clusters of a project apart"
)
_PROJECT = (
    Arg("--project-id", metavar="PROJECT", help="the project (GOOGLE_CLOUD_PROJECT, or gcloud's)"),
    Arg("--region", metavar="REGION", help="the region (GOOGLE_CLOUD_REGION, or us-west1)"),
    Arg("--keypath", metavar="FILE", help="a key of a service account, instead of your own sign-in"),
    Arg("--tf-state-gcs-bucket-name", metavar="BUCKET",
        help="bucket of Terraform's states (PROJECT-determined-deploy)"),
    Arg("--endpoint-url", metavar="URL", help="of a Google Cloud that is not Google's, for trials"),
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
        Arg("--force", action="store_true", help="also while machines run"),
        Arg("--delete-data", action="store_false", dest="keep_data", default=True,
            help="delete checkpoints and the database too"),
        YES,
    ),
    Command(
        "dump-template",
        "write the Terraform stacks to a directory",
        "deploy_gcp:dump_template",
        Arg("directory", help="a new directory"),
    ),
    Command("list", "list the clusters of the project", "deploy_gcp:list_", *_PROJECT, aliases=["ls"]),
    Command("status", "describe a cluster", "deploy_gcp:status", CLUSTER, *_PROJECT, OUTPUT),
    Command(
        "up",
        "create a cluster, or bring it up to date",
        "deploy_gcp:up",
        CLUSTER,
        *_PROJECT,
        Arg("--zone", metavar="ZONE", help="where machines are rented (any zone of the region)"),
        Arg("--master-config-path", "--config", dest="master_config_path", metavar="FILE",
            help="the cluster's configuration, in YAML"),
        Arg("--compute-agent-instance-type", metavar="TYPE", help="machines for work with GPUs (n1-standard-8)"),
        Arg("--gpu-type", metavar="GPU", help="attached to N1 machines (nvidia-tesla-t4); other types have theirs"),
        Arg("--gpu-num", type=int, metavar="N", help="GPUs attached to a machine (1)"),
        Arg("--aux-agent-instance-type", metavar="TYPE", help="machines for work without (n1-standard-4)"),
        Arg("--spot", "--preemptible", action="store_true", dest="spot", help="rent spot machines for work with GPUs"),
        Arg("--environment-image", metavar="IMAGE", help="boot image or family of the machines, as a path"),
        Arg("--min-dynamic-agents", type=int, metavar="N", help="machines that always run (0)"),
        Arg("--max-dynamic-agents", type=int, metavar="N", help="most machines of a pool (5)"),
        Arg("--max-idle-agent-period", metavar="TIME", help="how long idle machines are kept (10m)"),
        Arg("--max-agent-starting-period", metavar="TIME", help="how long machines may take to join (20m)"),
        Arg("--max-aux-containers-per-agent", type=int, metavar="N", help="containers without slots a machine (16)"),
        Arg("--initial-user-password", metavar="PASSWORD", help="of the first users (one is made, and shown once)"),
        Arg("--image", metavar="IMAGE", help="of the control plane, if you built it (Cloud Build builds it)"),
        Arg("--var", action="append", metavar="NAME=VALUE",
            help="a variable of the Terraform stack, such as database_tier=db-g1-small (may be repeated)"),
        Arg("--no-preflight-checks", action="store_true", help="do not look at permissions, machine types and quotas"),
        Arg("--forget-options", action="store_true",
            help="do not use what the last time gave: configuration, machines, --var"),
        Arg("--dry-run", action="store_true", help="tell what would be made, and what it costs"),
        YES,
    ),
)  # fmt: skip
