#!/usr/bin/env python3
"""Draws the lines of `simulate.py --json`: the share of the tokens that come from caches, by the number of nodes, by
the memory of a node, in the minutes around the loss of a node, and by the rate of the store.

  draw_simulation.py FILE.jsonl OUT.svg|OUT.png

Needs matplotlib (Debian: python3-matplotlib).
"""
import json
import pathlib
import sys
import typing

import draw

COLORS = {"round robin": "#8a8a8a", "power of two": "#c9a227", "hash": "#1f6f8b", "bounded hash": "#6a994e",
          "exact": "#b0413e"}
LOSS_SERIES = (("round robin", False), ("hash", False), ("exact", False), ("round robin", True))  # policy, has a store
MINUTES_BEFORE, MINUTES_AFTER = 2, 8
FIELDS = {"sweep": str, "workload": str, "policy": str, "n_nodes": int, "memory_tokens": int, "store_tokens": int,
          "lost_node": int, "lost_at_s": float, "known": float, "cached": float, "cached_by_minute": list}


def read_lines(path: pathlib.Path) -> list[dict]:
    lines = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            line = json.loads(text)
            lines.append({name: kind(line[name]) for name, kind in FIELDS.items()} |
                         {"store_bytes_per_s": float(line["store_bytes_per_s"] or 0)})
            if line["what"] != "simulation" or line["policy"] not in COLORS:
                raise ValueError("another kind of line")
        except (ValueError, KeyError, TypeError) as error:
            raise draw.Unusable(f"{path}:{number}: not a line of simulate.py: {error!r}") from None
    if not lines:
        raise draw.Unusable(f"{path}: no lines")
    return lines


def series_of(lines: list[dict], sweep: str) -> typing.Iterator[tuple[str, bool, list[dict]]]:
    """(policy, has a store, lines) for each curve of a sweep."""
    for policy in COLORS:
        for has_store in (False, True):
            found = [line for line in lines if line["sweep"] == sweep and line["policy"] == policy
                     and bool(line["store_tokens"]) == has_store]
            if found:
                yield policy, has_store, found


def plot(axes, policy: str, has_store: bool, points: typing.Iterable[tuple[float, float]]) -> None:
    axes.plot(*zip(*sorted(points)), marker="o", markersize=3, color=COLORS[policy],
              linestyle="--" if has_store else "-", label=policy + (", store" if has_store else ""))


def draw_shares(axes, lines: list[dict], sweep: str, where: typing.Callable, title: str) -> None:
    for policy, has_store, found in series_of(lines, sweep):
        plot(axes, policy, has_store, [(where(line), 100 * line["cached"]) for line in found])
    known = [100 * line["known"] for line in lines if line["sweep"] == sweep]
    if known:
        axes.axhline(sum(known) / len(known), color="#cccccc", linewidth=1, zorder=0)
    axes.set(xlabel=title, ylabel="tokens from caches, %", xscale="log")
    axes.set_ylim(bottom=0)
    places = sorted({where(line) for line in lines if line["sweep"] == sweep})
    axes.set_xticks(places, [f"{round(place):,}" for place in places])
    axes.minorticks_off()


def draw_loss(axes, lines: list[dict]) -> None:
    """The change by the loss in each minute, for the smallest cluster."""
    lines = [line for line in lines if line["sweep"] == "loss"]
    n_nodes = min((line["n_nodes"] for line in lines), default=0)
    for policy, has_store, found in series_of([line for line in lines if line["n_nodes"] == n_nodes], "loss"):
        without = [line for line in found if line["lost_node"] < 0]
        with_loss = [line for line in found if line["lost_node"] >= 0]
        if (policy, has_store) not in LOSS_SERIES or not without or not with_loss:
            continue
        lost_minute = int(with_loss[0]["lost_at_s"] // 60)
        pairs = list(zip(with_loss[0]["cached_by_minute"], without[0]["cached_by_minute"]))
        plot(axes, policy, has_store,
             [(minute - lost_minute, 100 * (lost - kept)) for minute, (lost, kept) in enumerate(pairs)
              if -MINUTES_BEFORE <= minute - lost_minute <= MINUTES_AFTER])
    axes.set(xlabel=f"minutes after the loss of one of {n_nodes} nodes", ylabel="change, percentage points")


def draw_lines(lines: list[dict]):
    figure, ((nodes, memory), (loss, store)) = draw.new_axes(2, 2, size=(9.6, 6.4))
    draw_shares(nodes, lines, "nodes", lambda line: line["n_nodes"], "nodes")
    largest_store = max(line["store_tokens"] for line in lines)
    by_memory = [line for line in lines if line["sweep"] == "memory"]
    stores = {line["store_tokens"] for line in by_memory if line["policy"] == "hash"} or {0, largest_store}
    draw_shares(memory, [line for line in by_memory if line["store_tokens"] in stores], "memory",
                lambda line: line["memory_tokens"] / 1000, "memory of a node, thousand tokens")
    draw_loss(loss, lines)
    draw_shares(store, lines, "store", lambda line: line["store_bytes_per_s"] / line["n_nodes"] / 1e6,
                "rate of the store, MB/s for each node")
    figure.get_layout_engine().set(rect=(0, 0, 1, 0.9))
    figure.legend(*nodes.get_legend_handles_labels(), loc="upper center", ncols=5, frameon=False)
    return figure


def main(words: list[str]) -> None:
    if len(words) != 2 or words[0].startswith("-"):
        sys.exit(__doc__)
    source, out = map(pathlib.Path, words)
    if out.suffix not in (".svg", ".png"):
        raise draw.Unusable(f"{out}: expected .svg or .png")
    draw.save(draw_lines(read_lines(source)), out, out.suffix[1:])


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (draw.Unusable, OSError) as error:
        sys.exit(f"draw_simulation.py: {error}")
