"""check_draw.py TREE: tests bench/draw.py with lines as `ibid bench` writes them, and with names that HTML must escape.

Rows are appended to a results file that bench/write_tables.py reads. Pictures and pages are checked with an interpreter
that has matplotlib, if there is one. Files that are not such lines are refused with their place.
"""
import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

NAME = "a<b>&\"c'$x$.gguf"


def turn(history, warm_ms, **fields):
    spread = {key: {"q1": value - 1, "median": value, "q3": value + 2}
              for key, value in (("warm_ms", warm_ms), ("cold_ms", 800), ("resumed_ms", 40), ("pass_ms", 7.25))}
    return {"engine": "ibid", "what": "turn_curve", "model": NAME, "machine": "<2> CPUs", "threads": 2, "kv": "f16",
            "numerics": "exact", "isa": "avx2", "date": "2026-01-31", "commit": "abc", "command": "ibid bench <x>",
            "rounds": 3, "other_processes_percent": 0.5, "history": history, "n_read_warm": 61, "same_text": True,
            "same_bits": True, **spread, **fields}


def request(engine, number, first_ms, **fields):
    return {"what": "serve_request", "engine": engine, "round": number, "first_ms": first_ms, **fields}


TURNS = [turn(8000, 20), turn(0, 10)]
REQUESTS = [request(NAME, 1, 100), request(NAME, 2, 20), request("other", 1, 300), request("other", 2, 0, failure="busy")]


def draw(tree, folder, name, lines, interpreter=sys.executable):
    source = folder / "in.jsonl"
    source.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines),
                      encoding="utf-8")
    return subprocess.run([interpreter, "-B", tree / "bench/draw.py", source, folder / name], capture_output=True,
                          text=True, check=False)


def want(condition, what, done):
    if not condition:
        sys.exit(f"{what}\nexit status {done.returncode}\n{done.stdout}{done.stderr}")


def check_rows(tree, folder):
    for _ in range(2):
        done = draw(tree, folder, "rows.csv", TURNS)
        want(done.returncode == 0, "rows", done)
    with open(folder / "rows.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    want(len(rows) == 16, "a row for each of two histories and four ways, appended twice", done)
    want([rows[2][name] for name in ("commit", "machine", "setting", "at", "value", "q1", "q3", "command")] ==
         ["abc", "<2> CPUs", "reuse", "0", "10", "9", "12", "ibid bench <x>"], f"the row {rows[2]}", done)


def check_refused(tree, folder):
    for lines, said in ((["{"], "in.jsonl:1: not a line"), ([TURNS[0], "[]"], "in.jsonl:2: not a line"),
                        ([turn("x", 1)], "in.jsonl:1: not a line"),
                        ([turn(1, 0)], "warm_ms: not a time"), ([turn(1, 1, pass_ms=3)], "not a line"), ([], "must have lines"),
                        (TURNS + REQUESTS, "must have lines"), ([{"what": "decode", "tps": 1}], "must have lines")):
        done = draw(tree, folder, "out.csv", lines)
        want(done.returncode == 1 and said in done.stderr and "Traceback" not in done.stderr, f"{lines}: {said}", done)
    for name, lines in (("out.pdf", TURNS), ("out.csv", REQUESTS)):
        done = draw(tree, folder, name, lines)
        want(done.returncode == 1 and "expected .svg" in done.stderr, name, done)


def check_pictures(tree, folder, interpreter):
    for lines, texts in ((TURNS, ("40.0 times as fast", "the same text, the same bits", "7.2 (6.2 to 9.2)")),
                         (REQUESTS, ("other", "300.0"))):
        for name in ("out.svg", "out.html"):
            done = draw(tree, folder, name, lines, interpreter)
            want(done.returncode == 0, name, done)
            root = xml.fromstring((folder / name).read_text(encoding="utf-8").partition("<!DOCTYPE html>\n")[2]
                                  or (folder / name).read_text(encoding="utf-8"))
        page = "".join(root.itertext())
        for text in (*texts, NAME):
            want(text in page, f"{text} in the page", done)
    done = draw(tree, folder, "out.html", [turn(0, 10, same_bits=False)], interpreter)
    want("OTHER bits" in (folder / "out.html").read_text(encoding="utf-8"), "answers that differ are reported", done)


def main(tree):
    with tempfile.TemporaryDirectory() as directory:
        folder = pathlib.Path(directory)
        check_rows(tree, folder)
        check_refused(tree, folder)
        for interpreter in (sys.executable, "/usr/bin/python3"):
            if subprocess.run([interpreter, "-c", "import matplotlib"], capture_output=True, check=False).returncode == 0:
                check_pictures(tree, folder, interpreter)
                return
        print("matplotlib is not installed (python3-matplotlib): pictures and pages were not checked")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
