"""A schema registry of the tests, which speaks as much of Confluent's protocol as clients of a topic need."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Registry:
    """Schemas by id, and the ids of the versions of each subject. While `answer` is a status, every request gets it.

    Attributes
    ----------
    address
        Address of the server.
    login
        Login that requests must have, if not None.
    incompatible
        Whether a new version of a subject is refused.
    """

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.answer: int | None = None
        self.incompatible = False
        self.login: str | None = None
        self.requests = 0
        self.address = ""

    def respond(self, path: str, body: dict[str, Any], authorization: str) -> tuple[int, Any]:
        """Return the status and the content of an answer."""
        self.requests += 1
        if self.login is not None and authorization != f"Basic {base64.b64encode(self.login.encode()).decode()}":
            return 401, {"error_code": 401, "message": "Unauthorized"}
        if self.answer is not None:
            return self.answer, {"error_code": self.answer, "message": "out of order"}
        parts = path.partition("?")[0].strip("/").split("/")
        if parts[0] == "compatibility":
            return 200, {"is_compatible": not self.incompatible}
        if parts[0] == "subjects" and body:
            schema = {"schema": body["schema"], "schemaType": body.get("schemaType", "AVRO")}
            if schema not in self.schemas:
                self.schemas.append(schema)
            number = self.schemas.index(schema) + 1
            versions = self.subjects.setdefault(parts[1], [])
            if number not in versions:
                if versions and self.incompatible:
                    return 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
                versions.append(number)
            return 200, {"subject": parts[1], "version": versions.index(number) + 1, "id": number, **schema}
        if parts[0] == "subjects" and parts[1] in self.subjects:
            versions = self.subjects[parts[1]]
            if parts[3:]:
                number = versions[int(parts[3]) - 1]
                return 200, {
                    "subject": parts[1], "version": int(parts[3]), "id": number, **self.schemas[number - 1]
                }  # fmt: skip
            return 200, [*range(1, len(versions) + 1)]
        if parts[:2] == ["schemas", "ids"]:
            number = int(parts[2])
            if 0 < number <= len(self.schemas):
                return 200, self.schemas[number - 1]
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}


@contextmanager
def registry(context: ssl.SSLContext | None = None) -> Iterator[Registry]:
    """Run a registry on loopback, with TLS if there is a context."""
    made = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: dict[str, Any]) -> None:
            status, content = made.respond(self.path, body, self.headers.get("Authorization", ""))
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    made.address = f"{'http' if context is None else 'https'}://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
