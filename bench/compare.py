#!/usr/bin/env python3
"""Compares two builds, or a build with other engines, in runs that alternate A B B A: the speed of a machine changes
from minute to minute, ratios of consecutive runs hardly do.

  compare.py IBID OTHER_IBID MODEL [--rounds 7] [-- ARGS]
  compare.py IBID --rival 'COMMAND' [--rival 'COMMAND' ...] MODEL [--rounds 7] [-- ARGS]

  compare.py IBID --rival 'COMMAND' MODEL --csv FILE --commit NAME [--model-name NAME] ...

Runs `IBID bench MODEL --json ARGS` (without ARGS: --rounds 1 --what prefill,decode) and the same with OTHER_IBID, or
each COMMAND, in which {model} is replaced by MODEL and which prints lines of the same format. Each round runs all of
them once. For every figure that the first and another print: the median of each, and median and quartiles of the
rounds' ratios; above 1 the first is better. With --cold the model's files are removed from the page cache before each run. With --touch a process uses and frees so
much memory before each run: a virtual machine may have returned its free memory to the host, and the first program that
uses such memory waits for the host, whatever it does.

A round in which other processes used more than --max-other percent of the CPUs is repeated, up to three times
the given rounds in total; if too few were quiet, all count, and a message reports it.

With --csv the medians and quartiles of all engines are appended to a results file (results/README.md): a row for each
engine and figure. write_tables.py makes tables from them.

Standard library only.
"""
import argparse
import collections
import csv
import datetime
import json
import math
import mmap
import os
import resource
import shlex
import statistics
import subprocess
import sys
import time

import write_tables

# For each value of "what": the fields of the parameters, the field of the number, and whether less is better.
# bench/lab/figure.cc has the same table.
KINDS = {
    "load": ((), "ms", True),
    "memory": ((), "peak_mb", True),
    "prefill": (("n",), "tps", False),
    "decode": (("depth",), "tps", False),
    "turn": (("history", "n"), "ttft_ms", True),
    "chat_turn": (("system_tokens", "turn"), "ttft_ms", True),
    "conversation": (("turn",), "ttft_ms", True),
}
MOST_ROUNDS = 3  # maximum number of rounds, as a multiple of the requested number
UNITS = {"tps": "tok/s", "ms": "ms", "ttft_ms": "ms", "peak_mb": "MB"}

# The best number of a figure and its JSON line; `settings`: the settings of all lines of the figure.
Figure = collections.namedtuple("Figure", "value line settings")


def row_of(line):
    """((name, less is better), value), or None for a line of another kind."""
    kind = KINDS.get(line.get("what"))
    if kind is None:
        return None
    keys, value, less = kind
    name = " ".join([line["what"]] + [f"{key}={line[key]}" for key in keys])
    return (name, less), float(line[value])


