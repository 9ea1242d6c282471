#!/usr/bin/env python3
"""Draws what `ibid bench` measured, from its JSON lines.

  draw.py FILE.jsonl... OUT.svg|OUT.png   a picture
  draw.py FILE.jsonl... OUT.html          a page: how it was measured, the picture and the numbers
  draw.py FILE.jsonl... OUT.csv           appends the medians to a results file (results/README.md)

Lines of `--report` become the time to the first token against the history, lines of `--requests` the time to the first
token by round, with a series for each engine. Rows are made of the former only.

Pictures and pages need matplotlib (Debian: python3-matplotlib).
"""
import collections
import csv
import html
import io
import json
import math
import pathlib
import statistics
import sys

import compare

# The measured ways to take a turn: field of the JSON line, `setting` and `what` of the row in tables, label, and colour
# (None: not drawn).
WAYS = (("cold_ms", "read again", "first token", "without the cache", "#b0413e"),
        ("resumed_ms", "from disk", "first token", "cache on disk, new process", "#8a8a8a"),
        ("warm_ms", "reuse", "first token", "ibid", "#1f6f8b"),
        ("pass_ms", "bare pass", "pass", "the model alone", None))
TURN_FIELDS = ("model", "machine", "threads", "kv", "numerics", "isa", "date", "commit", "command", "rounds",
               "n_read_warm", "same_text", "same_bits")
STYLE = ("body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 1.5rem auto; padding: 0 0.75rem }\n"
         "svg { width: 100%; height: auto } table { border-collapse: collapse }\n"
         "th, td { text-align: right; padding: 0.25rem 0.6rem; border-bottom: 1px solid #dcdce2 }")


class Unusable(Exception):
    """Input that cannot be drawn; the message names it."""


def checked_turn(line):
    """The line with numbers that can be drawn. Raises ValueError, KeyError or TypeError."""
    turn = {name: line[name] for name in TURN_FIELDS}
    turn |= {"history": int(line["history"]), "other_processes_percent": float(line["other_processes_percent"])}
    for key, *_ in WAYS:
        turn[key] = {name: float(line[key][name]) for name in ("q1", "median", "q3")}
        if not all(0 < value < math.inf for value in turn[key].values()):
            raise ValueError(f"{key}: not a time")
    return turn


def read_lines(paths):
    """The lines of --report in the order of their histories, and those of --requests that were answered."""
    turns, requests = [], []
    for path in paths:
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                line = json.loads(text)
                if line["what"] == "turn_curve":
                    turns.append(checked_turn(line))
                elif line["what"] == "serve_request" and "failure" not in line:
                    requests.append((str(line["engine"]), int(line["round"]), float(line["first_ms"])))
            except (ValueError, KeyError, TypeError) as error:
                raise Unusable(f"{path}:{number}: not a line of ibid bench: {error!r}") from None
    if bool(turns) == bool(requests):
        raise Unusable("the files must have lines of --report or lines of --requests")
    return sorted(turns, key=lambda turn: turn["history"]), requests


def new_axes(n_rows=1, n_columns=1, size=(7.2, 3.2)):
    """(figure, axes); an array of axes if there are several."""
    import matplotlib
    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    plt.rcParams.update({"svg.hashsalt": "ibid", "font.size": 10, "svg.fonttype": "path"})
    figure, axes = plt.subplots(n_rows, n_columns, figsize=size, layout="constrained")
    for each in figure.axes:
        each.spines[["top", "right"]].set_visible(False)
        each.margins(x=0.12)
    return figure, axes


def draw_turns(turns):
    figure, axes = new_axes()
    for key, _, _, label, color in WAYS:
        if color is None:
            continue
        points = [(line["history"], line[key]["median"]) for line in turns]
        axes.plot(*zip(*points), marker="o", markersize=3, color=color, label=label)
        axes.annotate(f"{points[-1][1]:,.0f} ms", points[-1], xytext=(4, 0), textcoords="offset points", va="center",
                      color=color)
    axes.set(xlabel="tokens of history", ylabel="time to the first token, ms", yscale="log")
    axes.legend(frameon=False)
    return figure


def draw_requests(requests):
    """A point is a request, a line connects the medians of the rounds."""
    figure, axes = new_axes()
    series = {}
    for engine, number, first_ms in requests:
        series.setdefault(engine, collections.defaultdict(list))[number].append(first_ms)
    for index, (engine, rounds) in enumerate(series.items()):
        color, shift = f"C{index}", 0.06 * (index - (len(series) - 1) / 2)
        points = [(number + shift, first_ms) for number in sorted(rounds) for first_ms in rounds[number]]
        axes.plot(*zip(*points), "o", markersize=3, alpha=0.4, color=color)
        medians = [(number + shift, statistics.median(rounds[number])) for number in sorted(rounds)]
        axes.plot(*zip(*medians), color=color, label=engine.replace("$", r"\$"))
    axes.set(xlabel="round", ylabel="time to the first token, ms", yscale="log")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False)
    return figure


