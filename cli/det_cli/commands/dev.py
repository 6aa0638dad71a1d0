"""det dev"""

from det_cli.declare import OUTPUT, Arg, Command, Group, TextArg

MEMBERS = {
    "dev": Group(
        "dev",
        "call the API by hand",
        Command("auth-token", "print the token of this session", "dev:auth_token"),
        Command(
            "curl",
            "send one request as the signed-in user",
            "dev:curl",
            Arg("path", help="such as /api/v1/me"),
            Arg("-x", action="store_true", dest="show", help="tell the curl command for it first"),
            Arg("-X", "--request", metavar="METHOD", help="default: GET, or POST with --data"),
            Arg("-d", "--data", help="the body, in JSON"),
            aliases=["c"],
        ),
        Group(
            "bindings",
            "call the API by the names of its calls",
            Command(
                "call",
                "send the call of this name as the signed-in user",
                "bindings:call",
                Arg("name", help="as in `det dev bindings list`"),
                Arg("-y", "--yes", "--auto-confirm", action="store_true", help="do not ask"),
                TextArg(
                    "words",
                    nargs="...",
                    metavar="args",
                    help="what stands in its address, in order; then KEY=VALUE, a value of the body in JSON or as text",
                ),
                aliases=["c"],
            ),
            Command(
                "list",
                "list the calls and what they take",
                "bindings:list_",
                Arg("--show-unusable", action="store_true", help="the same: all can be called"),
                OUTPUT,
                aliases=["ls"],
            ),
            aliases=["b"],
        ),
    )
}
