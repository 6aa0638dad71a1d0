"""det deploy aws"""

from det_cli.declare import OUTPUT, YES, Arg, Command, Group

CLUSTER = Arg(
    "--cluster-id", required=True, metavar="NAME", help="tells clusters of an account apart"
)
REGION = Arg("--region", metavar="REGION", help="the AWS region (AWS_REGION)")
PROFILE = Arg("--endpoint-url", metavar="URL", help="of an AWS that is not Amazon's, for trials")
_WHERE = (REGION, PROFILE)

AWS = Group(
    "aws",
    "run a cluster on AWS: functions over a serverless database",
    Command(
        "down",
        "remove a cluster, and prove that nothing of it is left running",
        "deploy_aws:down",
        CLUSTER,
        *_WHERE,
        Arg("--force", action="store_true", help="also while machines run"),
        Arg(
            "--delete-data",
            action="store_false",
            dest="keep_data",
            default=True,
            help="delete checkpoints and the database too",
        ),
        YES,
    ),
    Command(
        "dump-template",
        "write the Terraform stacks to a directory",
        "deploy_aws:dump_template",
        Arg("directory", help="a new directory"),
    ),
    Command("list", "list the clusters of the account", "deploy_aws:list_", *_WHERE, aliases=["ls"]),
    Command("status", "describe a cluster", "deploy_aws:status", CLUSTER, *_WHERE, OUTPUT),
    Command(
        "up",
        "create a cluster, or bring it up to date",
        "deploy_aws:up",
        CLUSTER,
        *_WHERE,
        Arg("--master-config-path", "--config", dest="master_config_path", metavar="FILE",
            help="the cluster's configuration, in YAML"),
        Arg("--compute-agent-instance-type", metavar="TYPE", help="machines for work with GPUs (g4dn.xlarge)"),
        Arg("--aux-agent-instance-type", metavar="TYPE", help="machines for work without (m5.xlarge)"),
        Arg("--spot", action="store_true", help="rent spot machines for work with GPUs"),
        Arg("--min-dynamic-agents", type=int, metavar="N", help="machines that always run (0)"),
        Arg("--max-dynamic-agents", type=int, metavar="N", help="most machines of a pool (5)"),
        Arg("--max-idle-agent-period", metavar="TIME", help="how long idle machines are kept (10m)"),
        Arg("--max-agent-starting-period", metavar="TIME", help="how long machines may take to join (20m)"),
        Arg("--max-aux-containers-per-agent", type=int, metavar="N", help="containers without slots a machine (16)"),
        Arg("--initial-user-password", metavar="PASSWORD", help="of the first users (one is made, and shown once)"),
        Arg("--google-credentials", metavar="FILE",
            help="how functions sign in to Google Cloud, for pools that rent there (workload identity federation)"),
        Arg("--var", action="append", metavar="NAME=VALUE",
            help="a variable of the Terraform stack, such as database=rds (may be repeated)"),
        Arg("--forget-options", action="store_true",
            help="do not use what the last time gave: configuration, machines, --var"),
        Arg("--dry-run", action="store_true", help="tell what would be made"),
        YES,
    ),
)  # fmt: skip