def parse(output, source):
    """The figures of one run. If a program prints several for one row (settings), the best counts."""
    found = {}
    for number, text in enumerate(output.splitlines(), 1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
            row = row_of(line)
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise SystemExit(f"{source}: line {number} is not a figure ({error!r}): {text[:100]}") from error
        if row is not None:
            key, value = row
            found.setdefault(key, []).append((value, line))
    if not found:
        raise SystemExit(f"{source}: printed no figure")
    rows = {}
    for key, values in found.items():
        value, line = (min if key[1] else max)(values, key=lambda pair: pair[0])
        rows[key] = Figure(value, line, sorted({setting_of(line) for _, line in values}))
    return rows


def setting_of(line):
    """The settings of an engine as text: ibid's numerics and instruction set, llama.cpp's attention."""
    words = [str(line[name]) for name in ("numerics", "isa") if name in line]
    if "flash" in line:
        words.append(f"flash {line['flash']}")
    return " ".join(words)


def busy_seconds():
    """CPU seconds of all processes since boot: everything except idle and iowait."""
    with open("/proc/stat", encoding="ascii") as stat:
        ticks = [int(n) for n in stat.readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def files_of(model):
    if not os.path.isdir(model):
        return [model]
    return [entry.path for entry in os.scandir(model) if entry.is_file()]


def set_caches(model, options):
    """What --touch and --cold do before a run."""
    if options.touch:
        with mmap.mmap(-1, options.touch * 1_000_000) as memory:
            memory.madvise(mmap.MADV_HUGEPAGE)
            for at in range(0, len(memory), mmap.PAGESIZE):
                memory[at] = 1
    for path in files_of(model) if options.cold else []:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(command)}: exit status {done.returncode}")
    return parse(done.stdout, command[0])


def run_round(commands, number, before):
    """The figures of all programs in turn, and the CPU share of other processes. `before` is called before each."""
    start, busy, own = time.monotonic(), busy_seconds(), own_seconds()
    order = range(len(commands)) if number % 2 == 0 else reversed(range(len(commands)))
    rows = [None] * len(commands)
    for which in order:
        before()
        rows[which] = run(commands[which])
    wall = time.monotonic() - start
    others = busy_seconds() - busy - (own_seconds() - own)
    return rows, min(100.0, 100 * max(0.0, others) / (wall * os.cpu_count()))


def quartiles(values):
    if len(values) == 1:
        return values * 3
    return statistics.quantiles(values, n=4, method="inclusive")


def summary(rounds, other):
    """A row for each figure that the first program and program number `other` have."""
    for key in rounds[0][0]:
        both = [(rows[0][key], rows[other][key]) for rows in rounds if key in rows[0] and key in rows[other]]
        if not both:
            continue
        name, less = key
        low, middle, high = quartiles([b.value / a.value if less else a.value / b.value for a, b in both])
        yield {"row": name, "unit": KINDS[name.split()[0]][1], "first": statistics.median(a.value for a, _ in both),
               "second": statistics.median(b.value for _, b in both), "ratio": middle, "q1": low, "q3": high,
               "rounds": len(both)}


def short_number(value):
    """Four significant digits, more than a clock's precision."""
    return f"{float(f'{value:.4g}'):f}".rstrip("0").rstrip(".")


def machine_name():
    """As `ibid bench --csv` writes it."""
    with open("/proc/cpuinfo", encoding="utf-8") as cpus:
        names = [line.partition(":")[2].strip() for line in cpus if line.startswith("model name")]
    return f"{names[0] if names else 'unknown processor'}, {len(os.sched_getaffinity(0))} CPUs"


def results(rounds, shared, cold):
    """Rows of a results file: each figure that the first engine and another have, of all that have it."""
    for key in rounds[0][0]:
        what = key[0].split()[0]
        keys, field, _ = KINDS[what]
        by_engine = [[rows[i][key] for rows in rounds if key in rows[i]] for i in range(len(rounds[0]))]
        having = [figures for figures in by_engine if figures]
        for figures in having if len(having) > 1 else []:
            line = figures[0].line
            low, middle, high = quartiles([figure.value for figure in figures])
            peaks = [figure.line["peak_percent"] for figure in figures if "peak_percent" in figure.line]
            settings = figures[0].settings
            yield shared | {
                "engine": line["engine"], "threads": line.get("threads", ""), "kv": line.get("kv", ""),
                "setting": settings[0] if len(settings) == 1 else "better of " + " and ".join(settings),
                "what": what, "at": "cold" if cold and what == "load" else "/".join(str(line[name]) for name in keys),
                "value": short_number(middle), "unit": UNITS[field], "q1": short_number(low),
                "q3": short_number(high), "rounds": len(figures),
                "peak_percent": short_number(statistics.median(peaks)) if peaks else ""}


def append_results(path, rows):
    with open(path, "a+", encoding="utf-8", newline="") as file:
        file.seek(0)
        header = next(csv.reader(file), None)
        if header is not None and set(header) != set(write_tables.COLUMNS):
            raise SystemExit(f"{path}: has another header than bench/results/README.md says")
        writer = csv.DictWriter(file, header or write_tables.COLUMNS, restval="", lineterminator="\n")
        if header is None:
            writer.writeheader()
        writer.writerows(rows)


def without_folders(command):
    """A command for display, without the paths of this machine."""
    return " ".join(os.path.basename(part.rstrip("/")) if "/" in part else part for part in command)


def measure(commands, model, options):
    quiet, everything = [], []
    while len(quiet) < options.rounds and len(everything) < MOST_ROUNDS * options.rounds:
        rows, other = run_round(commands, len(everything), lambda: set_caches(model, options))
        everything.append(rows)
        if other <= options.max_other:
            quiet.append(rows)
        print(f"round {len(everything)}: others had {other:.0f} % of the CPUs", file=sys.stderr)
    if len(quiet) == options.rounds:
        return quiet
    print(f"only {len(quiet)} rounds were quiet: all {len(everything)} count", file=sys.stderr)
    return everything


def main():
    arguments = sys.argv[1:]
    extra = []
    if "--" in arguments:
        extra = arguments[arguments.index("--") + 1:]
        arguments = arguments[:arguments.index("--")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage="compare.py IBID [OTHER_IBID] MODEL [options] [-- ARGS of ibid bench]")
    parser.add_argument("programs", nargs="+", help="IBID OTHER_IBID MODEL, or IBID MODEL with --rival")
    parser.add_argument("--rival", metavar="COMMAND", action="append", default=[], help="may be repeated")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--max-other", type=float, default=5, metavar="PERCENT")
    parser.add_argument("--cold", action="store_true", help="read the model from disk in each run")
    parser.add_argument("--touch", type=int, default=0, metavar="MB", help="memory to use and free before each run")
    parser.add_argument("--json", action="store_true", help="one JSON object a row")
    parser.add_argument("--fail-below", type=float, metavar="RATIO",
                        help="exit status 1 if the mean ratio of a kind of figures (prefill, decode, turn ...) is less")
    parser.add_argument("--csv", metavar="FILE", help="append rows to this results file; needs --rival and --commit")
    parser.add_argument("--commit", metavar="NAME", help="the commit of IBID, for --csv")
    parser.add_argument("--model-name", metavar="NAME", help="the model in the rows; default: its file's name")
    options = parser.parse_intermixed_args(arguments)
    *programs, model = options.programs
    if len(programs) != (1 if options.rival else 2):
        parser.error("expected IBID OTHER_IBID MODEL, or IBID MODEL with --rival")
    if options.csv and not (options.rival and options.commit):
        parser.error("--csv needs --rival and --commit")
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")

    bench = extra or ["--rounds", "1", "--what", "prefill,decode"]
    commands = [[program, "bench", model, "--json", *bench] for program in programs]
    for rival in options.rival:
        commands.append([part.replace("{model}", model) for part in shlex.split(rival)])
    rounds = measure(commands, model, options)
    if options.csv:
        said = "".join(f"--rival '{without_folders(shlex.split(rival))}' " for rival in options.rival)
        said += f"--rounds {options.rounds}"
        said += (" --cold" if options.cold else "") + (f" --touch {options.touch}" if options.touch else "")
        name = options.model_name or os.path.basename(os.path.normpath(model))
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        append_results(options.csv, results(rounds, {
            "date": today, "commit": options.commit, "machine": machine_name(), "model": name,
            "command": f"compare.py ibid {without_folders([model])} {said} -- {without_folders(bench)}"},
            options.cold))
    status = 0
    for other in range(1, len(commands)):
        table = list(summary(rounds, other))
        if len(commands) > 2 and not options.json:
            print(f"second: {without_folders(commands[other])}")
        print_table(table, options.json)
        if options.fail_below is not None:
            status = max(status, failed(kind_ratios(rounds, other), options.fail_below))
    return status


def print_table(table, as_json):
    if as_json:
        for row in table:
            print(json.dumps(row))
        return
    print(f"{'':32}{'first':>12}{'second':>12} {'':8}{'ratio':>8}{'quartiles':>14}{'rounds':>8}")
    for row in table:
        span = f"{row['q1']:.2f}-{row['q3']:.2f}"
        print(f"{row['row']:32}{row['first']:12.1f}{row['second']:12.1f} {row['unit']:8}{row['ratio']:8.2f}{span:>14}"
              f"{row['rounds']:8}")


def kind_ratios(rounds, other):
    """For each kind of figure, the median over the rounds of the geometric mean of the ratios of its figures. A single
    figure of two equal programs often differs by more than five per cent; the mean of a kind does not."""
    by_kind = collections.defaultdict(list)
    for first, second in ((rows[0], rows[other]) for rows in rounds):
        logs = collections.defaultdict(list)
        for key in first.keys() & second.keys():
            ratio = second[key].value / first[key].value if key[1] else first[key].value / second[key].value
            logs[key[0].split()[0]].append(math.log(ratio))
        for kind, values in logs.items():
            by_kind[kind].append(math.exp(statistics.fmean(values)))
    return {kind: statistics.median(by_kind[kind]) for kind in KINDS if kind in by_kind}


def failed(ratios, least):
    """Exit status: 1 if the first program is slower than it may be. The time to load is too noisy to decide."""
    judged = {kind: ratio for kind, ratio in ratios.items() if kind not in ("load", "memory")}
    print("mean ratio of each kind: " + ", ".join(f"{kind} {ratio:.3f}" for kind, ratio in judged.items()))
    slower = [kind for kind, ratio in judged.items() if ratio < least]
    if slower:
        print(f"below {least}: " + ", ".join(slower), file=sys.stderr)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
