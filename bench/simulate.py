#!/usr/bin/env python3
"""Simulates a cluster of nodes with caches: which share of the tokens comes from them, by policy of routing, number of
nodes, memory, shared store, loss of a node, and late or lost events.

  simulate.py [--workload conversation|synthetic] [--sweeps nodes,memory,loss,events,store] [--nodes 1,10,100,1000]
              [--seed 1] [--trace FILE] [--json] [--csv FILE --commit NAME]
  simulate.py --trace FILE --statistics

The requests are generated from the statistics of one of Mooncake's traces (bench/simulation), or are those of a trace
(traces.py has the form). The number of conversations grows with the number of nodes, so that each node would read
prompts for 60 % of the time if there were no cache. Clusters of less than 100 nodes are simulated several times, with
other seeds, and the counts are added. The same seed gives the same figures.

  nodes    each policy, with and without store, by the number of nodes
  memory   the same at 100 nodes (or the most given) by the memory of a node, and round robin by the size of the store
  loss     one of 3 or 10 nodes loses its memory and is away for 60 s: the tokens from caches in the minute after,
           beside the same requests without the loss
  events   the policy `exact` with events that reach the router late, or not at all
  store    a store that can send only so many bytes per second

Prints a table; with --json a line for each run, from which draw_simulation.py makes a picture. With --csv the figures
are appended to a results file (results/README.md). With --statistics the statistics of the trace are printed.

Standard library only.
"""
import argparse
import dataclasses
import datetime
import functools
import gc
import json
import math
import pathlib
import statistics
import sys
import typing

import compare
import traces
from cluster import PEAK_S, Cluster, Outcome, Settings
from routing import POLICIES

FOLDER = pathlib.Path(__file__).resolve().parent / "simulation"
LOAD = 0.6  # share of the time in which a node would read prompts without any cache
MOST_REQUESTS = 1_000_000
LEAST_NODES = 100  # of all runs of a cluster together
MEMORIES = (1 << 15, 1 << 17, 1 << 19)  # tokens
MEMORY, STORE = 1 << 17, 1 << 18  # tokens for each node
STORE_SIZES = (1 << 15, 1 << 16, 1 << 17, 1 << 18, 1 << 20)
STORE_RATES = (1e6, 2e6, 5e6, 1e7, 2e7, 5e7)  # bytes per second for each node
LOSS_NODES = (3, 10)
EVENTS = ((0, 0), (1, 0), (10, 0), (60, 0), (600, 0), (0, 0.1), (0, 0.5), (0, 1))  # (seconds late, share lost)


@dataclasses.dataclass(frozen=True)
class Source:
    """Where the requests come from: a trace, or the statistics of one."""
    name: str
    numbers: dict
    trace: tuple[traces.Request, ...] = ()

    def workload(self, n_nodes: int, prefill_per_s: float, seed: int) -> traces.Workload:
        factor = n_nodes * LOAD * prefill_per_s / (self.numbers["tokens"] / self.numbers["seconds"])
        if factor * self.numbers["requests"] > MOST_REQUESTS:
            raise traces.Unusable(f"{self.name}: {n_nodes} nodes would get more than {MOST_REQUESTS:,} requests")
        requests = (traces.scale_trace(list(self.trace), factor, seed) if self.trace
                    else traces.Generator(self.numbers, seed).requests(factor))
        return traces.split_into_segments(requests)


def read_source(options: argparse.Namespace) -> Source:
    if options.trace:
        trace = traces.read_trace(options.trace)
        return Source(options.trace.stem, traces.statistics_of(trace, options.trace.name), tuple(trace))
    numbers = json.loads((FOLDER / f"{options.workload}.json").read_text(encoding="utf-8"))
    return Source(options.workload, numbers)


def each_policy(settings: Settings) -> typing.Iterator[Settings]:
    for store_tokens in (0, settings.store_tokens):
        for policy in POLICIES:
            yield dataclasses.replace(settings, policy=policy, store_tokens=store_tokens)


