"""Chat completions server for tests; the last message selects the answer or the misbehaviour.

chat_server.py LOG [KEY]   prints its port, serves until it is killed, and appends each request body to LOG as a line;
also "gone" if a client closes its connection during an answer. KEY: the required API key. The model owl sends reasoning
before each answer.
"""
import http.server
import json
import sys
import time

MODELS = {"object": "list", "data": [{"id": "parrot", "object": "model", "owned_by": "test", "max_model_len": 4000},
                                     {"id": "owl", "object": "model", "owned_by": "test"}]}


class Chat(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def log(self, line):
        with open(sys.argv[1], "a") as log:
            log.write(line + "\n")

    def answer(self, status, body, headers=(), kind="application/json"):
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def fail(self, status, message, headers=()):
        self.answer(status, {"error": {"message": message, "type": "x"}}, headers)

    def allowed(self):
        if len(sys.argv) < 3 or self.headers.get("Authorization") == "Bearer " + sys.argv[2]:
            return True
        self.fail(401, "no key, or a wrong one")
        return False

    def do_GET(self):
        if self.path.startswith("/web"):
            return self.answer(200, b"<html>hello</html>", kind="text/html")
        if self.allowed():
            self.answer(200, MODELS) if self.path == "/v1/models" else self.fail(404, "nothing here")

    def event(self, data):
        self.wfile.write(b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\r\n\r\n")
        self.wfile.flush()

    def delta(self, reason=None, **delta):
        self.event({"model": "parrot", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    def begin(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.log(json.dumps(request))
        if not self.allowed():
            return
        if self.path != "/v1/chat/completions":
            return self.answer(404, b"not here", kind="text/plain")
        if request.get("model") not in ("parrot", "owl"):
            return self.fail(404, "the model does not exist")
        said = request["messages"][-1]["content"]
        n_before = sum(message["role"] == "assistant" for message in request["messages"])
        if said == "busy":
            return self.fail(429, "too much", [("Retry-After", "7")])
        if said == "long":
            return self.fail(400, "the context has 4000 tokens\x1b[2J, this has more")
        if said == "elsewhere":
            return self.answer(307, b"", [("Location", "http://127.0.0.1:1/")])
        if said == "page":
            return self.answer(200, b"<html>", kind="text/html")
        self.begin()
        if said == "broken":
            self.delta(content="Half")
            return self.event(b"{not json")
        if said == "error":
            self.delta(content="Half")
            return self.event({"error": {"message": "out of memory"}})
        if said == "cut":
            return self.delta(content="Only the beginning")
        if said == "think" or request["model"] == "owl":
            self.delta(reasoning_content="Let me ")
            self.delta(reasoning_content="see.")
        if said == "tool":
            self.delta(tool_calls=[{"index": 0, "id": "call_1", "type": "function",
                                    "function": {"name": "look_up", "arguments": ""}}])
            self.delta(tool_calls=[{"index": 0, "function": {"arguments": "{\"city\":"}}])
            self.delta(tool_calls=[{"index": 0, "function": {"arguments": " \"Rome\"}"}}])
            self.delta(reason="tool_calls")
            return self.event(b"[DONE]")
        if said == "lost":
            self.event({"choices": [], "ibid": {"lost_prefix": {"tokens": 17, "message": 2, "byte": 120, "token": 30,
                                                               "cause": "the message was changed"}}})
        if said == "slow":
            return self.talk_on()
        for word in ("You", " said", f" '{said}'", f" after {n_before}."):
            self.delta(content=word)
        self.delta(reason="length" if said == "more" else "stop")
        self.event({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 5,
                                             "prompt_tokens_details": {"cached_tokens": 90}}})
        self.event(b"[DONE]")

    def talk_on(self):
        try:
            for n in range(2400):
                self.delta(content=f"word {n} ")
                time.sleep(0.025)
        except OSError:
            self.log("gone")


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        pass  # clients hang up in some tests


server = Server(("127.0.0.1", 0), Chat)
print(server.server_address[1], flush=True)
server.serve_forever()
