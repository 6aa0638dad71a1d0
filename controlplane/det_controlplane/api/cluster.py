"""The identity and health of the cluster: /info, /health, /master."""

from det_controlplane.api.http import Answer, Request, Response, json_response
from det_controlplane.api.router import Access, get
from det_controlplane.core.config.cluster import Authz
from det_controlplane.core.interface import INTERFACE_VERSION, PRODUCT_VERSION
from det_controlplane.services.cluster import status
from det_controlplane.services.context import Context


def info(ctx: Context, request: Request) -> Answer:
    return identity(ctx.cluster_id, ctx.config.cluster_name)


def identity(cluster_id: str, cluster_name: str) -> Response:
    """Return the cluster's identity, which every client asks first; Determined's gives up without an answer."""
    telemetry = {"enabled": False, "otel_enabled": False, "otel_endpoint": ""}
    return json_response(
        {
            "cluster_id": cluster_id,
            "master_id": cluster_id,
            "version": INTERFACE_VERSION,
            "product_version": PRODUCT_VERSION,
            "cluster_name": cluster_name,
            "telemetry": telemetry,
            "sso_providers": [],
        }
    )


def health(ctx: Context, request: Request) -> Answer:
    if not status.database_answers(ctx):
        return json_response({"status": "down", "database": "down", "resource_managers": []}, 503)
    name = ctx.config.cluster_name
    managers = [{"name": "agents", "cluster_name": name, "status": "up"}]
    return json_response({"status": "up", "database": "up", "resource_managers": managers})


def master(ctx: Context, request: Request) -> Answer:
    return json_response(
        {
            "version": INTERFACE_VERSION, "productVersion": PRODUCT_VERSION,
            "masterId": ctx.cluster_id, "clusterId": ctx.cluster_id, "clusterName": ctx.config.cluster_name,
            "telemetryEnabled": False, "ssoProviders": [],
            "externalLoginUri": "", "externalLogoutUri": "", "branding": "determined",
            "rbacEnabled": ctx.config.authz is Authz.RBAC, "product": "PRODUCT_UNSPECIFIED",
            "featureSwitches": list(ctx.config.feature_switches),
            "userManagementEnabled": True, "strictJobQueueControl": False, "hasCustomLogo": False,
            "clusterMessage": status.message(ctx),
        }
    )  # fmt: skip


def telemetry(ctx: Context, request: Request) -> Answer:
    return json_response({"enabled": False, "segmentKey": ""})


def root(ctx: Context, request: Request) -> Answer:
    return Response(b"", 301, headers={"location": "/det/"})


ROUTES = (
    get("/info", info, access=Access.PUBLIC, summary="Version and identity of the cluster"),
    get("/health", health, access=Access.PUBLIC, summary="Whether the API and its database answer"),
    get("/", root, access=Access.PUBLIC, produces=("text/html",), summary="To the web pages"),
    get("/api/v1/master", master, access=Access.PUBLIC, summary="Version and features"),
    get("/api/v1/master/telemetry", telemetry, access=Access.PUBLIC, summary="Telemetry: off"),
)
