"""The OpenAPI description of the HTTP door, made from its table of routes and the structs of its bodies."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec

from treecast.serve.doors.envelopes import Envelope
from treecast.serve.doors.forms import (
    SocketInterrupted,
    SocketMessage,
    SocketOpened,
    SocketPublished,
    SocketUnknown,
)
from treecast.serve.doors.problems import CONTENT_TYPE, Problem
from treecast.serve.doors.routes import ID, PARAMETERS, PUBLIC, ROUTES, Route

SOCKET = (SocketMessage, SocketOpened, SocketUnknown, SocketInterrupted, SocketPublished)
"""What is said on a WebSocket: OpenAPI has no place for it but the list of schemas."""
REFERENCE = "#/components/schemas/{name}"


def describe(version: str, routes: tuple[Route, ...] = ROUTES) -> dict[str, Any]:
    """The whole description."""
    kinds: list[Any] = [
        Problem,
        Envelope,
        SocketMessage,
        SocketOpened,
        SocketUnknown,
        SocketInterrupted,
        SocketPublished,
    ]
    for route in routes:
        kinds += [kind for kind in (route.form, *route.answers.values()) if kind not in (None, bytes)]
    unique = list(dict.fromkeys(kind for kind in kinds if isinstance(kind, type)))
    _, components = msgspec.json.schema_components(unique, ref_template=REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "treecast",
            "version": version,
            "description": "A durable broker of XML documents: publish, subscribe with XPath, receive.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "`tc_…`, if asked for"}},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "security": [] if route.scopes == PUBLIC else [{"token": []}, {}],  # {}: a service without tokens
        "responses": {
            **{str(status): _response(route, status, kind) for status, kind in route.answers.items()},
            "default": {
                "description": "A problem",
                "content": {CONTENT_TYPE: {"schema": {"$ref": REFERENCE.format(name="Problem")}}},
            },
        },
    }
    parameters = [_parameter(name, "query", name in route.required) for name in route.parameters]
    parameters += [_parameter(name, "header", False) for name in route.headers]
    if ID in route.path:
        parameters.insert(0, {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}})
    if parameters:
        operation["parameters"] = parameters
    if route.form is not None:
        content = {route.content: {"schema": _schema(route.form)}, **_others(route)}
        operation["requestBody"] = {"required": not route.is_optional, "content": content}
    return operation


def _response(route: Route, status: int, kind: Any) -> dict[str, Any]:
    response: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if kind is not None:
        response["content"] = {"application/json": {"schema": _schema(kind)}}
    elif status not in (HTTPStatus.NO_CONTENT, HTTPStatus.SWITCHING_PROTOCOLS):
        response["content"] = {route.content: {"schema": {"type": "string"}}, **_others(route)}
    return response


def _others(route: Route) -> dict[str, Any]:
    return {content: {"schema": {"type": "string", "format": "binary"}} for content in route.other_contents}


def _parameter(name: str, place: str, is_required: bool) -> dict[str, Any]:
    kind, description = PARAMETERS[name]
    schema: dict[str, Any] = {"type": kind}
    if kind == "array":
        schema = {"type": "array", "items": {"type": "string"}, "minItems": int(is_required)}
    if kind == "integer":
        schema["minimum"] = 1
    return {
        "name": name,
        "in": place,
        "required": is_required,
        "description": description,
        "schema": schema,
    }


def _schema(kind: Any) -> dict[str, Any]:
    if kind is bytes:
        return {"type": "string", "format": "binary"}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {"$ref": REFERENCE.format(name=kind.__name__)}
    return {"type": "object"}
