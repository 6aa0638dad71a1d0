"""det config-policies"""

from det_cli.declare import JSON, YAML, Arg, Command, Group, OneOf

KIND = Arg("workload_type", choices=["experiment", "tasks"], help="of what they are demanded")
SPACE = Arg(
    "-w",
    "--workspace-name",
    metavar="WORKSPACE",
    help="of this workspace (default: of the cluster)",
)

MEMBERS = {
    "config-policies": Group(
        "config-policies",
        "demand settings and limits of every configuration",
        Command("delete", "demand nothing any more", "config_policies:delete", KIND, SPACE),
        Command(
            "describe",
            "print what is demanded",
            "config_policies:describe",
            KIND,
            SPACE,
            OneOf(JSON, YAML),
        ),
        Command(
            "set",
            "demand what a file says, instead of what was demanded before",
            "config_policies:set_",
            KIND,
            Arg("config_file", help="constraints and invariant_config, in YAML or JSON"),
            SPACE,
        ),
        aliases=["cp"],
    )
}
