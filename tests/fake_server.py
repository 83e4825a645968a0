"""A server on loopback that answers what a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, Any] | tuple[int, Any, dict[str, str]]


@dataclass
class FakeServer:
    """``url`` without a path; ``requests`` holds (path, body) in order."""

    url: str = ""
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


@contextmanager
def serve(answer: Callable[[str, dict[str, Any]], Reply]) -> Iterator[FakeServer]:
    """Answer each POST with ``answer(path, body)``: a status, a body (JSON, or text as it is), headers."""
    fake = FakeServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fake.requests.append((self.path, body))
            status, reply, *headers = answer(self.path, body)
            kind = "text/html" if isinstance(reply, str) else "application/json"
            data = (reply if isinstance(reply, str) else json.dumps(reply)).encode("utf-8")
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            for name, value in (headers[0] if headers else {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def embeddings(vectors: list[list[float]], indexes: list[int | None] | None = None) -> dict[str, Any]:
    """The body of an embedding reply."""
    places = range(len(vectors)) if indexes is None else indexes
    return {
        "object": "list",
        "model": "m",
        "data": [
            {"object": "embedding", "index": index, "embedding": vector}
            for index, vector in zip(places, vectors, strict=True)
        ],
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }


def completion(text: str | None) -> dict[str, Any]:
    """The body of a chat reply."""
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }
