"""check_simulation.py TREE: tests bench/simulate.py and its parts.

The memory of a node evicts the same blocks as a plain list of blocks. Every request is answered and every token is
counted once, whatever is lost, late or slow. The same seed gives the same lines, and the rows in bench/results are those
of the program. Damaged traces are refused with their place. Pictures are checked with an interpreter that has matplotlib,
if there is one.
"""
import contextlib
import csv
import io
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

TREE = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, str(TREE / "bench"))

import cluster  # noqa: E402
import routing  # noqa: E402
import simulate  # noqa: E402
import traces  # noqa: E402


def want(condition, what):
    if not condition:
        sys.exit(what)


def run_program(name, *words, interpreter=sys.executable):
    return subprocess.run([interpreter, "-B", TREE / "bench" / name, *map(str, words)], capture_output=True, text=True,
                          check=False)


def source(name):
    return simulate.Source(name, json.loads((TREE / f"bench/simulation/{name}.json").read_text(encoding="utf-8")))


def trace_line(time_s, n_tokens, blocks, n_output=10):
    return json.dumps({"timestamp": round(1000 * time_s), "input_length": n_tokens, "output_length": n_output,
                       "hash_ids": blocks})


# Two conversations under a common block. The second turn of the first adds a block; the third branches off.
SMALL = [trace_line(0, 1000, [0, 1]), trace_line(6, 1500, [0, 2, 3]), trace_line(60, 1100, [0, 1, 4]),
         trace_line(120, 2000, [0, 2, 3, 5]), trace_line(180, 1300, [0, 2, 6])]


def read(folder, lines):
    path = folder / "trace.jsonl"
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path, traces.read_trace(path)


def check_segments(folder):
    path, requests = read(folder, [*SMALL[::-1], ""])
    workload = traces.split_into_segments(requests)
    want(workload.n_known == [0, 512, 1024, 1536, 1024], f"known tokens: {workload.n_known}")
    want(workload.previous == [-1, -1, 0, 1, -1], f"continued requests: {workload.previous}")
    want(workload.keys == [1, 2, 1, 2, 2], f"conversations: {workload.keys}")
    want([sum(map(workload.n_blocks.get, parts)) for parts in workload.paths] == [2, 3, 3, 4, 3], "blocks of the prompts")
    done = run_program("simulate.py", "--trace", path, "--statistics")
    numbers = json.loads(done.stdout)
    want((numbers["requests"], numbers["common_blocks"], numbers["tokens"]) == (5, 1, 6900), done.stdout)
    want(traces.Generator(numbers, 1).requests(3), "statistics of a small trace suffice for a workload")


def check_copies(folder):
    _, requests = read(folder, SMALL)
    tripled = traces.split_into_segments(traces.scale_trace(requests, 3, seed=1))
    want(len(tripled) == 15 and len(set(tripled.keys)) == 6, "three copies of each conversation")
    want(traces.scale_trace(requests, 0.5, 1) in ([requests[0], requests[2]], [requests[1], *requests[3:]]),
         "half of the conversations: one of them")


def check_refused(folder):
    for lines, said in (
            (["{"], "trace.jsonl:1: not a request"), ([SMALL[0], "[]"], "trace.jsonl:2: not a request"), ([], "no requests"),
            (["[" * 100_000], "trace.jsonl:1: not a request"), ([trace_line(0, 1000, [0])], "1 blocks for 1000 tokens"),
            ([trace_line(0, 0, [])], "0 blocks for 0 tokens"), ([trace_line(-1, 5, [1])], "not a natural number"),
            ([trace_line(0, 5, [True])], "not a natural number"), ([trace_line(0, 5, "1")], "not a natural number"),
            ([trace_line(0, 5, 1)], "not a request"), ([trace_line(1e9, 5, [1])], "more than a week"),
            ([trace_line(0, 5, [1], 1 << 40)], "more than a week"),
            ([SMALL[0].replace("1000", "1e3")], "not a natural number"),
            ([trace_line(0, 1000, [0, 1]), trace_line(1, 1000, [2, 1])], "block 1 of the trace is after the blocks 0 and 2"),
            ([trace_line(0, 1000, [7, 7])], "block 7 of the trace is after"),
            ([trace_line(9999, 1, [0])], "would get more than")):
        path = folder / "trace.jsonl"
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        try:
            simulate.main(["--trace", str(path), "--sweeps", "events", "--json"])
        except traces.Unusable as error:
            want(said in str(error), f"{error}: expected {said}"[-2000:])
        else:
            sys.exit(f"not refused: {said}")
    done = run_program("simulate.py", "--trace", path / "nothing")
    want(done.returncode == 1 and done.stderr.startswith("simulate.py: "), done.stderr)
    for words in (["--sweeps", "all"], ["--nodes", "0"], ["--nodes", "x"], ["--csv", "rows.csv"], ["--statistics"]):
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                simulate.parse_options(words)
        except SystemExit as error:
            want(error.code == 2, f"{words}: {error.code}")
        else:
            sys.exit(f"not refused: {words}")


