"""Several `ibid serve` behind a router, for tests/cluster/routers_test.py: nodes that can be killed and started again,
routers as subprocesses, and conversations that count the known tokens that came from a cache.

IBID_PROGRAM is the program, IBID_WRITE_TALKING_MODEL writes a tiny model. Exit status 77 is a skipped test, with the
reason on standard error.
"""
import contextlib
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/server/clients"))
from server import skip, talking_model  # noqa: E402, F401  talking_model: for routers_test.py

PATIENCE_S = 60
DEPLOY = ROOT / "deploy"


def expect(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(each) for each in what))


def wait_for(what, condition, patience_s=PATIENCE_S):
    end = time.monotonic() + patience_s
    while not condition():
        expect(time.monotonic() < end, "no", what, "within", patience_s, "s")
        time.sleep(0.05)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def get(url, headers=None, timeout=10):
    """(status, text) of a GET; (0, reason) if no response arrives."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=timeout) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error)


class Node:
    """One `ibid serve`, with its log. start() after kill() uses the same port."""

    def __init__(self, directory, model, number, options=(), events=False):
        self.port, self.number = free_port(), number
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_path = pathlib.Path(directory) / f"node{number}.log"
        self.options = ["--threads", "1", "--config", "", "--log", *options]
        if "--context" not in options:
            self.options += ["--context", "2048"]
        self.events = f"tcp://127.0.0.1:{free_port()}" if events else None
        self.replay = f"tcp://127.0.0.1:{free_port()}" if events else None
        if events:
            self.options += ["--kv-events", self.events, "--kv-events-replay", self.replay]
        self.model = model
        self.process = None
        self.start()

    def start(self):
        program = os.environ.get("IBID_PROGRAM") or skip("IBID_PROGRAM is not set")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([program, "serve", self.model, "--port", str(self.port), *self.options],
                                            stderr=log, stdout=subprocess.DEVNULL)
        wait_for(f"node {self.number}", lambda: get(self.url + "/ready")[0] == 200)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=PATIENCE_S)

    def lines(self):
        """The log's lines of requests."""
        text = self.log_path.read_text(errors="replace")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]

    def answers(self):
        return [line for line in self.lines() if line["path"] == "/v1/chat/completions" and line["status"] == 200]

    def running(self):
        status, text = get(self.url + "/load")
        return json.loads(text)["num_running_reqs"] if status == 200 else 0


@contextlib.contextmanager
def nodes(directory, model, n=2, options=(), events=False):
    all_nodes = []
    try:
        for number in range(1, n + 1):
            all_nodes.append(Node(directory, model, number, options, events))
        yield all_nodes
    finally:
        for node in all_nodes:
            node.stop()


@contextlib.contextmanager
def process(arguments, environment, log_path):
    with open(log_path, "wb") as log:
        one = subprocess.Popen(arguments, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **environment},
                               start_new_session=True)
    try:
        yield one
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGTERM)
        try:
            one.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()


def python_with(module):
    """A Python that has this module: the one of IBID_ROUTERS_PYTHON, or this one."""
    python = os.environ.get("IBID_ROUTERS_PYTHON", sys.executable)
    found = subprocess.run([python, "-c", f"import {module}"], capture_output=True)
    if found.returncode != 0:
        skip(f"the Python package {module} is not installed (pip install {module.replace('_', '-')}; "
             "IBID_ROUTERS_PYTHON may name another Python)")
    return python


def program_with(name):
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin") or skip(f"{name} is not installed")


def lines_of(response):
    """The lines of a response. Unlike its own iterator, raises IncompleteRead if the response is cut off."""
    rest = b""
    while True:
        piece = response.read1(65536)
        if not piece:
            return
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines


class Answer:
    """The outcome of a request for a chat completion."""

    def __init__(self):
        self.text, self.finish, self.error, self.usage, self.n_chunks = "", None, None, {}, 0
        self.headers = {}

    def cached(self):
        return (self.usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0


def chat(url, messages, headers=None, on_chunk=None, timeout=PATIENCE_S, **fields):
    """Sends a chat completion and reads its stream to the end."""
    body = {"model": "talker", "messages": messages, "temperature": 0, "stream": True,
            "stream_options": {"include_usage": True}, **fields}
    answer = Answer()
    host = url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=timeout)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body),
                           {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        answer.headers = {name.lower(): value for name, value in response.getheaders()}
        if response.status != 200:
            answer.error = f"{response.status}: {response.read().decode(errors='replace')[:300]}"
            return answer
        for line in lines_of(response):
            text = line.decode(errors="replace").strip()
            if not text.startswith("data: ") or text == "data: [DONE]":
                continue
            chunk = json.loads(text[6:])
            if "error" in chunk:
                answer.error = json.dumps(chunk["error"])
                continue
            answer.n_chunks += 1
            answer.usage = chunk.get("usage") or answer.usage
            for choice in chunk.get("choices", []):
                answer.text += choice["delta"].get("content") or ""
                answer.finish = choice.get("finish_reason") or answer.finish
            if on_chunk is not None:
                on_chunk(answer)
    except (OSError, http.client.HTTPException, ValueError) as error:
        answer.error = f"{type(error).__name__}: {error}"
    finally:
        connection.close()
    return answer


WORDS = "river stone lamp orchard copper violin harbor thunder meadow candle saddle anchor falcon ember willow".split()


class Conversations:
    """Conversations of several turns, one thread each. `known` and `cached` count, over all later turns, the tokens of
    the conversation before the turn, and those of them that came from a cache."""

    def __init__(self, url, n, n_turns, seed=1, names_sessions=False, **fields):
        self.known = self.cached = self.n_answers = self.n_whole = 0
        self.errors, self.ids, self.lock = [], [], threading.Lock()
        self.url, self.n_turns, self.seed, self.names_sessions, self.fields = url, n_turns, seed, names_sessions, fields
        threads = [threading.Thread(target=self._converse, args=(i,)) for i in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _converse(self, i):
        rnd = random.Random(f"{self.seed}-{i}")
        words = lambda n: " ".join(rnd.choice(WORDS) for _ in range(n))
        messages = [{"role": "system", "content": words(14)}]
        last = 0
        for turn in range(self.n_turns):
            messages.append({"role": "user", "content": f"{turn}: " + words(5)})
            request_id = f"test-{self.seed}-{i}-{turn}"
            headers = {"X-Request-Id": request_id}
            if self.names_sessions:
                headers["X-Session-Id"] = f"session-{self.seed}-{i}"
            answer = chat(self.url, messages, headers, max_tokens=12, **self.fields)
            with self.lock:
                if answer.error or answer.finish is None:
                    self.errors.append((i, turn, answer.error))
                    return
                self.n_answers += 1
                self.ids.append(request_id)
                if turn > 0:
                    self.known += last
                    self.cached += min(answer.cached(), last)
                    self.n_whole += answer.cached() >= last - 8
            last = answer.usage["prompt_tokens"] + answer.usage["completion_tokens"]
            messages.append({"role": "assistant", "content": answer.text})

    def share(self):
        return self.cached / max(self.known, 1)
