"""The MCP server: which tools it offers, and how it answers errors. Only this module imports `mcp`."""

import functools
import hmac
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

from determined.common.http import Session
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import ValidationError

from det_cli import product_version
from det_cli.assistants.answers import written
from det_cli.assistants.plans import Plans
from det_cli.assistants.reading import Reader
from det_cli.assistants.writing import Planner, Writer
from det_cli.errors import report_for

Tool: TypeAlias = Callable[..., Any]

_INSTRUCTIONS = (
    "Tools for a cluster that trains deep-learning models on rented GPUs. To train: plan_experiment, show the"
    " estimate to the user, create_experiment with the plan_token and the most dollars the user agreed to, then"
    " why and get_metrics. Lists have next_cursor if there is more. Errors name the next step."
)
_READ = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_CHANGE = ToolAnnotations(
    read_only_hint=False, idempotent_hint=True, open_world_hint=False, destructive_hint=False
)
_DESTROY = ToolAnnotations(
    read_only_hint=False, idempotent_hint=True, open_world_hint=False, destructive_hint=True
)


def server_for(session: Session, plans: Plans, root: Path, *, allow_writes: bool) -> MCPServer[Any]:
    """Return a server with the tools of a session. Without `allow_writes` no tool changes anything."""
    server: MCPServer[Any] = _Server(
        "determined", instructions=_INSTRUCTIONS, version=product_version()
    )
    reader, planner = Reader(session), Planner(session, plans, root)
    readers: list[Tool] = [
        reader.list_experiments, reader.describe_experiment, reader.list_trials, reader.describe_trial,
        reader.get_metrics, reader.get_logs, reader.why, reader.list_queue, reader.list_pools,
        reader.get_costs, planner.plan_experiment,
    ]  # fmt: skip
    for tool in readers:
        _add(server, tool, _READ)
    if allow_writes:
        writer = Writer(session, plans, root)
        writers: list[Tool] = [
            writer.create_experiment, writer.pause_experiment, writer.activate_experiment,
        ]  # fmt: skip
        for tool in writers:
            _add(server, tool, _CHANGE)
        _add(server, writer.kill_experiment, _DESTROY)
    return server


class _Server(MCPServer[Any]):
    """A server that answers wrong arguments with the arguments of the tool."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        schema = next((t.input_schema for t in await self.list_tools() if t.name == name), None)
        if schema is None:
            return await super().call_tool(name, arguments, context)
        unknown = sorted(arguments.keys() - schema["properties"].keys())
        if unknown:
            raise ToolError(_wrong_call(f"unknown argument {', '.join(unknown)}", name, schema))
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as e:
            if not isinstance(e.__cause__, ValidationError):
                raise
            problems = "; ".join(
                f"argument {'.'.join(map(str, one['loc']))}: {one['msg']}"
                for one in e.__cause__.errors()
            )
            raise ToolError(_wrong_call(problems, name, schema)) from e.__cause__


def _wrong_call(problems: str, name: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    known = ", ".join(
        f"{key} (required)" if key in required else key for key in schema["properties"]
    )
    return f"{problems}. Next step: call {name} with its arguments: {known or 'none'}."


def _add(server: "MCPServer[Any]", tool: Tool, annotations: ToolAnnotations) -> None:
    @functools.wraps(tool)
    def answer(*args: Any, **named: Any) -> str:
        try:
            return written(tool(*args, **named))
        except Exception as e:
            report = report_for(e)
            if report is None:
                raise
            hint = f" Next step: {report.hint}." if report.hint else ""
            # The API lists states with a prefix that the tools neither take nor return.
            cause = report.cause.rstrip(".").replace("STATE_", "")
            raise ToolError(f"{cause}.{hint}") from e

    answer.__annotations__ = {**tool.__annotations__, "return": str}
    server.add_tool(answer, annotations=annotations, structured_output=False)


Scope: TypeAlias = dict[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]


class Gate:
    """Rejects HTTP requests without the secret that `det mcp --http` printed."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], secret: str) -> None:
        self._app = app
        self._expected = f"Bearer {secret}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers") or ())
        given = headers.get(b"authorization", b"")
        if scope["type"] != "http" or hmac.compare_digest(given, self._expected):
            await self._app(scope, receive, send)
            return
        body = b"send the header Authorization: Bearer SECRET with the secret that det mcp printed"
        start = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 401, "headers": start})
        await send({"type": "http.response.body", "body": body})


def serve_stdio(server: "MCPServer[Any]") -> None:
    server.run("stdio")


def serve_http(server: "MCPServer[Any]", port: int, secret: str) -> None:
    """Serve streamable HTTP on the loopback address until interrupted."""
    import uvicorn

    uvicorn.run(
        Gate(server.streamable_http_app(), secret), host="127.0.0.1", port=port, log_level="warning"
    )
