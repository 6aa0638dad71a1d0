"""det config-policies"""

from det_cli.declare import JSON, YAML, Arg, Command, Group, OneOf

KIND = Arg(
    "workload_type",
    choices=["experiment", "tasks"],
    help="the workloads that the policy applies to",
)
SPACE = Arg(
    "-w",
    "--workspace-name",
    metavar="WORKSPACE",
    help="the policy of this workspace (default: of the cluster)",
)

MEMBERS = {
    "config-policies": Group(
        "config-policies",
        "enforce settings and limits in all configurations",
        Command("delete", "delete a policy", "config_policies:delete", KIND, SPACE),
        Command(
            "describe",
            "print a policy",
            "config_policies:describe",
            KIND,
            SPACE,
            OneOf(JSON, YAML),
        ),
        Command(
            "set",
            "set a policy from a file, replacing the previous policy",
            "config_policies:set_",
            KIND,
            Arg("config_file", help="constraints and invariant_config, in YAML or JSON"),
            SPACE,
        ),
        aliases=["cp"],
    )
}
