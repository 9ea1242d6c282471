#!/usr/bin/env python3
"""Runs the load of `ibid bench --what serve` on ibid and on llama-cpp-python's server with the same model file, in turn.

  serve_llama_cpp_python.py IBID MODEL.gguf [--pairs 3] [--threads N] [--context N] [--out FOLDER]
                            [--csv FILE --commit NAME] [-- OPTIONS OF THE LOAD]

The other server has its prefix cache on: its slot goes on from the longest prefix that it holds, and beside it a cache
in memory (--cache) keeps the states of other conversations, as many as fit --cache-bytes. It answers one request at a
time. Both start anew for each load, and the order of the two changes from pair to pair. Prints what each load printed;
with --out a file of requests for each, of which bench/serve_picture.py draws a picture.

Run it with the Python of an environment that has `pip install "llama-cpp-python[server]"`.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request


def free_port():
    import socket
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Rival:
    """The server, from its start to the end of the block."""

    def __init__(self, arguments):
        self.arguments = arguments

    def __enter__(self):
        port = free_port()
        a = self.arguments
        words = [sys.executable, "-m", "llama_cpp.server", "--model", a.model, "--host", "127.0.0.1", "--port", str(port),
                 "--n_ctx", str(a.context), "--n_threads", str(a.threads), "--n_threads_batch", str(a.threads),
                 "--cache", "true", "--cache_type", "ram", "--cache_size", str(a.cache_bytes), "--model_alias", "rival"]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log)
        self.url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            if self.process.poll() is not None:
                break
            try:
                urllib.request.urlopen(self.url + "/v1/models", timeout=5).read()
                return self
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        self.__exit__()
        self.log.seek(0)
        sys.exit("the other server did not start:\n" + self.log.read().decode(errors="replace")[-2000:])

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ibid")
    parser.add_argument("model")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--cache-bytes", type=int, default=2 << 30)
    parser.add_argument("--kv", default="f16", help="of ibid; the other one has f16")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--csv")
    parser.add_argument("--commit")
    parser.add_argument("load", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    load = [word for word in arguments.load if word != "--"]

    def run(engine, pair, more):
        command = [arguments.ibid, "bench", "--what", "serve", *more, *load]
        if arguments.out:
            arguments.out.mkdir(parents=True, exist_ok=True)
            command += ["--requests", str(arguments.out / f"{engine}-{pair}.csv")]
        if arguments.csv:
            command += ["--csv", arguments.csv, "--commit", arguments.commit or ""]
        print(f"--- pair {pair}: {engine}", flush=True)
        subprocess.run(command, check=True)

    def ours(pair):
        run("ibid", pair, [arguments.model, "--threads", str(arguments.threads), "--context", str(arguments.context),
                           "--kv", arguments.kv])

    def theirs(pair):
        with Rival(arguments) as rival:
            run("llama-cpp-python", pair, ["--model", "rival", "--url", rival.url, "--engine", "llama-cpp-python"])

    for pair in range(1, arguments.pairs + 1):
        for one in (ours, theirs) if pair % 2 else (theirs, ours):
            one(pair)


if __name__ == "__main__":
    main()
