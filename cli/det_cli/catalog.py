"""Every group and top-level command: its name, aliases, module and one line of help."""

# (name, aliases, module of det_cli.commands, help)
ENTRIES: "tuple[tuple[str, tuple[str, ...], str, str], ...]" = (
    ("agent", ("a",), "agent", "list, enable and disable agents"),
    ("audit", (), "audit", "show the audit log (administrators)"),
    ("auth", (), "auth", "sign in at your organization's identity provider"),
    ("budget", ("b",), "budget", "limit the cost of rented machines"),
    ("checkpoint", ("c",), "checkpoint", "describe, download and delete checkpoints"),
    ("command", ("cmd",), "command", "run commands on the cluster"),
    ("completion", (), "single", "print a completion script for your shell"),
    (
        "config-policies",
        ("cp",),
        "config_policies",
        "enforce settings and limits in all configurations",
    ),
    ("deploy", ("d",), "deploy", "start and stop clusters"),
    ("dev", (), "dev", "call the API by hand"),
    ("experiment", ("e",), "experiment", "manage experiments"),
    ("instance", ("i",), "instance", "list and terminate rented machines"),
    ("job", ("j",), "job", "show and reorder the job queue"),
    ("master", (), "master", "describe the cluster"),
    ("model", ("m",), "model", "manage the model registry"),
    ("notebook", (), "notebook", "start and manage JupyterLab notebooks"),
    ("pool", (), "pool", "manage pools that rent machines"),
    ("preview-search", (), "single", "show the trials that a search would train"),
    ("project", ("p",), "project", "group experiments in projects"),
    ("rbac", (), "rbac", "assign and list roles"),
    ("resource-pool", ("rp",), "resource_pool", "list resource pools"),
    ("resources", ("res",), "resources", "report the usage and cost of resources"),
    ("run", (), "run", "search the runs of all experiments"),
    ("shell", (), "shell", "start and manage SSH shells"),
    ("slot", ("s",), "slot", "list, enable and disable slots"),
    ("task", (), "task", "create, list and stop tasks, and read their logs"),
    ("tensorboard", (), "tensorboard", "start and manage TensorBoards"),
    ("template", ("tpl",), "template", "manage configuration templates"),
    ("token", ("tkn",), "token", "manage access tokens"),
    ("top", (), "single", "watch pools, the queue, machines and costs (q quits)"),
    ("trial", ("t",), "trial", "manage trials and read their logs"),
    ("user", ("u",), "user", "sign in and manage users"),
    ("user-group", (), "user_group", "manage user groups"),
    ("version", (), "single", "show the versions of the client and the cluster"),
    ("webhook", (), "webhook", "send events to other systems"),
    ("why", (), "single", "explain why a job waits or failed"),
    ("workspace", ("w",), "workspace", "group projects in workspaces"),
)

# Commands also accept the plural of a group's name, except where the plural is not an English word.
PLURALS = {
    f"{name}s": name
    for name, *_ in ENTRIES
    if name
    not in (
        "audit",
        "auth",
        "completion",
        "config-policies",
        "deploy",
        "dev",
        "master",
        "preview-search",
        "resources",
        "top",
        "version",
        "why",
    )
}
