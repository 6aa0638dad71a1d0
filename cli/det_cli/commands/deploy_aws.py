"""det deploy aws"""

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
    "--cluster-id", required=True, metavar="NAME", help="tells clusters of an account apart"
)
_WHERE = (
    Arg("--region", metavar="REGION", help="the AWS region (AWS_REGION, or the profile's)"),
    Arg("--profile", metavar="NAME", help="the profile of your AWS credentials (AWS_PROFILE)"),
    Arg("--endpoint-url", type=web_address, metavar="URL",
        help="of an AWS that is not Amazon's, for trials"),
)  # fmt: skip
_DEPLOYMENT_TYPES = ["simple-rds", "secure", "efs", "fsx", "govcloud", "genai"]
_MOUNTED = "machines mount no shared file system of AWS: `startup_script` of a pool can, and `bind_mounts` hand it on"
_NO_TLS = "is not needed: the address has a certificate of AWS that every machine trusts"
_NO_GENAI = "cannot be given: GenAI is a product of its own, which this cluster does not run"
_NO_IMAGE = "is not needed: no image of the cluster is pulled from a registry; `registry_auth` is for those of tasks"
_NEVER_GIVES_UP = "is not needed: an agent never gives up on its cluster, and takes up what it ran"
_MACHINES_STAY = (
    "is not needed: machines and their work go on while a cluster is brought up to date"
)

_REPLACED = (
    common.NO_MASTER_TYPE,
    replaced_flag("--enable-cors", refused=True,
        instead="cannot be given: pages of other sites may not call the cluster, its API is for programs"),
    ReplacedArg("--master-tls-cert", metavar="FILE", instead=_NO_TLS),
    ReplacedArg("--master-tls-key", metavar="FILE", instead=_NO_TLS),
    ReplacedArg("--master-cert-name", metavar="NAME", instead=_NO_TLS),
    ReplacedArg("--inbound-cidr", metavar="CIDR", refused=True, harmless=["0.0.0.0/0"],
        instead="cannot be given: a function's address has no firewall, and every request signs in;"
        " machines let nobody in"),
    common.NO_VERSION,
    common.NO_DB_PASSWORD,
    ReplacedArg("--db-size", metavar="GB", instead="is not needed: the database's disk grows with what is in it"),
    ReplacedArg("--log-group-prefix", metavar="PREFIX", refused=True,
        instead="cannot be given: the logs of functions are in /aws/lambda/det-CLUSTER-FUNCTION,"
        " those of tasks in the database"),
    replaced_flag("--retain-log-group", refused=True,
        instead="cannot be given: the logs of functions go with the cluster;"
        " `aws logs create-export-task` copies them"),
    common.NO_TEMPLATE,
    ReplacedArg("--efs-id", metavar="ID", refused=True, instead=f"cannot be given: {_MOUNTED}"),
    ReplacedArg("--fsx-id", metavar="ID", refused=True, instead=f"cannot be given: {_MOUNTED}"),
    ReplacedArg("--agent-reattach-enabled", metavar="BOOL", instead=_NEVER_GIVES_UP),
    ReplacedArg("--agent-reconnect-attempts", metavar="N", instead=_NEVER_GIVES_UP),
    ReplacedArg("--agent-reconnect-backoff", metavar="SECONDS", instead=_NEVER_GIVES_UP),
    replaced_flag("--shut-down-agents-on-connection-loss",
        instead="is not needed: a machine without work switches itself off after half an hour without its cluster"),
    replaced_flag("--no-shut-down-agents-on-connection-loss", refused=True,
        instead="cannot be given: a machine without work switches itself off after half an hour without its cluster,"
        " as it costs money"),
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
    "run a cluster on AWS: functions over a serverless database",
    Command(
        "down",
        "remove a cluster, and prove that nothing of it is left running",
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
        "print the configuration that `up` makes without options, to begin with",
        "deploy_aws:dump_config",
        Arg("--deployment-type", choices=_DEPLOYMENT_TYPES, help="makes no difference to it"),
    ),
    Command(
        "dump-template",
        "write the Terraform stacks to a directory",
        "deploy_aws:dump_template",
        common.DIRECTORY,
    ),
    Command("list", "list the clusters of the account", "deploy_aws:list_", *_WHERE, OneOf(JSON, YAML),
            aliases=["ls"]),
    Command(
        "rehearse",
        "try every part of a cluster once, and report the time and cost of each",
        "deploy_aws:rehearse",
        CLUSTER,
        *_WHERE,
        *common.REHEARSAL,
        common.CONFIG,
        common.compute("g4dn.xlarge"),
        common.aux("m5.xlarge"),
        Arg("--spot", action="store_true", help="rent spot machines for work with GPUs, if the cluster is new"),
        Arg("--google-credentials", metavar="FILE",
            help="how functions sign in to Google Cloud, for pools that rent there"),
        Arg("--var", action="append", metavar="NAME=VALUE",
            help="a variable of the Terraform stack (may be repeated)"),
        common.PREFLIGHT,
        common.DELETE_DATA,
        common.YES,
    ),
    Command("status", "describe a cluster", "deploy_aws:status", CLUSTER, *_WHERE, OUTPUT),
    Command(
        "up",
        "create a cluster, or bring it up to date",
        "deploy_aws:up",
        CLUSTER,
        *_WHERE,
        common.CONFIG,
        common.compute("g4dn.xlarge"),
        common.aux("m5.xlarge"),
        Arg("--spot", action="store_true", help="rent spot machines for work with GPUs"),
        Arg("--spot-max-price", metavar="DOLLARS", help="what a spot machine may cost an hour (the price on demand)"),
        *common.POOLS,
        *common.WORK,
        Arg("--notebook-timeout", type=int, metavar="SECONDS", help="after which idle notebooks end (0: never)"),
        Arg("--keypair", metavar="NAME",
            help="EC2 key pair that machines trust; their security group lets nobody in until you add a rule"),
        Arg("--agent-subnet-id", metavar="SUBNET",
            help="a subnet of yours for the machines, with a way out (those of the cluster)"),
        Arg("--add-tag", action="append", metavar="KEY=VALUE",
            help="a tag of all that is made, machines too (may be repeated)"),
        Arg("--deployment-type", choices=_DEPLOYMENT_TYPES,
            help="simple-rds and secure: a database that always runs; there are no others here"),
        Arg("--db-instance-type", metavar="CLASS",
            help="a database of this class that always runs, instead of one that pauses"),
        Arg("--db-snapshot", metavar="NAME",
            help="the name or ARN of a snapshot, from which a new cluster's database begins (an empty one)"),
        Arg("--google-credentials", metavar="FILE",
            help="how functions sign in to Google Cloud, for pools that rent there (workload identity federation)"),
        Arg("--var", action="append", metavar="NAME=VALUE",
            help="a variable of the Terraform stack, such as database=rds (may be repeated)"),
        common.PREFLIGHT,
        *common.CLUSTER_OPTIONS,
        common.YES,
        *_REPLACED,
    ),
)  # fmt: skip
