"""det deploy aws"""

from det_cli.commands import deploy_options as common
from det_cli.commands.moving import BESIDE
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
    "--cluster-id",
    required=True,
    metavar="NAME",
    help="a name for the cluster, unique in the account",
)
_WHERE = (
    Arg("--region", metavar="REGION", help="the AWS region (default: AWS_REGION, or the profile's region)"),
    Arg("--profile", metavar="NAME", help="the AWS credentials profile (default: AWS_PROFILE)"),
    Arg("--endpoint-url", type=web_address, metavar="URL",
        help="endpoint of an AWS emulator, for tests"),
)  # fmt: skip
_DEPLOYMENT_TYPES = ["simple-rds", "secure", "efs", "fsx", "govcloud", "genai"]
_MOUNTED = "machines do not mount AWS file systems: mount it in the pool's `startup_script` and use `bind_mounts`"
_NO_TLS = "is not needed: the cluster's address has a certificate from AWS"
_NO_GENAI = "is not supported: GenAI is a separate product"
_NO_IMAGE = (
    "is not needed: the cluster pulls no images of its own; use `registry_auth` for task images"
)
_NEVER_GIVES_UP = "is not needed: an agent always reconnects to its cluster and its containers"
_MACHINES_STAY = "is not needed: machines and their work continue to run while a cluster is updated"

_REPLACED = (
    common.NO_MASTER_TYPE,
    replaced_flag("--enable-cors", refused=True,
        instead="is not supported: web pages of other origins must not call the API"),
    ReplacedArg("--master-tls-cert", metavar="FILE", instead=_NO_TLS),
    ReplacedArg("--master-tls-key", metavar="FILE", instead=_NO_TLS),
    ReplacedArg("--master-cert-name", metavar="NAME", instead=_NO_TLS),
    ReplacedArg("--inbound-cidr", metavar="CIDR", refused=True, harmless=["0.0.0.0/0"],
        instead="is not supported: a function URL has no firewall, and every request needs authentication;"
        " machines accept no inbound connections"),
    common.NO_VERSION,
    common.NO_DB_PASSWORD,
    ReplacedArg("--db-size", metavar="GB", instead="is not needed: the database's disk grows with its contents"),
    ReplacedArg("--log-group-prefix", metavar="PREFIX", refused=True,
        instead="is not supported: function logs are in /aws/lambda/det-CLUSTER-FUNCTION,"
        " task logs in the database"),
    replaced_flag("--retain-log-group", refused=True,
        instead="is not supported: function logs are deleted with the cluster;"
        " `aws logs create-export-task` copies them"),
    common.NO_TEMPLATE,
    ReplacedArg("--efs-id", metavar="ID", refused=True, instead=f"is not supported: {_MOUNTED}"),
    ReplacedArg("--fsx-id", metavar="ID", refused=True, instead=f"is not supported: {_MOUNTED}"),
    ReplacedArg("--agent-reattach-enabled", metavar="BOOL", instead=_NEVER_GIVES_UP),
    ReplacedArg("--agent-reconnect-attempts", metavar="N", instead=_NEVER_GIVES_UP),
    ReplacedArg("--agent-reconnect-backoff", metavar="SECONDS", instead=_NEVER_GIVES_UP),
    replaced_flag("--shut-down-agents-on-connection-loss",
        instead="is not needed: an idle machine shuts down after half an hour without its cluster"),
    replaced_flag("--no-shut-down-agents-on-connection-loss", refused=True,
        instead="is not supported: an idle machine shuts down after half an hour without its cluster,"
        " because it costs money"),
    replaced_flag("--update-terminate-agents", instead=_MACHINES_STAY),
    replaced_flag("--no-update-terminate-agents", instead=_MACHINES_STAY),
    replaced_flag("--enterprise-edition",
        instead="is not needed: roles, groups, single sign-on and the audit log are part of every cluster"),
    ReplacedArg("--docker-user", metavar="NAME", instead=_NO_IMAGE),
    ReplacedArg("--docker-pass", metavar="PASSWORD", instead=_NO_IMAGE),
    ReplacedArg("--genai-version", metavar="VERSION", refused=True, instead=_NO_GENAI),
    ReplacedArg("--genai-shared-fs-mount-path", metavar="PATH", refused=True, instead=_NO_GENAI),
)  # fmt: skip

