"""det deploy"""

from det_cli.commands.deploy_aws import AWS
from det_cli.commands.deploy_gcp import GCP
from det_cli.commands.deploy_local import LOCAL
from det_cli.declare import Arg, Group

MEMBERS = {
    "deploy": Group(
        "deploy",
        "start and stop clusters",
        LOCAL,
        AWS,
        GCP,
        aliases=["d"],
        args=[
            Arg("--no-preflight-checks", action="store_true"),
            Arg("--no-wait-for-master", action="store_true"),
            Arg("--image-repo-prefix"),
        ],
    )
}
