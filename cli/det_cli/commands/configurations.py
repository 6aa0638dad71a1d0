"""det template and det config-policies"""

from det_cli.declare import JSON, OUTPUT, YAML, Arg, Command, Group, OneOf

TEMPLATE = Arg("template_name")
TEMPLATE_FILE = Arg("template_file", help="the template: a partial configuration, in YAML")
TEMPLATE_WORKSPACE = Arg("-w", "--workspace-name", help="the workspace of the template")

KIND = Arg(
    "workload_type",
    choices=["experiment", "tasks"],
    help="the workloads that the policy applies to",
)
POLICY_WORKSPACE = Arg(
    "-w",
    "--workspace-name",
    metavar="WORKSPACE",
    help="the policy of this workspace (default: of the cluster)",
)

MEMBERS = {
    "template": Group(
        "template",
        "manage configuration templates",
        Command(
            "create",
            "create a template",
            "configurations:create_template",
            TEMPLATE,
            TEMPLATE_FILE,
            TEMPLATE_WORKSPACE,
        ),
        Command("describe", "print a template", "configurations:describe_template", TEMPLATE),
        Command(
            "list",
            "list templates",
            "configurations:list_templates",
            Arg("-d", "--details", action="store_true", help="show the contents"),
            OUTPUT,
            aliases=["ls"],
        ),
        Command(
            "remove",
            "remove a template",
            "configurations:remove_template",
            TEMPLATE,
            aliases=["rm"],
        ),
        Command(
            "set",
            "create or replace a template",
            "configurations:set_template",
            TEMPLATE,
            TEMPLATE_FILE,
        ),
        Group(
            "set-value",
            "change a template",
            Command(
                "config",
                "replace its contents",
                "configurations:replace_template",
                TEMPLATE,
                TEMPLATE_FILE,
            ),
        ),
        aliases=["tpl"],
        default="list",
    ),
    "config-policies": Group(
        "config-policies",
        "enforce settings and limits in all configurations",
        Command(
            "delete", "delete a policy", "configurations:delete_policies", KIND, POLICY_WORKSPACE
        ),
        Command(
            "describe",
            "print a policy",
            "configurations:describe_policies",
            KIND,
            POLICY_WORKSPACE,
            OneOf(JSON, YAML),
        ),
        Command(
            "set",
            "set a policy from a file, replacing the previous policy",
            "configurations:set_policies",
            KIND,
            Arg("config_file", help="constraints and invariant_config, in YAML or JSON"),
            POLICY_WORKSPACE,
        ),
        aliases=["cp"],
    ),
}