def runs_of(sweep: str, base: Settings, nodes: list[int], seconds: float) -> typing.Iterator[Settings]:
    most = dataclasses.replace(base, n_nodes=min(max(nodes), 100))
    if sweep == "nodes":
        for n in nodes:
            yield from each_policy(dataclasses.replace(base, n_nodes=n))
    elif sweep == "memory":
        for memory in MEMORIES:
            yield from each_policy(dataclasses.replace(most, memory_tokens=memory))
        for store in STORE_SIZES:
            yield dataclasses.replace(most, policy="round robin", store_tokens=store)
    elif sweep == "loss":
        for n in sorted({min(max(nodes), n) for n in LOSS_NODES}):
            for settings in each_policy(dataclasses.replace(base, n_nodes=n)):
                yield settings
                yield dataclasses.replace(settings, lost_node=0, lost_at_s=seconds // 120 * 60)
    elif sweep == "events":
        for late_s, lost in EVENTS:
            yield dataclasses.replace(most, policy="exact", store_tokens=0, event_delay_s=late_s, events_lost=lost)
    elif sweep == "store":
        for policy in ("round robin", "exact"):
            for rate in STORE_RATES:
                yield dataclasses.replace(most, policy=policy, store_bytes_per_s=rate * most.n_nodes)


class Runner:
    """Runs settings, with the workloads of one number of nodes in memory."""

    def __init__(self, source: Source):
        self.source = source
        self.workloads = functools.lru_cache(maxsize=LEAST_NODES)(source.workload)
        self.done: dict[Settings, dict] = {}

    def run(self, settings: Settings) -> dict:
        """The figures of all runs with these settings together."""
        if settings in self.done:
            return self.done[settings]
        outcomes = []
        for number in range(max(1, LEAST_NODES // settings.n_nodes)):
            seed = settings.seed + number
            lost = number % settings.n_nodes if settings.lost_node >= 0 else -1
            workload = self.workloads(settings.n_nodes, settings.prefill_per_s, seed)
            outcomes.append(Cluster(workload, dataclasses.replace(settings, seed=seed, lost_node=lost)).run())
        self.done[settings] = figures_of(settings, outcomes)
        return self.done[settings]

    def lines(self, sweep: str, all_settings: typing.Iterable[Settings]) -> typing.Iterator[dict]:
        for settings in all_settings:
            if settings.n_nodes != getattr(self, "n_nodes", settings.n_nodes):
                self.workloads.cache_clear()
            self.n_nodes = settings.n_nodes
            described = dataclasses.asdict(settings)
            if math.isinf(settings.store_bytes_per_s):
                described["store_bytes_per_s"] = None
            line = {"what": "simulation", "sweep": sweep, "workload": self.source.name, **described}
            line |= self.run(settings)
            if settings.lost_node >= 0:
                line |= self.beside_no_loss(settings, line)
            yield line

    def beside_no_loss(self, settings: Settings, line: dict) -> dict:
        other = self.run(dataclasses.replace(settings, lost_node=-1, lost_at_s=0.0))
        minute = int(settings.lost_at_s // 60)
        return {"minute_after": line["cached_by_minute"][minute],
                "minute_without_loss": other["cached_by_minute"][minute],
                "n_read_more": line["n_read_again"] - other["n_read_again"]}


def rate_of(outcomes: list[Outcome], counter: str) -> dict[str, float]:
    """Bytes per second to or from one store: the mean, and in the busiest period."""
    counts = [getattr(outcome, counter) for outcome in outcomes]
    return {"mean": sum(sum(count.values()) for count in counts) / sum(outcome.seconds for outcome in outcomes),
            "busiest": max((n for count in counts for n in count.values()), default=0) / PEAK_S}


def figures_of(settings: Settings, outcomes: list[Outcome]) -> dict:
    def total(name: str) -> int:
        return sum(getattr(outcome, name) for outcome in outcomes)

    first = sorted(seconds for outcome in outcomes for seconds in outcome.first_token_s)
    n_minutes = 1 + max(max(outcome.asked_in_minute) for outcome in outcomes)
    asked, cached = ([sum(getattr(outcome, name)[minute] for outcome in outcomes) for minute in range(n_minutes)]
                     for name in ("asked_in_minute", "cached_in_minute"))
    figures = {name: total(name) for name in ("n_requests", "n_answered", "n_interrupted", "n_asked", "n_known",
                                              "n_from_memory", "n_from_store", "n_read_again", "n_falsely_claimed")}
    return figures | {
        "n_runs": len(outcomes),
        "known": total("n_known") / total("n_asked"),
        "cached": total("n_cached") / total("n_asked"),
        "read_again_per_request": total("n_read_again") / total("n_requests"),
        "first_token_s": {"median": first[len(first) // 2], "p95": first[len(first) * 95 // 100]},
        "busiest": statistics.fmean(outcome.busiest for outcome in outcomes),
        "fetched_bytes_per_s": rate_of(outcomes, "fetched"),
        "stored_bytes_per_s": rate_of(outcomes, "stored"),
        "cached_by_minute": [round(part / max(1, whole), 4) for part, whole in zip(cached, asked)],
    }


def what_varies(line: dict) -> str:
    """The column `at` of a row: the value that the sweep changes."""
    if line["sweep"] == "memory":
        return f"{line['memory_tokens']}/{line['store_tokens']}"
    if line["sweep"] == "events":
        return f"{line['event_delay_s']:g} s late, {100 * line['events_lost']:g} % lost"
    if line["sweep"] == "store":
        return f"{line['store_bytes_per_s'] / line['n_nodes'] / 1e6:g}"
    return f"{line['n_nodes']}"


ROWS = {  # the figures of each sweep that go into a results file
    "nodes": {"known", "cached", "read again", "first token, median", "first token, p95", "busiest node",
              "fetched, mean", "fetched, busiest", "stored, mean", "stored, busiest"},
    "memory": {"cached", "read again"},
    "loss": {"cached in the minute after", "cached in that minute without loss", "read again for the loss",
             "requests sent again"},
    "events": {"cached", "falsely claimed", "answered"},
    "store": {"cached", "first token, p95"},
}


def all_figures(line: dict) -> typing.Iterator[tuple[str, float, str]]:
    """(what, value, unit)"""
    yield "answered", 100 * line["n_answered"] / line["n_requests"], "%"
    if line["policy"] == "round robin" and not line["store_tokens"]:  # the same for all
        yield "known", 100 * line["known"], "%"
    yield "cached", 100 * line["cached"], "%"
    yield "read again", line["read_again_per_request"], "tokens per request"
    yield "falsely claimed", 100 * line["n_falsely_claimed"] / line["n_asked"], "%"
    yield "first token, median", line["first_token_s"]["median"], "s"
    yield "first token, p95", line["first_token_s"]["p95"], "s"
    yield "busiest node", line["busiest"], "of the mean"
    if line["store_tokens"]:
        for direction in ("fetched", "stored"):
            for which, bytes_per_s in line[f"{direction}_bytes_per_s"].items():
                yield f"{direction}, {which}", bytes_per_s / line["n_nodes"] / 1e6, "MB/s per node"
    if line["lost_node"] >= 0:
        yield "cached in the minute after", 100 * line["minute_after"], "%"
        yield "cached in that minute without loss", 100 * line["minute_without_loss"], "%"
        yield "read again for the loss", line["n_read_more"] / line["n_runs"] / 1000, "thousand tokens"
        yield "requests sent again", line["n_interrupted"] / line["n_runs"], "requests"


def rows_of(line: dict, commit: str, command: str) -> typing.Iterator[dict]:
    for what, value, unit in all_figures(line):
        if what not in ROWS[line["sweep"]]:
            continue
        yield {"date": datetime.date.today().isoformat(), "commit": commit, "machine": "any", "engine": "ibid",
               "model": line["workload"], "setting": line["policy"] + (", store" if line["store_tokens"] else ""),
               "what": f"{line['sweep']}: {what}", "at": what_varies(line), "value": compare.short_number(value),
               "unit": unit, "rounds": line["n_runs"], "command": command}


def command_of(options: argparse.Namespace, sweep: str) -> str:
    source = f"--trace {options.trace.name}" if options.trace else f"--workload {options.workload}"
    return f"simulate.py {source} --sweeps {sweep} --nodes {','.join(map(str, options.nodes))} --seed {options.seed}"


HEADINGS = ("sweep", "policy", "at", "cached", "read again", "first token: median", "p95", "busiest", "store: MB/s",
            "peak", "in: MB/s", "false", "minute after", "without", "answers")


def cells_of(line: dict) -> tuple[str, ...]:
    fetched, stored = line["fetched_bytes_per_s"], line["stored_bytes_per_s"]
    has_loss = line["lost_node"] >= 0
    return (line["sweep"], line["policy"] + (", store" if line["store_tokens"] else ""), what_varies(line),
            f"{line['cached']:.3f}", f"{line['read_again_per_request']:,.0f}",
            f"{line['first_token_s']['median']:.2f} s", f"{line['first_token_s']['p95']:.1f} s",
            f"{line['busiest']:.2f}",
            *(f"{value / 1e6:,.1f}" for value in (fetched["mean"], fetched["busiest"], stored["mean"])),
            f"{line['n_falsely_claimed'] / line['n_asked']:.4f}",
            f"{line['minute_after']:.3f}" if has_loss else "", f"{line['minute_without_loss']:.3f}" if has_loss else "",
            f"{line['n_answered']:,} of {line['n_requests']:,}")


def print_row(cells: tuple[str, ...]) -> None:
    widths = (6, 19, 22, 7, 10, 19, 8, 7, 11, 9, 9, 7, 12, 8, 20)
    print(" ".join(cell.ljust(width) if i < 3 else cell.rjust(width)
                   for i, (cell, width) in enumerate(zip(cells, widths))).rstrip(), flush=True)


def parse_options(words: list[str]) -> argparse.Namespace:
    sweeps = ("nodes", "memory", "loss", "events", "store")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=("conversation", "synthetic"), default="conversation")
    parser.add_argument("--trace", type=pathlib.Path, metavar="FILE", help="requests of this file instead")
    parser.add_argument("--statistics", action="store_true", help="print the statistics of the trace")
    parser.add_argument("--sweeps", default=",".join(sweeps), help="which ones; all by default")
    parser.add_argument("--nodes", default="1,10,100,1000", help="numbers of nodes (1,10,100,1000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print a JSON line for each run")
    parser.add_argument("--csv", type=pathlib.Path, metavar="FILE", help="append the figures to a results file")
    parser.add_argument("--commit", help="the commit of the rows of --csv")
    options = parser.parse_args(words)
    options.sweeps = options.sweeps.split(",")
    try:
        options.nodes = sorted({int(n) for n in options.nodes.split(",")})
    except ValueError:
        parser.error(f"--nodes: {options.nodes}: expected numbers")
    if not 1 <= min(options.nodes) <= max(options.nodes) <= 1000:
        parser.error("--nodes: expected 1 to 1000")
    if unknown := set(options.sweeps) - set(sweeps):
        parser.error(f"--sweeps: unknown {', '.join(sorted(unknown))}")
    if options.statistics and not options.trace or bool(options.csv) != bool(options.commit):
        parser.error("--statistics needs --trace, and --csv needs --commit")
    return options


def print_statistics(numbers: dict) -> None:
    """JSON with a line for each field."""
    def fields(of: dict, indent: str) -> str:
        return ",\n".join(f"{indent}{json.dumps(name)}: {json.dumps(value)}" for name, value in of.items())
    classes = ",\n".join("    {\n" + fields(of_class, "      ") + "\n    }" for of_class in numbers.pop("classes"))
    print("{\n" + fields(numbers, "  ") + ',\n  "classes": [\n' + classes + "\n  ]\n}")


def main(words: list[str]) -> None:
    options = parse_options(words)
    gc.disable()  # it would look for cycles, of which there are none, for a third of the time
    source = read_source(options)
    if options.statistics:
        print_statistics(source.numbers)
        return
    if not options.json:
        print_row(HEADINGS)
    runner = Runner(source)
    base = Settings(policy="exact", n_nodes=1, memory_tokens=MEMORY, store_tokens=STORE, seed=options.seed)
    for sweep in options.sweeps:
        for line in runner.lines(sweep, runs_of(sweep, base, options.nodes, source.numbers["seconds"])):
            if options.json:
                print(json.dumps(line), flush=True)
            else:
                print_row(cells_of(line))
            if options.csv:
                compare.append_results(options.csv, list(rows_of(line, options.commit, command_of(options, sweep))))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (traces.Unusable, OSError) as error:
        sys.exit(f"simulate.py: {error}")
