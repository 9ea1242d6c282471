#!/usr/bin/env python3
"""turn_picture.py OUT.svg: draws the time to the first token against the history, from bench/results/turn-curve.csv.

Needs matplotlib (Debian: python3-matplotlib).
"""
import csv
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

LINES = {"read again": ("without the cache", "#b0413e"), "from disk": ("cache on disk, new process", "#8a8a8a"),
         "reuse": ("ibid", "#1f6f8b")}


def main(out):
    path = pathlib.Path(__file__).parent / "results/turn-curve.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["what"] == "first token"]
    newest = max(row["date"] for row in rows)
    rows = [row for row in rows if row["date"] == newest]
    plt.rcParams.update({"svg.hashsalt": "ibid", "font.size": 10, "svg.fonttype": "path"})
    figure, axes = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
    for setting, (label, color) in LINES.items():
        points = sorted((int(row["at"]), float(row["value"])) for row in rows if row["setting"] == setting)
        axes.plot(*zip(*points), marker="o", markersize=3, color=color, label=label)
        axes.annotate(f"{points[-1][1]:,.0f} ms", points[-1], xytext=(4, 0), textcoords="offset points", va="center",
                      color=color)
    axes.set(xlabel="tokens of history", ylabel="time to the first token, ms", yscale="log")
    axes.margins(x=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(out, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main(sys.argv[1])
