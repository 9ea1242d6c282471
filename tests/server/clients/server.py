"""A running `ibid serve` for the tests of the official clients: start(), and common functions of the tests.

IBID_PROGRAM is the program; IBID_SERVE_MODEL a model, else the default one. Exit status 77 is a skipped test, with the
reason on standard error.
"""
import contextlib
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request


def skip(why):
    print("skipped:", why, file=sys.stderr)
    sys.exit(77)


def package(name):
    """Imports a package of PyPI, or skips the test."""
    try:
        return importlib.import_module(name)
    except ImportError:
        skip(f"the Python package {name} is not installed (pip install {name})")


@contextlib.contextmanager
def talking_model():
    """The path of a tiny random model; IBID_WRITE_TALKING_MODEL: the program that writes it."""
    program = os.environ.get("IBID_WRITE_TALKING_MODEL") or skip("IBID_WRITE_TALKING_MODEL is not set")
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([program, f"{directory}/talker.gguf"], check=True)
        yield f"{directory}/talker.gguf"


class Server:
    def __init__(self, model=os.environ.get("IBID_SERVE_MODEL"), context=4096, options=()):
        program = os.environ.get("IBID_PROGRAM") or skip("IBID_PROGRAM is not set")
        arguments = [program, "serve", "--port", "0", "--context", str(context), *options]
        arguments += [model] if model else []
        self.process = subprocess.Popen(arguments, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.url = self._wait_for_url()

    def _wait_for_url(self):
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            found = re.search(r"http://[\d.]+:\d+", line)
            if found:
                return found[0]
        if "no model" in "".join(lines).lower() or "pull" in "".join(lines):
            skip("the model is not there: " + lines[0].strip())
        sys.exit("the server did not start: " + "".join(lines))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)

    def post(self, path, body):
        """Sends a request without a client library; returns (status, object)."""
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=300) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def metric(self, name):
        """The sum of a counter over its labels."""
        with urllib.request.urlopen(self.url + "/metrics", timeout=60) as response:
            lines = response.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if re.match(rf"{name}(\{{| )", line))

    def count(self, messages):
        """The number of tokens in the prompt of these messages."""
        status, prompt = self.post("/apply-template", {"messages": messages})
        assert status == 200, prompt
        status, tokens = self.post("/tokenize", {"content": prompt["prompt"]})
        assert status == 200, tokens
        return len(tokens["tokens"])


def expect(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(each) for each in what))
