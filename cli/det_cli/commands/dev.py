"""det dev"""

from det_cli.declare import Arg, Command, Group

MEMBERS = {
    "dev": Group(
        "dev",
        "call the API by hand",
        Command("auth-token", "print the token of this session", "devs:auth_token"),
        Command(
            "curl",
            "send one request as the signed-in user",
            "devs:curl",
            Arg("path", help="such as /api/v1/me"),
            Arg("-X", "--request", metavar="METHOD", help="default: GET, or POST with --data"),
            Arg("-d", "--data", help="the body, in JSON"),
            aliases=["c"],
        ),
    )
}
