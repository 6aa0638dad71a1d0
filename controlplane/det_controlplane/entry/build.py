"""Put the control plane together from its settings."""

import logging
import os
from pathlib import Path

from det_controlplane.adapters import issuers, own_wheel
from det_controlplane.adapters.api_probe import ApiProbe
from det_controlplane.adapters.checkpoint_files import ReachableCheckpoints
from det_controlplane.adapters.directory_objects import DirectoryObjects
from det_controlplane.adapters.gcs_objects import GcsObjects
from det_controlplane.adapters.issuer_answers import CachedIssuers
from det_controlplane.adapters.issuer_tokens import IssuerTokens
from det_controlplane.adapters.lambda_functions import LambdaCourier, LambdaIssuers
from det_controlplane.adapters.otlp_spans import spans_of
from det_controlplane.adapters.s3_objects import S3Objects
from det_controlplane.adapters.web_courier import WebCourier
from det_controlplane.api import routes
from det_controlplane.api.app import App
from det_controlplane.api.proxy import RelayRouter
from det_controlplane.api.router import GrowingRouter, Route, Router
from det_controlplane.core.config.cluster import ClusterConfig, load_cluster
from det_controlplane.core.config.text import load_yaml
from det_controlplane.db.engine.connections import Pausing
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.replica import Replica
from det_controlplane.entry.clouds import InstalledClouds, identities_of
from det_controlplane.entry.keys import cipher_of
from det_controlplane.entry.providers import register_used
from det_controlplane.entry.server.object_routes import object_routes
from det_controlplane.entry.server.web_files import web_routes
from det_controlplane.entry.settings import BadSettings, Settings
from det_controlplane.ports.courier import Courier
from det_controlplane.ports.files import ObjectStore
from det_controlplane.ports.waker import Waker
from det_controlplane.services.cluster.first_start import cluster_identity, store_first_password
from det_controlplane.services.context import Context, Host, Verifiers
from det_controlplane.services.logs import master_log

log = logging.getLogger("det.config")


def build_context(settings: Settings, waker: Waker) -> Context:
    """Build the context of a process on a migrated database, and set the first password if one is configured."""
    config = cluster_config(settings)
    password = settings.initial_user_password
    if password is None:
        password = config.initial_user_password
    if settings.public and password == "":
        raise BadSettings(
            "the initial password is empty, and more than this machine reaches the API:"
            " set DET_INITIAL_USER_PASSWORD, or listen on 127.0.0.1"
        )
    for key in config.ignored:
        log.warning("%s of the cluster configuration has no effect here", key)
    pausing = Pausing(settings.db_idle_s, settings.db_wake_s)
    db = Database(settings.database_url, pool_size=settings.pool_size, pausing=pausing)
    master_log.keep(db)
    if password is not None:
        store_first_password(db, password)
    return Context(
        db=db,
        replica=_replica(settings),
        config=config,
        waker=waker,
        objects=_objects(settings),
        cluster_id=settings.cluster_id or cluster_identity(db),
        host=Host(
            public_url=settings.public_url,
            public=settings.public,
            relay_url=settings.relay_url,
            revision=settings.revision,
            carries_traffic=settings.relay_beside,
            may_wait_s=settings.may_wait_s,
            reach_api=ApiProbe(settings.public_url) if settings.public_url else None,
        ),
        bootstrap_token=settings.bootstrap_token,
        verifiers=_verifiers(settings, config),
        clouds=InstalledClouds(settings.provider_defaults, os.environ),
        cipher=cipher_of(settings),
        checkpoint_files=ReachableCheckpoints(),
        courier=_courier(settings, config),
        spans=spans_of(os.environ, config.telemetry),
        wheel=own_wheel.find(),
    )


def _replica(settings: Settings) -> Replica | None:
    if not settings.database_read_url:
        return None
    # Requests do not wait for a copy that wakes: the database itself answers them.
    pausing = Pausing(settings.db_idle_s)
    return Replica(
        Database(settings.database_read_url, pool_size=settings.pool_size, pausing=pausing)
    )


def _verifiers(settings: Settings, config: ClusterConfig) -> Verifiers:
    """Return the verifiers. This process asks the issuers of tokens, or a function that can reach them does."""
    machines = identities_of(config)
    if not settings.keys_function:
        cache = CachedIssuers(issuers.describe, issuers.post_form)
        return Verifiers(IssuerTokens(issuers.fetch_keys), cache, machines)
    far = LambdaIssuers(settings.keys_function)
    return Verifiers(IssuerTokens(far.keys), CachedIssuers(far.describe, far.post), machines)


def build_app(ctx: Context, *more: Route) -> App:
    """Build the app of a server: every route is loaded before the first request."""
    return App(ctx, Router((*routes.every(), *_object_routes(ctx), *web_routes(), *more)))


def build_relay(ctx: Context) -> App:
    """Build the app of a relay. Agents connect to it, and it only carries traffic to tasks."""
    paths = ("/info", "/health")
    here = [route for route in routes.of_module("cluster") if route.path in paths]
    return App(ctx, RelayRouter(here, ctx.host.public_url))


def build_function(ctx: Context) -> App:
    """Build the app of a Lambda function, which loads the modules that its requests need."""
    own = (*routes.DESCRIPTIONS, *_object_routes(ctx), *web_routes())
    places = GrowingRouter(own, routes.place_of, routes.modules_at, routes.of_module)
    return App(ctx, places)


def _courier(settings: Settings, config: ClusterConfig) -> Courier:
    allow_private = config.webhooks.allow_private_targets
    if settings.keys_function and not allow_private:
        return LambdaCourier(settings.keys_function)
    return WebCourier(allow_private=allow_private)


def _object_routes(ctx: Context) -> tuple[Route, ...]:
    return object_routes(ctx.objects) if isinstance(ctx.objects, DirectoryObjects) else ()


def cluster_config(settings: Settings) -> ClusterConfig:
    source, defaults = settings.cluster_config, settings.provider_defaults
    inline = not source or "\n" in source or source.lstrip().startswith("{")
    try:
        text = source if inline else Path(source).read_text("utf-8")
    except OSError as e:
        raise BadSettings(f"DET_CLUSTER_CONFIG: cannot read {source}: {e.strerror}") from e
    raw = load_yaml(text, what="cluster configuration") if text.strip() else {}
    register_used(raw)
    return load_cluster(raw, provider_defaults=defaults)


def _objects(settings: Settings) -> ObjectStore:
    where = settings.objects
    scheme, _, place = where.partition("://")
    bucket, _, prefix = place.partition("/")
    if bucket and scheme == "s3":
        return S3Objects(bucket, prefix=prefix)
    if bucket and scheme == "gs":
        return GcsObjects(bucket, prefix=prefix)
    if not where or "://" in where:
        raise BadSettings(
            f"DET_OBJECTS is {where!r}: give s3://bucket/prefix, gs://bucket/prefix, or a directory"
        )
    if not settings.objects_secret:
        raise BadSettings("DET_OBJECTS_SECRET is not set: it signs the upload URLs of a directory")
    return DirectoryObjects(Path(where), settings.objects_secret.encode())