AWS = Group(
    "aws",
    "run a cluster on AWS with Lambda functions and a serverless database",
    Command(
        "down",
        "remove a cluster and verify that no resource is left running",
        "deploy_aws:down",
        CLUSTER,
        *_WHERE,
        common.FORCE,
        common.DRAIN,
        common.DELETE_DATA,
        common.YES,
    ),
    Command(
        "dump-master-config-template",
        "print the default configuration of `up`, as a starting point for --config",
        "deploy_aws:dump_config",
        Arg("--deployment-type", choices=_DEPLOYMENT_TYPES, help="accepted and ignored"),
    ),
    Command(
        "dump-template",
        "write the Terraform stacks to a directory",
        "deploy_aws:dump_template",
        common.DIRECTORY,
    ),
    Command(
        "image",
        "make a machine image with the agent and task images, for the next `up`",
        "deploy_aws:image",
        CLUSTER,
        *_WHERE,
        *common.IMAGE,
        common.YES,
    ),
    Command(
        "import",
        "move a Determined cluster into this one, with a job beside the database; an interrupted import continues",
        "deploy_aws:import_",
        CLUSTER,
        *_WHERE,
        *BESIDE,
    ),
    Command("list", "list the clusters of the account", "deploy_aws:list_", *_WHERE, OneOf(JSON, YAML),
            aliases=["ls"]),
    Command(
        "rehearse",
        "test every part of a cluster once, and report the time and cost of each step",
        "deploy_aws:rehearse",
        CLUSTER,
        *_WHERE,
        *common.REHEARSAL,
        common.CONFIG,
        common.compute("g4dn.xlarge"),
        common.aux("m5.xlarge"),
        Arg("--spot", action="store_true", help="rent spot machines in the GPU pool, if the cluster is new"),
        Arg("--google-credentials", metavar="FILE",
            help="credential file of the functions for Google Cloud, for pools that rent there"),
        Arg("--var", action="append", metavar="NAME=VALUE",
            help="a variable of the Terraform stack (may be repeated)"),
        common.PREFLIGHT,
        common.DELETE_DATA,
        common.YES,
    ),
    Command("status", "describe a cluster", "deploy_aws:status", CLUSTER, *_WHERE, OUTPUT),
    Command(
        "up",
        "create or update a cluster",
        "deploy_aws:up",
        CLUSTER,
        *_WHERE,
        common.CONFIG,
        common.compute("g4dn.xlarge"),
        common.aux("m5.xlarge"),
        Arg("--spot", action="store_true", help="rent spot machines in the GPU pool"),
        Arg("--spot-max-price", metavar="DOLLARS",
            help="maximum hourly price of a spot machine (default: the on-demand price)"),
        *common.POOLS,
        *common.WORK,
        Arg("--notebook-timeout", type=int, metavar="SECONDS", help="stop notebooks after this idle time (0: never)"),
        Arg("--keypair", metavar="NAME",
            help="EC2 key pair for SSH to the machines; add a rule to their security group to allow SSH"),
        Arg("--environment-image", metavar="AMI",
            help="id of the machines' image (default: AWS's image with NVIDIA's driver)"),
        Arg("--agent-subnet-id", metavar="SUBNET",
            help="your own subnet for the machines, with internet access (default: the cluster's subnets)"),
        Arg("--add-tag", action="append", metavar="KEY=VALUE",
            help="a tag for all resources and machines (may be repeated)"),
        Arg("--deployment-type", choices=_DEPLOYMENT_TYPES,
            help="simple-rds and secure use a database that always runs; other types are not supported"),
        Arg("--db-instance-type", metavar="CLASS",
            help="use a database of this class that always runs, instead of one that pauses"),
        Arg("--db-snapshot", metavar="NAME",
            help="name or ARN of a snapshot to restore into the database of a new cluster"),
        Arg("--google-credentials", metavar="FILE",
            help="workload identity federation file of the functions, for pools that rent on Google Cloud"),
        Arg("--var", action="append", metavar="NAME=VALUE",
            help="a variable of the Terraform stack, such as database=rds (may be repeated)"),
        common.PREFLIGHT,
        *common.CLUSTER_OPTIONS,
        common.YES,
        *_REPLACED,
    ),
)  # fmt: skip
