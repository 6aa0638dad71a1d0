"""det deploy"""

from det_cli.commands.deploy_aws import AWS
from det_cli.commands.deploy_gcp import GCP
from det_cli.commands.deploy_local import LOCAL
from det_cli.commands.deploy_options import GROUP
from det_cli.declare import Group

MEMBERS = {
    "deploy": Group(
        "deploy",
        "start and stop clusters",
        LOCAL,
        AWS,
        GCP,
        aliases=["d"],
        args=GROUP,
    )
}
