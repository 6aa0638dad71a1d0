"""Commands without a group."""

from det_cli.declare import JSON, OUTPUT, WATCHING, YAML, Arg, Command, OneOf

MEMBERS = {
    "completion": Command(
        "completion",
        "print a completion script for your shell",
        "completions:print_script",
        Arg("shell", choices=["bash", "zsh"]),
    ),
    "mcp": Command(
        "mcp",
        "serve tools with which an assistant uses the cluster (MCP)",
        "assistants:serve",
        Arg(
            "--allow-writes",
            action="store_true",
            help="offer also tools that create, pause, activate and kill experiments",
        ),
        Arg(
            "--root",
            default=".",
            metavar="DIRECTORY",
            help="the only folder whose code may be sent to the cluster (default: the current one)",
        ),
        Arg(
            "--http",
            type=int,
            metavar="PORT",
            help="serve streamable HTTP on 127.0.0.1 instead of stdin and stdout, with a secret in"
            " DET_MCP_SECRET, or else a random one that is printed",
        ),
    ),
    "preview-search": Command(
        "preview-search",
        "show the trials that a search would train",
        "searches:preview",
        Arg("config_file", help="the experiment's configuration, in YAML"),
        OUTPUT,
    ),
    "top": Command(
        "top",
        "watch pools, the queue, machines and costs (q quits)",
        "watch:cluster",
        *WATCHING,
    ),
    "version": Command(
        "version",
        "show the versions of the client and the cluster",
        "master:version",
        OneOf(JSON, YAML),
    ),
    "why": Command(
        "why",
        "explain why a job waits or failed",
        "why:why",
        Arg(
            "subject",
            nargs="+",
            metavar="[experiment|trial|job|task] ID",
            help="a number alone is an experiment id; for a task, a prefix of the id is enough",
        ),
        OUTPUT,
    ),
}
