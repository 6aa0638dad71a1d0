"""det token and det auth"""

from det_cli.declare import JSON, OUTPUT, YAML, Arg, Command, Group, OneOf

ID = Arg("token_id", type=int, help="the token's id, as shown by `det token list`")
DESCRIPTION = Arg("-d", "--description", help="the purpose of the token")

MEMBERS = {
    "token": Group(
        "token",
        "manage access tokens",
        Command(
            "create",
            "create a token and print it; it is not shown again",
            "tokens:create",
            Arg("username", nargs="?", help="the user of the token (default: you)"),
            Arg(
                "-e",
                "--expiration-days",
                type=int,
                metavar="DAYS",
                help="lifetime (30, which is also the maximum unless the cluster allows more);"
                " -1: no expiration (administrators only)",
            ),
            DESCRIPTION,
            OneOf(JSON, YAML),
        ),
        Command(
            "describe",
            "show tokens",
            "tokens:describe",
            Arg("token_id", type=int, nargs="+", help="token ids"),
            OUTPUT,
        ),
        Command(
            "edit", "change the description of a token", "tokens:edit", ID, DESCRIPTION, OUTPUT
        ),
        Command(
            "list",
            "list your tokens; administrators see the tokens of all users",
            "tokens:list_",
            Arg("username", nargs="?", help="only tokens of this user"),
            Arg("--show-inactive", action="store_true", help="include revoked and expired tokens"),
            OUTPUT,
            aliases=["ls"],
        ),
        Command(
            "login",
            "sign in with a token",
            "tokens:login",
            Arg("token", help="the token; - reads it from stdin"),
        ),
        Command("revoke", "revoke a token", "tokens:revoke", ID),
        aliases=["tkn"],
        default="list",
    ),
    "auth": Group(
        "auth",
        "sign in at your organization's identity provider",
        Command(
            "list-providers",
            "list the identity providers of the cluster",
            "auth:list_providers",
            OUTPUT,
        ),
        Command(
            "login",
            "sign in at an identity provider with a browser",
            "auth:login",
            Arg("-p", "--provider", help="the identity provider, if the cluster has several"),
            Arg(
                "--headless",
                action="store_true",
                help="print a code to enter in a browser on another device",
            ),
            Arg(
                "--port",
                type=int,
                default=0,
                help="local port for the browser redirect (default: a free port)",
            ),
        ),
        default="login",
    ),
}