def save(figure, out, kind):
    figure.savefig(out, format=kind, metadata={"Date": None, "Creator": None} if kind == "svg" else None)


def picture(turns, requests, out, kind):
    save(draw_turns(turns) if turns else draw_requests(requests), out, kind)


def table_of(headings, rows):
    cells = [f"<th>{html.escape(heading)}</th>" for heading in headings]
    lines = [cells] + [[f"<td>{html.escape(str(cell))}</td>" for cell in row] for row in rows]
    return "<table>\n" + "".join(f"<tr>{''.join(line)}</tr>\n" for line in lines) + "</table>\n"


def describe_turns(turns):
    """Title, paragraphs and table of the page."""
    last = turns[-1]
    ratio = last["cold_ms"]["median"] / last["warm_ms"]["median"]
    title = f"At {last['history']:,} tokens of history a turn is {ratio:,.1f} times as fast as reading the prompt again"
    same = {name: all(line[f"same_{name}"] for line in turns) for name in ("text", "bits")}
    verdict = ", ".join(f"{'the same' if same[name] else 'OTHER'} {name}" for name in same)
    paragraphs = [f"{last['model']}, {last['machine']}, {last['threads']} threads, {last['kv']} keys and values, "
                  f"{last['numerics']}, {last['isa']}; {last['date']}, commit {last['commit'] or 'not given'}; medians "
                  f"and quartiles in ms, rounds: {last['rounds']}; other processes had "
                  f"{last['other_processes_percent']:.1f} % of the CPUs.",
                  f"Answers with reuse, without and from disk: {verdict}.", f"Command: {last['command']}"]
    rows = [[f"{line['history']:,}", line["n_read_warm"],
             *(f"{line[key]['median']:,.1f} ({line[key]['q1']:,.1f} to {line[key]['q3']:,.1f})" for key, *_ in WAYS)]
            for line in turns]
    return title, paragraphs, table_of(["history", "read now", *(label for _, _, _, label, _ in WAYS)], rows)


def describe_requests(requests):
    rounds = collections.defaultdict(list)
    for engine, number, first_ms in requests:
        rounds[engine, number].append(first_ms)
    rows = [[engine, number, len(times), f"{statistics.median(times):,.1f}", f"{max(times):,.1f}"]
            for (engine, number), times in sorted(rounds.items())]
    return "Time to the first token by round", [], table_of(["engine", "round", "requests", "median, ms", "longest, ms"], rows)


def page(turns, requests):
    title, paragraphs, table = describe_turns(turns) if turns else describe_requests(requests)
    svg = io.StringIO()
    picture(turns, requests, svg, "svg")
    drawing = svg.getvalue()
    title = html.escape(title)
    return (f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n<title>{title}</title>\n'
            f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
            + "".join(f"<p>{html.escape(paragraph)}</p>\n" for paragraph in paragraphs)
            + drawing[drawing.index("<svg"):] + table + "</body>\n</html>\n")


def append_rows(turns, path):
    rows = [{"date": line["date"], "commit": line["commit"], "machine": line["machine"], "engine": "ibid",
             "model": line["model"], "threads": line["threads"], "kv": line["kv"], "setting": setting, "what": what,
             "at": line["history"], "value": compare.short_number(line[key]["median"]), "unit": "ms",
             "q1": compare.short_number(line[key]["q1"]), "q3": compare.short_number(line[key]["q3"]), "rounds": line["rounds"],
             "command": line["command"]}
            for line in turns for key, setting, what, *_ in WAYS]
    compare.append_results(path, rows)


def main(words):
    if len(words) < 2 or words[0].startswith("-"):
        sys.exit(__doc__)
    *inputs, out = map(pathlib.Path, words)
    turns, requests = read_lines(inputs)
    if out.suffix == ".html":
        out.write_text(page(turns, requests), encoding="utf-8")
    elif out.suffix in (".svg", ".png"):
        picture(turns, requests, out, out.suffix[1:])
    elif out.suffix == ".csv" and turns:
        append_rows(turns, out)
    else:
        raise Unusable(f"{out}: expected .svg, .png, .html, or .csv for lines of --report")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (Unusable, OSError) as error:
        sys.exit(f"draw.py: {error}")
