"""An assistant that follows a script: an ordinary MCP client of `det mcp` in this process."""

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

from det_cli.assistants.answers import MOST_TOKENS, tokens
from det_cli.assistants.plans import Plans
from det_cli.assistants.server import server_for
from det_cli.connection import connect
from mcp.client.client import Client

CONFIG = """
name: {name}
entrypoint: python3 train.py
searcher: {{name: single, metric: loss, max_length: 10}}
resources: {{slots_per_trial: 1}}
"""


class ToolFailed(Exception):
    """The tool answered with an error."""


def ask(server: Any, tool: str, **arguments: Any) -> str:
    """Call a tool of a server in this process, of a command, or behind a transport. Return the text of its answer."""

    async def called() -> Any:
        async with Client(server) as client:
            return await client.call_tool(tool, arguments)

    result = asyncio.run(called())
    (content,) = result.content
    text = str(getattr(content, "text", ""))
    if result.is_error:
        raise ToolFailed(text)
    return text


class Assistant:
    """Calls tools with the rights of a user."""

    def __init__(
        self,
        url: str,
        folder: Path,
        *,
        allow_writes: bool = True,
        user: str | None = None,
        retries: int = 5,
    ) -> None:
        session = connect(argparse.Namespace(master=url, user=user))
        session.retries = retries
        self.folder = folder
        plans = Plans(url, folder / "plans")
        self.server = server_for(session, plans, folder, allow_writes=allow_writes)

    def call(self, tool: str, **arguments: Any) -> Any:
        """Return the answer of a tool. Raises ToolFailed with the message of an error."""
        text = ask(self.server, tool, **arguments)
        assert tokens(text) <= MOST_TOKENS, f"{tool} answered with {tokens(text)} tokens"
        return json.loads(text)

    def tools(self) -> dict[str, Any]:
        async def listed() -> Any:
            async with Client(self.server) as client:
                return await client.list_tools()

        return {tool.name: tool for tool in asyncio.run(listed()).tools}

    def plan(self, name: str = "mnist", **arguments: Any) -> str:
        return str(
            self.call("plan_experiment", config=CONFIG.format(name=name), **arguments)["plan_token"]
        )

    def start(self, name: str = "mnist", limit: float = 5) -> int:
        token = self.plan(name)
        return int(
            self.call("create_experiment", plan_token=token, max_cost_usd=limit)["experiment_id"]
        )
