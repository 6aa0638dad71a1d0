"""det token"""

from det_cli.declare import JSON, OUTPUT, YAML, Arg, Command, Group, OneOf

ID = Arg("token_id", type=int, help="the token's id, as `det token list` shows it")
DESCRIPTION = Arg("-d", "--description", help="what it is for")

MEMBERS = {
    "token": Group(
        "token",
        "make tokens for programs, list and revoke them",
        Command(
            "create",
            "make a token, shown this once",
            "tokens:create",
            Arg("username", nargs="?", help="as whom it signs in (default: you)"),
            Arg(
                "-e",
                "--expiration-days",
                type=int,
                metavar="DAYS",
                help="when it ends (30, and no later unless the cluster allows it);"
                " -1: never, for administrators only",
            ),
            DESCRIPTION,
            OneOf(JSON, YAML),
        ),
        Command(
            "describe",
            "show tokens",
            "tokens:describe",
            Arg("token_id", type=int, nargs="+", help="their ids"),
            OUTPUT,
        ),
        Command("edit", "change what is said of a token", "tokens:edit", ID, DESCRIPTION, OUTPUT),
        Command(
            "list",
            "list tokens: yours, and everybody's for administrators",
            "tokens:list_",
            Arg("username", nargs="?", help="of this user only"),
            Arg("--show-inactive", action="store_true", help="revoked and ended ones too"),
            OUTPUT,
            aliases=["ls"],
        ),
        Command(
            "login",
            "sign in by a token",
            "tokens:login",
            Arg("token", help="- reads it from stdin"),
        ),
        Command("revoke", "end a token now", "tokens:revoke", ID),
        aliases=["tkn"],
        default="list",
    )
}
