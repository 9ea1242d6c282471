#!/usr/bin/env python3
"""Draws the time to the first token by round, of one or several runs of `ibid bench --what serve --requests FILE.csv`.

  serve_picture.py FILE.csv [FILE.csv ...] >picture.svg

A point is a request, a line connects the medians of the rounds; requests of one engine are one series, also from
several files. Standard library only.
"""
import csv
import html
import statistics
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 400, 64, 150, 34, 48
COLOURS = ("#1f6fb2", "#c4511c", "#2e8540", "#7a4fa3", "#8a6d00")
STYLE = ("text{font:13px sans-serif;fill:#333}.grid{stroke:#ddd}.axis{stroke:#888}"
         "@media(prefers-color-scheme:dark){text{fill:#ccc}.grid{stroke:#444}}")


def read(paths):
    """engine: {round: [first_ms]}, engines in the order of their first row."""
    series = {}
    for path in paths:
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["failure"]:
                    continue
                rounds = series.setdefault(row["engine"], {})
                rounds.setdefault(int(row["round"]), []).append(float(row["first_ms"]))
    return series


def steps(most):
    """Ticks of an axis from 0 to slightly above `most`, at most eight, spaced 1, 2 or 5 times a power of ten."""
    step = 1.0
    while True:
        for factor in (1, 2, 5):
            if most <= 7 * step * factor:
                return [i * step * factor for i in range(int(most / (step * factor)) + 2)]
        step *= 10


def draw(series):
    rounds = max(max(points) for points in series.values())
    marks = steps(max(max(max(times) for times in points.values()) for points in series.values()))

    def x(number):
        return LEFT + (WIDTH - LEFT - RIGHT) * (number - 0.5) / rounds

    def y(value):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / marks[-1]

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
           "<title>Time to the first token by round</title>", f"<style>{STYLE}</style>"]
    for mark in marks:
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(mark):.1f}" y2="{y(mark):.1f}"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y(mark) + 4:.1f}" text-anchor="end">{mark:g}</text>')
    for number in range(1, rounds + 1):
        out.append(f'<text x="{x(number):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{number}</text>')
    out.append(f'<text x="{LEFT - 40}" y="{TOP - 14}">time to the first token, ms</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">round</text>')
    for i, (engine, points) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        shift = 5 * (i - (len(series) - 1) / 2)
        medians = [(x(number) + shift, y(statistics.median(points[number])), points[number]) for number in sorted(points)]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py, _ in medians)
        for px, _, times in medians:
            out += [f'<circle cx="{px:.1f}" cy="{y(time):.1f}" r="2.5" fill="{colour}" fill-opacity="0.45">'
                    f"<title>{time:.1f} ms</title></circle>" for time in times]
        out.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>')
        out.append(f'<text x="{WIDTH - RIGHT + 10}" y="{TOP + 20 * i + 10}" style="fill:{colour}">'
                   f"{html.escape(engine)}</text>")
    return "\n".join(out + ["</svg>"])


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    series = read(sys.argv[1:])
    if not series:
        sys.exit("serve_picture.py: no request in these files was answered")
    print(draw(series))


if __name__ == "__main__":
    main()
