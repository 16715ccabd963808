"""What stands before the AWS double and may be killed: connections break in the middle, and the account goes on without it.

python -m tests.torture.aws_proxy '{"port": 4000, "to": 4001}'
"""

import asyncio
import contextlib
import json
import sys


async def main(told: dict[str, int]) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            there, back = await asyncio.open_connection("127.0.0.1", told["to"])
            await asyncio.gather(relay(reader, back), relay(there, writer))

    async with await asyncio.start_server(answer, "127.0.0.1", told["port"]) as server:
        await server.serve_forever()


async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One direction of a connection, until either side ends it."""
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
