"""Commands that are not part of a group."""

from det_cli.declare import JSON, OUTPUT, WATCHING, YAML, Arg, Command, OneOf

MEMBERS = {
    "completion": Command(
        "completion",
        "print a script that completes commands in your shell",
        "completions:print_script",
        Arg("shell", choices=["bash", "zsh"]),
    ),
    "preview-search": Command(
        "preview-search",
        "show what a search would train",
        "searches:preview",
        Arg("config_file", help="the experiment's configuration, in YAML"),
        OUTPUT,
    ),
    "top": Command(
        "top",
        "watch pools, the queue, machines and money (q quits)",
        "watch:cluster",
        *WATCHING,
    ),
    "version": Command(
        "version", "show the versions of client and cluster", "master:version", OneOf(JSON, YAML)
    ),
    "why": Command(
        "why",
        "tell why something waits or failed",
        "why:why",
        Arg(
            "subject",
            nargs="+",
            metavar="[experiment|trial|job|task] ID",
            help="a number is an experiment unless the kind is given; of a task the beginning is enough",
        ),
        OUTPUT,
    ),
}
