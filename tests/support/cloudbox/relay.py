"""Carries connections from one network to another, byte by byte."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def relay(listening: socket.socket, port: int) -> Iterator[None]:
    """Forward data of a socket to a port of this machine until the block ends."""
    loop = asyncio.new_event_loop()
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pump(reader, back), _pump(there, writer))

    server = loop.run_until_complete(asyncio.start_server(connected, sock=listening))
    thread = threading.Thread(target=loop.run_forever, name="relay")
    thread.start()

    async def end() -> None:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while content := await reader.read(65536):
            writer.write(content)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
