"""A hub for tests with the API needed to fetch a model; the repository name selects the misbehaviour.

hub_server.py LOG   prints its port, serves until it is killed, and appends a line for each request to LOG.

The file LOG.revision has the revision of the changing repositories: 1 (the default), 2, or cut (as 2, but one of its
files is not found).
"""
import hashlib
import http.server
import json
import os
import sys
import threading
import time

CONTENT = b"GGUF" + bytes(i * 7 % 251 for i in range(350_000))
SHA256 = hashlib.sha256(CONTENT).hexdigest()
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CUT = 100_000
TWIN = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
TWIN_SHA256 = hashlib.sha256(TWIN).hexdigest()
asked = {}
meeting = threading.Barrier(2)  # requests for shards must arrive two at a time


def gguf(name, size=len(CONTENT), sha256=SHA256):
    return {"rfilename": name, "size": size, "lfs": {"sha256": sha256, "size": size, "pointerSize": 130}}


REPOSITORIES = {
    "good": [gguf("model-Q4_K_M.gguf"), gguf("model-Q8_0.gguf"), {"rfilename": "README.md", "size": 3}],
    "many": [gguf("a-Q8_0.gguf"), gguf("b-Q6_K.gguf")],
    "split": [gguf("m-00001-of-00002.gguf"), gguf("m-00002-of-00002.gguf"), gguf("mmproj-m.gguf")],
    "directory": [{"rfilename": "config.json", "size": 2}, {"rfilename": "tokenizer.json", "size": 2},
                  gguf("model.safetensors"), {"rfilename": "onnx/x.json", "size": 2}],
    "wrongsum": [gguf("wrongsum.gguf", sha256="0" * 64)],
    "smaller": [gguf("smaller.gguf", size=1000)],
    "larger": [gguf("larger.gguf", size=len(CONTENT) + 1000)],
    "huge": [gguf("huge.gguf", size=1 << 45)],
    "evil": [gguf("../../evil.gguf")],
    "nonsense": [gguf("nonsense.gguf", sha256="../../etc")],
    "empty": [],
    "shards": [{"rfilename": "config.json", "size": 2}] + [gguf(f"model-{i}.safetensors") for i in range(6)],
    "shardgone": [{"rfilename": "config.json", "size": 2}, gguf("gone.safetensors"), gguf("model.safetensors")],
}
for name in ("cut", "norange", "secret", "busy", "toobusy", "broken", "downgrade", "gone", "loop", "busyfile", "slow"):
    REPOSITORIES[name] = [gguf(name + ".gguf")]


def revision():
    if not os.path.exists(sys.argv[1] + ".revision"):
        return "1"
    with open(sys.argv[1] + ".revision") as file:
        return file.read()


# Returns the files of a repository that depends on its owner or revision; None for other repositories.
def special(owner, name):
    twin = dict(sha256=TWIN_SHA256)
    if name in ("twin", "b--twin"):
        return [gguf("twin.gguf", **(twin if owner in ("two", "a--b") else {}))]
    if name == "folders":
        return [gguf("Q4_0/model-Q4_0.gguf"), gguf("Q8_0/model-Q8_0.gguf", **twin), gguf("x/model-Q6_K.gguf"),
                gguf("y/model-Q6_K.gguf", **twin)]
    new = twin if revision() != "1" else {}
    if name == "changing":
        return [gguf("changing.gguf", **new)]
    if name == "changingdir":
        return [{"rfilename": "config.json", "size": 2}, gguf("model-1.safetensors", **new),
                gguf("model-2.safetensors", **new)]
    return None


# Returns the content of a file of such a repository.
def special_content(owner, name, file):
    for one in special(owner, name):
        if one["rfilename"] == file:
            if "lfs" not in one:
                return b"1}" if revision() == "1" else b"2}"
            return TWIN if one["lfs"]["sha256"] == TWIN_SHA256 else CONTENT
    return None


class Hub(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        token = self.headers.get("Authorization", "-")
        with open(sys.argv[1], "a") as log:
            log.write(f"{self.headers['Host'].split(':')[0]} {self.path} {self.headers.get('Range', '-')} {token}\n")
        path = self.path.split("?")[0].split("/")[1:]
        if path[0] == "api" and special(path[2], path[3]):
            sha = (revision() if revision() != "cut" else "2") * 40
            return self.answer(200, json.dumps({"sha": sha, "siblings": special(path[2], path[3])}).encode())
        if path[0] == "api":
            return self.listing(path[3])
        if path[0] != "cdn" and special(path[0], path[1]):
            if revision() == "cut" and path[-1] == "model-2.safetensors":
                return self.answer(404)
            return self.answer(200, special_content(path[0], path[1], "/".join(path[4:])))
        if path[0] == "cdn":
            return self.content(path[1], path[2])
        if path[1] == "downgrade":
            return self.answer(302, headers=[("Location", "ftp://localhost/x")])
        if path[1] == "loop":
            return self.answer(302, headers=[("Location", self.path)])
        where = f"http://localhost:{self.server.server_address[1]}/cdn/{path[1]}/{path[-1]}"
        self.answer(302, headers=[("Location", where)])

    def listing(self, name):
        n = asked[name] = asked.get(name, 0) + 1
        if name == "secret" and self.headers.get("Authorization") != "Bearer letmein":
            return self.answer(401)
        if name == "busy" and n <= 2:
            return self.answer(429, headers=[("Retry-After", "7")])
        if name == "toobusy":
            return self.answer(429, headers=[("Retry-After", "9000")])
        if name == "broken":
            return self.answer(200, b"{not json")
        if name not in REPOSITORIES:
            return self.answer(404)
        self.answer(200, json.dumps({"sha": COMMIT, "siblings": REPOSITORIES[name]}).encode())

    def content(self, name, file):
        if file.startswith("gone"):
            return self.answer(404)
        n = asked[name + "/c"] = asked.get(name + "/c", 0) + 1
        if name == "busyfile" and n <= 2:
            return self.answer(429, headers=[("Retry-After", "3")])
        body = b"{}" if file.endswith(".json") else CONTENT
        if name == "shards" and file != "config.json":
            meeting.wait(timeout=60)
        begin = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-")
        begin = 0 if name == "norange" else int(begin)
        if begin > 0 and begin >= len(body):
            return self.answer(416)
        rest = body[begin:]
        self.send_response(206 if begin > 0 else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if name == "slow":
            self.wfile.write(rest[:CUT])
            self.wfile.flush()
            time.sleep(600)
        if name == "cut" or (name == "norange" and n == 1):
            self.wfile.write(rest[:CUT])
            self.close_connection = True
        else:
            self.wfile.write(rest)


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        pass  # clients hang up in some tests


server = Server(("127.0.0.1", 0), Hub)
print(server.server_address[1], flush=True)
server.serve_forever()
