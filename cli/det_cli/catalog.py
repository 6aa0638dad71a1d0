"""Every group and top-level command: its name, aliases, module and one line of help."""

# (name, aliases, module of det_cli.commands, help)
ENTRIES: "tuple[tuple[str, tuple[str, ...], str, str], ...]" = (
    ("agent", ("a",), "agent", "list, describe, enable, disable, move and join agents"),
    ("audit", (), "master", "show the audit log (administrators)"),
    ("auth", (), "token", "sign in at your organization's identity provider"),
    ("budget", ("b",), "costs", "limit the cost of rented machines"),
    ("checkpoint", ("c",), "trial", "describe, download and delete checkpoints"),
    ("command", ("cmd",), "interactive", "run commands on the cluster"),
    ("completion", (), "single", "print a completion script for your shell"),
    (
        "config-policies",
        ("cp",),
        "configurations",
        "enforce settings and limits in all configurations",
    ),
    ("deploy", ("d",), "deploy", "start and stop clusters"),
    ("dev", (), "master", "call the API by hand"),
    ("experiment", ("e",), "experiment", "manage experiments"),
    ("export", (), "moving", "copy experiments, metrics and models out of this cluster"),
    ("import", (), "moving", "move a Determined cluster into this one"),
    ("instance", ("i",), "machines", "list and terminate rented machines"),
    ("job", ("j",), "task", "show and reorder the job queue"),
    ("master", (), "master", "describe the cluster"),
    ("mcp", (), "single", "serve tools with which an assistant uses the cluster (MCP)"),
    ("model", ("m",), "model", "manage the model registry"),
    ("notebook", (), "interactive", "start and manage JupyterLab notebooks"),
    ("pool", (), "pools", "manage resource pools and the access to them"),
    ("preview-search", (), "single", "show the trials that a search would train"),
    ("project", ("p",), "workspace", "group experiments in projects"),
    ("rbac", (), "user", "assign and list roles"),
    ("resource-pool", ("rp",), "machines", "list resource pools"),
    ("resources", ("res",), "costs", "report the usage and cost of resources"),
    ("run", (), "trial", "search the runs of all experiments"),
    ("shell", (), "interactive", "start and manage SSH shells"),
    ("slot", ("s",), "agent", "list, enable and disable slots"),
    ("task", (), "task", "create, list and stop tasks, and read their logs"),
    ("tensorboard", (), "interactive", "start and manage TensorBoards"),
    ("template", ("tpl",), "configurations", "manage configuration templates"),
    ("token", ("tkn",), "token", "manage access tokens"),
    ("top", (), "single", "watch pools, the queue, machines and costs (q quits)"),
    ("trial", ("t",), "trial", "manage trials and read their logs"),
    ("user", ("u",), "user", "sign in and manage users"),
    ("user-group", (), "user", "manage user groups"),
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