class BlocksInOrder:
    """A memory as a list of blocks, the most recently used one last."""

    def __init__(self, capacity, n_blocks):
        self.capacity, self.n_blocks, self.blocks = capacity, n_blocks, []

    def blocks_of(self, path):
        return [(segment, i) for segment in path for i in range(self.n_blocks[segment])]

    def match(self, path):
        blocks = self.blocks_of(path)
        return next((n for n, block in enumerate(blocks) if block not in self.blocks), len(blocks))

    def put(self, path):
        used = self.blocks_of(path)
        self.blocks = [block for block in self.blocks if block not in used] + used[::-1]
        self.blocks = self.blocks[max(0, len(self.blocks) - self.capacity):]


def check_memory():
    rng = random.Random(5)
    n_blocks = {segment: rng.randint(1, 6) for segment in range(40)}
    paths = [(0,), *((0, *sorted(rng.sample(range(1, 40), rng.randint(1, 3)))) for _ in range(20))]
    memory = cluster.Memory(30 * traces.BLOCK_TOKENS, n_blocks)
    plain = BlocksInOrder(30, n_blocks)
    shown = {}  # what an index has after the changes
    for _ in range(2000):
        path = rng.choice(paths)
        want(memory.match(path) == plain.match(path), f"{path}: {memory.match(path)} blocks, not {plain.match(path)}")
        for segment, n in memory.put(path):
            shown[segment] = n
        plain.put(path)
        want({segment: n for segment, n in shown.items() if n} == dict(memory.segments), "changes are complete")


def settings(**fields):
    return simulate.Settings(**({"policy": "exact", "n_nodes": 6, "memory_tokens": 1 << 16} | fields))


def run(workload, **fields):
    """The outcome; every request must be answered, and every token counted once."""
    chosen = settings(**fields)
    outcome = cluster.Cluster(workload, chosen).run()
    want(outcome.n_answered == outcome.n_requests == len(workload) == len(outcome.first_token_s), f"{chosen}: answers")
    want(outcome.n_asked == sum(request.n_tokens for request in workload.requests), f"{chosen}: tokens")
    want(outcome.n_known == sum(workload.n_known) and 0 <= outcome.n_cached <= outcome.n_known, f"{chosen}: known tokens")
    want(min(outcome.first_token_s) >= 0, f"{chosen}: times")
    return outcome


def check_policies(workload):
    large = 1 << 40
    for policy in routing.POLICIES:
        want(run(workload, policy=policy, n_nodes=1, memory_tokens=large).n_read_again == 0, f"{policy}: one large memory")
        want(run(workload, policy=policy, store_tokens=large).n_cached > 0.9 * sum(workload.n_known), f"{policy}: a large store")
        want(run(workload, policy=policy, memory_tokens=0).n_cached == 0, f"{policy}: no memory")
    cached = {policy: run(workload, policy=policy, n_nodes=20, memory_tokens=large).n_cached for policy in routing.POLICIES}
    want(cached["hash"] == sum(workload.n_known) - cached_elsewhere(workload, "hash", 20), "a hash keeps conversations together")
    want(min(cached["hash"], cached["exact"]) > 3 * max(cached["round robin"], cached["power of two"]), f"affinity: {cached}")
    busiest = {policy: run(workload, policy=policy, n_nodes=20).busiest for policy in ("hash", "bounded hash")}
    want(busiest["bounded hash"] < busiest["hash"], f"the bound spreads requests: {busiest}")


