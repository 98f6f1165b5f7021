"""A model hub on this computer: the few answers of its HTTP API that pushing and pulling ask for."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_secretsecretsecretsecretsecretse"


class FakeHub:
    """Repositories in memory; ``refuse`` lets every request fail with this status and a message with the token."""

    def __init__(self):
        self.repos: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.tokens: set[str | None] = set()
        self.requests: list[str] = []
        self.refuse: int | None = None


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def hub(self) -> FakeHub:
        return self.server.hub

    def log_message(self, *_):
        """Keep quiet."""

    def answer(self, status, content=b"", **headers):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refused(self):
        self.hub.requests.append(f"{self.command} {self.path}")
        self.hub.tokens.add(self.headers.get("Authorization"))
        if self.hub.refuse is None:
            return False
        said = f"no entry with {self.headers.get('Authorization')}"
        self.answer(self.hub.refuse, {"error": said}, X_Error_Message=said)
        return True

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.refused():
            return
        if self.path == "/api/repos/create":
            wanted = json.loads(body)
            repo = "/".join(filter(None, (wanted.get("organization"), wanted["name"])))
            self.hub.repos.setdefault(repo, {})
            self.hub.private[repo] = wanted.get("private") or wanted.get("visibility") == "private"
            self.answer(200, {"url": f"http://{self.headers['Host']}/{repo}"})
        elif self.path == "/api/validate-yaml":
            self.answer(200, {"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            names = [file["path"] for file in json.loads(body)["files"]]
            self.answer(200, {"files": [{"path": n, "uploadMode": "regular", "shouldIgnore": False} for n in names]})
        elif "/commit/" in self.path:
            repo = re.fullmatch(r"/api/models/(.+)/commit/main", self.path)[1]
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.hub.repos[repo][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            address = f"http://{self.headers['Host']}/{repo}/commit/{COMMIT}"
            self.answer(200, {"success": True, "commitOid": COMMIT, "commitUrl": address, "hookOutput": ""})
        else:
            self.answer(404, {"error": self.path})

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        if self.refused():
            return
        found = re.fullmatch(r"/(?!api/)(.+)/resolve/[^/]+/([^/?]+)(\?.*)?", self.path)
        content = self.hub.repos.get(found[1], {}).get(found[2]) if found else None
        if content is None:
            self.answer(404, {"error": "not found"}, X_Error_Code="EntryNotFound", X_Repo_Commit=COMMIT)
            return
        self.answer(200, content, ETag=f'"{hashlib.sha256(content).hexdigest()}"', X_Repo_Commit=COMMIT)


@contextlib.contextmanager
def serving():
    """Yield a hub and its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    server.hub = FakeHub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.hub, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
