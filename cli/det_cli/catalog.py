"""Every group and top-level command: its name, aliases, module and one line of help."""

# (name, aliases, module of det_cli.commands, help)
ENTRIES: "tuple[tuple[str, tuple[str, ...], str, str], ...]" = (
    ("agent", ("a",), "agent", "list, enable and disable agents"),
    ("audit", (), "audit", "tell who changed what (administrators)"),
    ("auth", (), "auth", "sign in at your organization's identity provider"),
    ("budget", ("b",), "budget", "bound what is spent on machines"),
    ("checkpoint", ("c",), "checkpoint", "describe, download and delete checkpoints"),
    ("command", ("cmd",), "command", "run commands on the cluster"),
    ("completion", (), "single", "print a script that completes commands in your shell"),
    (
        "config-policies",
        ("cp",),
        "config_policies",
        "demand settings and limits of every configuration",
    ),
    ("deploy", ("d",), "deploy", "start and stop clusters"),
    ("dev", (), "dev", "call the API by hand"),
    ("experiment", ("e",), "experiment", "create, follow and steer experiments"),
    ("instance", ("i",), "instance", "list rented machines, and give them back"),
    ("job", ("j",), "job", "look at the queue and reorder it"),
    ("master", (), "master", "describe the cluster"),
    ("model", ("m",), "model", "keep named models and their versions"),
    ("notebook", (), "notebook", "work in JupyterLab on the cluster"),
    ("pool", (), "pool", "steer the pools that rent machines"),
    ("preview-search", (), "single", "show what a search would train"),
    ("project", ("p",), "project", "group experiments in projects"),
    ("rbac", (), "rbac", "give roles to users and groups, and see them"),
    ("resource-pool", ("rp",), "resource_pool", "list resource pools"),
    ("resources", ("res",), "resources", "report who used what, and what it cost"),
    ("run", (), "run", "find runs of all experiments by any column"),
    ("shell", (), "shell", "work at a command line on the cluster, by SSH"),
    ("slot", ("s",), "slot", "list, enable and disable slots"),
    ("task", (), "task", "create tasks in trees, list what runs, and read logs"),
    ("tensorboard", (), "tensorboard", "look at curves of experiments in TensorBoard"),
    ("template", ("tpl",), "template", "keep shared parts of configurations"),
    ("token", ("tkn",), "token", "make tokens for programs, list and revoke them"),
    ("top", (), "single", "watch pools, the queue, machines and money (q quits)"),
    ("trial", ("t",), "trial", "describe trials, read their logs, stop them"),
    ("user", ("u",), "user", "sign in and manage users"),
    ("user-group", (), "user_group", "group users, who share the roles of their groups"),
    ("version", (), "single", "show the versions of client and cluster"),
    ("webhook", (), "webhook", "tell other systems what happens"),
    ("why", (), "single", "tell why something waits or failed"),
    ("workspace", ("w",), "workspace", "group projects in workspaces"),
)

# The plural is understood wherever it is an English word.
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
