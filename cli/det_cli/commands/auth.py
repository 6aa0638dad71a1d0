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
            "sign in at an identity provider, in a browser",
            "auth:login",
            Arg("-p", "--provider", help="which, if the cluster has several"),
            Arg(
                "--headless",
                action="store_true",
                help="show a code to type in a browser of another device",
            ),
            Arg(
                "--port",
                type=int,
                default=0,
                help="of this machine, to which the browser returns; default: any that is free",
            ),
        ),
        default="login",
    )
}