def cached_elsewhere(workload, policy, n_nodes):
    """Tokens of the blocks common to all, where a node reads them for the first time."""
    router = cluster.Cluster(workload, settings(policy=policy, n_nodes=n_nodes)).router
    seen, missed = [set() for _ in range(n_nodes)], 0
    for number, path in enumerate(workload.paths):
        here, n_tokens = seen[router.choose(number, 0)], 0
        for segment in path:
            if segment not in here:
                break
            n_tokens += workload.n_blocks[segment] * traces.BLOCK_TOKENS
        missed += workload.n_known[number] - min(workload.requests[number].n_tokens, n_tokens)
        here.update(path)
    return missed


def check_loss(workload):
    middle = workload.requests[len(workload) // 2].time_s
    for policy in routing.POLICIES:
        for n_nodes in (1, 2, 6):
            for store in (0, 1 << 40):
                kept = run(workload, policy=policy, n_nodes=n_nodes, memory_tokens=1 << 40, store_tokens=store)
                lost = run(workload, policy=policy, n_nodes=n_nodes, memory_tokens=1 << 40, store_tokens=store,
                           lost_node=0, lost_at_s=middle)
                want(store or policy in ("round robin", "power of two") or lost.n_cached < kept.n_cached,
                     f"{policy}, {n_nodes} nodes: a loss costs tokens of the cache")
    interrupted = run(workload, policy="round robin", n_nodes=2, lost_node=1, lost_at_s=middle, prefill_per_s=200)
    want(interrupted.n_interrupted > 0, "requests at the lost node are sent again")


class ByNumber(routing.Exact):
    def choose(self, number, now):
        return self.cluster.up[number % len(self.cluster.up)]


class WrongIndex(ByNumber):
    """An index that has all blocks of every prompt for the chosen node."""

    def choose(self, number, now):
        self.n_claimed = sum(map(self.cluster.workload.n_blocks.get, self.cluster.workload.paths[number]))
        return super().choose(number, now)


def check_events(workload):
    true = run(workload)
    for fields in ({"event_delay_s": 5}, {"event_delay_s": 1e9}, {"events_lost": 0.3}, {"events_lost": 1},
                   {"event_delay_s": 100, "events_lost": 0.5, "lost_node": 2, "lost_at_s": 300}):
        run(workload, **fields)
    nothing = run(workload, events_lost=1)
    want(nothing.n_cached < 0.7 * true.n_cached and nothing.n_falsely_claimed == 0, "without events there is no affinity")
    want(run(workload, event_delay_s=120).n_falsely_claimed > true.n_falsely_claimed, "late events are false claims")
    routing.POLICIES |= {"by number": ByNumber, "wrong": WrongIndex}
    wrong, same_nodes = run(workload, policy="wrong"), run(workload, policy="by number")
    del routing.POLICIES["by number"], routing.POLICIES["wrong"]
    want(wrong.n_falsely_claimed > sum(workload.n_known) / 2, "claims of a wrong index are false")
    want((wrong.n_cached, wrong.first_token_s) == (same_nodes.n_cached, same_nodes.first_token_s),
         "a wrong index only chooses a node")


def check_store(folder):
    """One prompt twice, at two nodes: the second may wait for the store half as long as it would read."""
    _, requests = read(folder, [trace_line(0, 5120, list(range(10))), trace_line(500, 5120, list(range(10)))])
    workload = traces.split_into_segments(requests)
    fields = {"policy": "round robin", "n_nodes": 2, "store_tokens": 1 << 20, "token_bytes": 1000, "prefill_per_s": 512}
    for bytes_per_s, n_came, first_s in ((math.inf, 10, 0), (5.12e6, 10, 1), (1.024e6, 10, 5), (512e3, 5, 10), (1, 0, 15)):
        # With the slowest store, the second prompt is there only if the first was written in time.
        chosen = settings(**fields, store_bytes_per_s=bytes_per_s)
        simulated = cluster.Cluster(workload, chosen)
        simulated.store.put(workload.paths[0])
        simulated.to_store.busy_s = math.inf
        outcome = simulated.run()
        want(outcome.n_from_store == 512 * 2 * n_came, f"{bytes_per_s}: {outcome.n_from_store} tokens from the store")
        want(abs(outcome.first_token_s[1] - first_s) < 1e-6, f"{bytes_per_s}: first token after {outcome.first_token_s}")
    want(not cluster.Cluster(workload, settings(**fields, store_bytes_per_s=1)).run().n_from_store, "written too late")


def check_generated():
    """The workloads have the counts of the traces, and a tenth of the conversations has a tenth of them."""
    for name in ("conversation", "synthetic"):
        numbers = source(name).numbers
        for factor, most_off in ((1, 0.02), (0.3, 0.05)):
            workload = traces.split_into_segments(traces.Generator(numbers, 3).requests(factor))
            n_tokens = sum(request.n_tokens for request in workload.requests)
            want(abs(len(workload) / (factor * numbers["requests"]) - 1) < 0.02, f"{name}: {len(workload)} requests")
            want(abs(n_tokens / (factor * numbers["tokens"]) - 1) < 2 * most_off, f"{name}: {n_tokens} tokens")
            want(abs(sum(workload.n_known) / n_tokens - numbers["known"]) < most_off, f"{name}: known tokens")
            times = [request.time_s for request in workload.requests]
            n_moments = numbers["seconds"] / numbers["step_s"] if numbers["step_s"] else len(workload)
            want(0 <= times[0] and times[-1] <= numbers["seconds"], f"{name}: times")
            want(len(set(times)) > 0.7 * n_moments, f"{name}: {len(set(times))} times, of about {n_moments}")


def check_rows(folder):
    """The rows of the results are those of the program; and the same seed gives the same lines."""
    words = ("--workload", "synthetic", "--sweeps", "nodes", "--nodes", "10")
    done = run_program("simulate.py", *words, "--csv", folder / "rows.csv", "--commit", "abc", "--json")
    want(done.returncode == 0, done.stderr)
    want(run_program("simulate.py", *words, "--json").stdout == done.stdout, "the same seed, other lines")
    want(run_program("simulate.py", *words, "--json", "--seed", "9").stdout != done.stdout, "another seed, the same lines")
    with open(folder / "rows.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with open(TREE / "bench/results/simulation.csv", encoding="utf-8", newline="") as file:
        recorded = {tuple(row[name] for name in ("model", "setting", "what", "at")): row["value"]
                    for row in csv.DictReader(file)}
    for row in rows:
        key = tuple(row[name] for name in ("model", "setting", "what", "at"))
        want(recorded.get(key) == row["value"], f"bench/results/simulation.csv, {key}: {recorded.get(key)}, not {row['value']}")
    want(len(rows) > 50 and "1,000 of" not in done.stderr, "a row for each figure")


def check_picture(folder, interpreter):
    done = run_program("simulate.py", "--workload", "synthetic", "--nodes", "1,5", "--json")
    source_path, out = folder / "lines.jsonl", folder / "out.svg"
    source_path.write_text(done.stdout, encoding="utf-8")
    done = run_program("draw_simulation.py", source_path, out, interpreter=interpreter)
    want(done.returncode == 0, done.stderr)
    want(xml.fromstring(out.read_text(encoding="utf-8")).tag.endswith("svg"), "an SVG")


def check_refused_pictures(folder):
    source_path = folder / "lines.jsonl"
    for text, said in (("{", "lines.jsonl:1: not a line"), ("", "no lines"), ('{"what": "decode"}', "not a line")):
        source_path.write_text(text, encoding="utf-8")
        done = run_program("draw_simulation.py", source_path, folder / "out.svg")
        want(done.returncode == 1 and said in done.stderr and "Traceback" not in done.stderr, f"{text}\n{done.stderr}")
    want("expected .svg or .png" in run_program("draw_simulation.py", source_path, folder / "out.pdf").stderr, "out.pdf")


def main():
    with tempfile.TemporaryDirectory() as directory:
        folder = pathlib.Path(directory)
        check_segments(folder)
        check_copies(folder)
        check_refused(folder)
        check_memory()
        check_generated()
        workload = source("conversation").workload(6, 800, seed=2)
        check_policies(workload)
        check_loss(workload)
        check_events(workload)
        check_store(folder)
        check_rows(folder)
        check_refused_pictures(folder)
        for interpreter in (sys.executable, "/usr/bin/python3"):
            if subprocess.run([interpreter, "-c", "import matplotlib"], capture_output=True, check=False).returncode == 0:
                check_picture(folder, interpreter)
                return
        print("matplotlib is not installed (python3-matplotlib): the picture was not checked")


if __name__ == "__main__":
    main()
