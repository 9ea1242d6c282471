#!/usr/bin/env python3
"""Runs the load of `ibid bench --what serve` on ibid and on llama-cpp-python's server with the same model file, in turn.

  serve_llama_cpp_python.py IBID MODEL.gguf [--pairs 3] [--threads N] [--context N] [--out FOLDER]
                            [--kv-budget BYTES] [--csv FILE --commit NAME --model-name NAME] [-- OPTIONS OF THE LOAD]

The other server has its prefix cache on: its one sequence resumes from the longest prefix that it holds, and in
addition a cache in memory (--cache) keeps the states of other conversations, up to --cache-bytes. It answers one
request at a time, and is configured not to interrupt it when another arrives. --cache-bytes 0 disables the cache in
memory. Both servers are restarted for each load, and their order alternates from pair to pair.

Prints the medians of the pairs, and the median of their ratios, above 1 if ibid is better. With --csv these are written
as rows of a results file (../results/README.md); with --out a file of requests is written for each load, which
../draw.py draws.

Run it with the Python of an environment that has `pip install "llama-cpp-python[server]"`.
"""
import argparse
import datetime
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import compare  # noqa: E402

VALUES = {"first_ms": "ms", "token_ms": "ms", "tps": "tok/s", "tokens": "tokens", "requests": "requests"}


def free_port():
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
                 "--interrupt_requests", "false", "--model_alias", "rival"]
        if a.cache_bytes > 0:
            words += ["--cache", "true", "--cache_type", "ram", "--cache_size", str(a.cache_bytes)]
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
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def figures_of(output):
    """what: (value, unit), from the lines that a load prints."""
    figures = {}
    for line in map(json.loads, output.splitlines()):
        field = next(name for name in VALUES if name in line)
        figures[line["what"]] = line[field], VALUES[field]
    return figures


def rows_of(runs, engine, shape, arguments, load):
    """The figures of an engine as rows of a results file: medians and quartiles of its runs."""
    for what, (_, unit) in runs[0].items():
        values = [run[what][0] for run in runs if what in run]
        q1, median, q3 = compare.quartiles(values)
        yield {"date": datetime.date.today().isoformat(), "commit": arguments.commit if engine == "ibid" else "",
               "machine": compare.machine_name(), "engine": engine, "model": arguments.model_name,
               "threads": arguments.threads, "kv": arguments.kv if engine == "ibid" else "f16", "setting": "" if engine == "ibid" else f"cache of {arguments.cache_bytes >> 20} MiB",
               "what": what, "at": shape, "value": compare.short_number(median), "unit": unit,
               "q1": compare.short_number(q1), "q3": compare.short_number(q3), "rounds": len(values),
               "command": f"serve_llama_cpp_python.py IBID MODEL --pairs {arguments.pairs} --threads "
                          f"{arguments.threads} --context {arguments.context} --cache-bytes {arguments.cache_bytes} "
                          f"--kv-budget {arguments.kv_budget} "
                          f"-- {' '.join(load)}".rstrip(" -")}


def print_medians(ours, theirs):
    print(f"{'':18}{'ibid':>12}{'other':>12}{'ratio':>10}")
    for what, (_, unit) in ours[0].items():
        mine = [run[what][0] for run in ours]
        line = f"{what:18}{compare.quartiles(mine)[1]:12.1f}"
        if all(what in run for run in theirs):
            other = [run[what][0] for run in theirs]
            line += f"{compare.quartiles(other)[1]:12.1f}"
            if unit in ("ms", "tok/s") and min(mine + other) > 0:
                ratios = [b / a if unit == "ms" else a / b for a, b in zip(mine, other)]
                line += f"{compare.quartiles(ratios)[1]:10.2f}"
        print(line + f"  {unit}")


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ibid")
    parser.add_argument("model")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--cache-bytes", type=int, default=2 << 30)
    parser.add_argument("--kv", default="f16", help="of ibid; the other one has f16")
    parser.add_argument("--kv-budget", type=int, default=0, help="bytes of ibid; 0: two contexts")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--csv")
    parser.add_argument("--commit")
    parser.add_argument("--model-name")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:end])
    if arguments.csv and not (arguments.commit and arguments.model_name):
        parser.error("--csv needs --commit and --model-name")
    return arguments, words[end + 1:]


def main():
    arguments, load = read_arguments()
    import llama_cpp
    end_token = llama_cpp.Llama(arguments.model, vocab_only=True, verbose=False).token_eos()
    runs = {"ibid": [], "llama-cpp-python": []}

    def run(engine, pair, more):
        command = [arguments.ibid, "bench", "--what", "serve", "--json", *more, *load]
        if arguments.out:
            arguments.out.mkdir(parents=True, exist_ok=True)
            command += ["--requests", str(arguments.out / f"{engine}-{pair}.jsonl")]
        print(f"pair {pair}: {engine}", file=sys.stderr, flush=True)
        runs[engine].append(figures_of(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))

    def ours(pair):
        run("ibid", pair, [arguments.model, "--threads", str(arguments.threads), "--context", str(arguments.context),
                           "--kv", arguments.kv, "--kv-budget", str(arguments.kv_budget)])

    def theirs(pair):
        with Rival(arguments) as rival:
            run("llama-cpp-python", pair, ["--model", "rival", "--url", rival.url, "--engine", "llama-cpp-python",
                                           "--end-token", str(end_token)])

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the other server ends with this program
    for pair in range(1, arguments.pairs + 1):
        for one in (ours, theirs) if pair % 2 else (theirs, ours):
            busy, own, begin = compare.busy_seconds(), compare.own_seconds(), time.monotonic()
            one(pair)
            others = compare.busy_seconds() - busy - (compare.own_seconds() - own)
            percent = 100 * others / (time.monotonic() - begin) / os.cpu_count()
            print(f"others had {max(0.0, percent):.0f} % of the CPUs", file=sys.stderr, flush=True)
    print_medians(runs["ibid"], runs["llama-cpp-python"])
    if arguments.csv:
        for engine, found in runs.items():
            shape = shape_of(load)
            compare.append_results(arguments.csv, rows_of(found, engine, shape, arguments, load))


def shape_of(load):
    """users/rounds, as in the rows of `ibid bench --csv`."""
    def given(name, default):
        return load[load.index(name) + 1] if name in load else default
    return given("--users", "4") + "/" + given("--rounds", "5")


if __name__ == "__main__":
    main()
