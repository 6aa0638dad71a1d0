"""Find the roles that a machine gives to its containers: its role in its own cloud and a role in the other cloud."""

from collections.abc import Mapping

from det_agent.credentials import MachineCredentials, account_token, role_credentials
from det_agent.metadata import AwsMetadata, GcpMetadata
from det_agent.other_cloud import account_of_google, role_of_aws
from det_agent.settings import Settings


def credentials_of(settings: Settings) -> Mapping[str, MachineCredentials]:
    """Return sources of credentials by cloud. `identity` and `container_credentials` can exclude them."""
    if settings.container_credentials == "none":
        return {}
    sources = {"aws": _on_aws, "gcp": _on_google}.get(settings.identity, lambda _: ())(settings)
    return {credentials.kind: credentials for credentials in sources}


def _on_aws(settings: Settings) -> tuple[MachineCredentials, ...]:
    here = AwsMetadata()
    own = MachineCredentials("aws", lambda: role_credentials(here))
    config = settings.google_credentials
    if not config:
        return (own,)
    return own, MachineCredentials("gcp", lambda: account_of_google(here, config))


def _on_google(settings: Settings) -> tuple[MachineCredentials, ...]:
    here = GcpMetadata()
    own = MachineCredentials("gcp", lambda: account_token(here))
    role = settings.aws_role_arn
    return (own, MachineCredentials("aws", lambda: role_of_aws(here, role))) if role else (own,)
