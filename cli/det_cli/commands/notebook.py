"""det notebook"""

from det_cli.commands.interactive import (
    CONFIG,
    CONFIG_FILE,
    CONTEXT,
    DETACH,
    NO_BROWSER,
    TEMPLATE,
    VOLUME,
    WORKSPACE,
    id_of,
    members,
)
from det_cli.declare import Arg, Command, Group

MEMBERS = {
    "notebook": Group(
        "notebook",
        "start and manage JupyterLab notebooks",
        *members("notebook", "notebook"),
        Command(
            "open",
            "open a notebook in the browser",
            "interactive_open:open_",
            id_of("notebook", "notebook"),
            NO_BROWSER,
            values={"kind": "notebook"},
        ),
        Command(
            "start",
            "start JupyterLab and open it in the browser",
            "interactive_start:notebook",
            CONFIG_FILE,
            WORKSPACE,
            VOLUME,
            *CONTEXT,
            CONFIG,
            TEMPLATE,
            NO_BROWSER,
            DETACH,
            Arg(
                "--preview",
                action="store_true",
                help="print the configuration and do not start a notebook",
            ),
        ),
        default="list",
    )
}
