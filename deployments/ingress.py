"""The Ingress deployment: the routes on Ray's HTTP proxy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import version
from types import ModuleType

from fastapi import FastAPI
from fastapi.routing import APIRoute
from ray import serve

from deployments import errors, openapi
from deployments.config import AuthArgs, LimitsArgs
from deployments.gateway import Gateway
from deployments.handles import Handle
from deployments.logs import join_serve_log
from deployments.middleware import RequestFrame
from deployments.routes import corpora, embeddings, operations, rerank, retrievals
from deployments.serve_gateway import ServeGateway

# By what they are about.
ROUTES: Mapping[str, ModuleType] = {
    "search": retrievals,
    "ranking": rerank,
    "embedding": embeddings,
    "corpora": corpora,
    "operations": operations,
}


def create_api(
    gateway: Gateway,
    limits: LimitsArgs,
    auth: AuthArgs,
    *,
    names_request: bool = True,
    sees_clients: bool = True,
) -> FastAPI:
    """Build the HTTP application around a gateway."""
    app = FastAPI(
        title="Onepass",
        version=version("onepass"),
        description=openapi.ABOUT,
        generate_unique_id_function=openapi.name_of,
        redirect_slashes=False,  # to the host that the client names
    )
    app.state.gateway = gateway
    app.state.limits = limits
    for about, routes in ROUTES.items():
        app.include_router(routes.router, tags=[about])
    app.state.routes = own_routes()
    errors.install(app)
    openapi.install(app, app.state.routes)
    app.add_middleware(
        RequestFrame,
        body_bytes=limits.body_bytes,
        auth=auth,
        names_request=names_request,
        sees_clients=sees_clients,
    )
    return app


def own_routes() -> list[APIRoute]:
    every = (route for routes in ROUTES.values() for route in routes.router.routes)
    return [route for route in every if isinstance(route, APIRoute)]


@serve.ingress()
class Ingress:
    """Serves the routes on Ray's HTTP proxy."""

    def __init__(self, parts: Mapping[str, Handle], limits: LimitsArgs, auth: AuthArgs) -> None:
        join_serve_log()
        # HAProxy, the other ingress that Serve knows, leaves the answer's headers alone, and the
        # address of who asks is then its own.
        haproxy = os.environ.get("RAY_SERVE_ENABLE_HA_PROXY") == "1"
        self.api = create_api(
            ServeGateway(parts), limits, auth, names_request=haproxy, sees_clients=not haproxy
        )

    def __serve_build_asgi_app__(self) -> FastAPI:
        return self.api
