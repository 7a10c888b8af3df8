"""A server of direct answers that costs next to nothing; ends when its stdin does."""

from __future__ import annotations

import asyncio
import sys

#: Seconds until an answer.
LATENCY = 0.02
_BODY = (
    b'{"id":"msg_01bench","type":"message","role":"assistant",'
    b'"model":"claude-haiku-4-5-20251001","content":'
    b'[{"type":"text","text":"' + b"good " * 20 + b'"}],"stop_reason":"end_turn",'
    b'"stop_sequence":null,"usage":{"input_tokens":200,"output_tokens":20}}'
)
_ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nrequest-id: req_bench\r\n"
    b"content-length: %d\r\n\r\n" % len(_BODY)
) + _BODY


class Answers(asyncio.Protocol):
    """Answers as soon as a request is whole, a latency later; it parses no more than it must."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport, self.data = transport, b""

    def data_received(self, data: bytes) -> None:
        """Take in a part of a request."""
        self.data += data
        while b"\r\n\r\n" in self.data:
            head, _, rest = self.data.partition(b"\r\n\r\n")
            size = _length(head)
            if len(rest) < size:
                return
            self.data = rest[size:]
            asyncio.get_running_loop().call_later(LATENCY, self.transport.write, _ANSWER)


def _length(head: bytes) -> int:
    named = (line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return int(next(named, b"content-length:0")[15:])


async def serve() -> None:
    """Serve until stdin ends."""
    loop = asyncio.get_running_loop()
    async with await loop.create_server(Answers, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        print(f"http://{host}:{port}", flush=True)
        await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve())
