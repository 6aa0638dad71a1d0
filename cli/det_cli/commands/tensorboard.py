"""det tensorboard"""

from det_cli.commands.interactive import (
    CONFIG,
    CONFIG_FILE,
    CONTEXT,
    DETACH,
    NO_BROWSER,
    TEMPLATE,
    WORKSPACE,
    id_of,
    members,
)
from det_cli.declare import Arg, Command, Group

MEMBERS = {
    "tensorboard": Group(
        "tensorboard",
        "start and manage TensorBoards",
        *members("tensorboard", "TensorBoard"),
        Command(
            "open",
            "open a TensorBoard in the browser",
            "interactive_open:open_",
            id_of("tensorboard", "TensorBoard"),
            NO_BROWSER,
            values={"kind": "tensorboard"},
        ),
        Command(
            "start",
            "start a TensorBoard for experiments or trials and open it",
            "interactive_start:tensorboard",
            Arg(
                "experiment_ids",
                nargs="*",
                type=int,
                help="experiment ids; all their trials are shown",
            ),
            Arg("-t", "--trial-ids", nargs="+", type=int, default=[], help="trial ids"),
            WORKSPACE,
            CONFIG_FILE,
            *CONTEXT,
            CONFIG,
            TEMPLATE,
            NO_BROWSER,
            DETACH,
        ),
        default="list",
    )
}
