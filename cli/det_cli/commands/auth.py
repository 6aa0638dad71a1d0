"""det auth"""

from det_cli.declare import OUTPUT, Arg, Command, Group

MEMBERS = {
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
    )
}
