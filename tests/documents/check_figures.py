"""check_figures.py TREE: tests that bench/write_tables.py --check reports figures that differ from their source.

Each case makes one change in a copy: in a table, a result row, the text, or the place where a row is quoted; the
difference must be reported with its location. An unchanged copy and the script's own output must pass. bench/compare.py
must append rows that the script can read.
"""
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile

PAGES = ("README.md", "docs/benchmarks.md", "docs/simulation.md")


def write_tables(tree, *options):
    return subprocess.run([sys.executable, "-B", tree / "bench/write_tables.py", *options], capture_output=True,
                          text=True, check=False)


def copy_of(tree, directory):
    copy = pathlib.Path(directory)
    for name in (*PAGES, "bench/write_tables.py", "bench/tables.py", "bench/compare.py"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tree / name, copy / name)
    shutil.copytree(tree / "bench/results", copy / "bench/results")
    return copy


def replace(path, pattern, by):
    text = path.read_text(encoding="utf-8")
    changed, n = re.subn(pattern, by, text, count=1, flags=re.S)
    if n != 1:
        sys.exit(f"{path.name} has no {pattern}: the test must be written anew")
    path.write_text(changed, encoding="utf-8")


def want(condition, what, done):
    if not condition:
        sys.exit(f"{what}\nexit status {done.returncode}\n{done.stdout}{done.stderr}")


# (file, pattern, replacement, expected report)
CASES = (
    ("docs/benchmarks.md", r"(<!-- table turns -->.*?\| 1 \| 579 \| 61 \| )[\d.]+", r"\g<1>1.25", "docs/benchmarks.md:"),
    ("README.md", r"(<!-- table summary -->.*?\| prefill[^|]*\| )[\d,*]+", r"\g<1>17", "README.md:"),
    ("README.md", r"(<!-- table turns-in-short -->.*?\| 10 \|.*?)[\d.]+ \|\n", r"\g<1>1.25 |\n", "README.md:"),
    ("docs/simulation.md", r"(<!-- table simulation-loss -->.*?)24\.1", r"\g<1>24.2", "docs/simulation.md:"),
    ("docs/simulation.md", r"from 20 MB/s on", "from 21 MB/s on", "21 is in no table there"),
    ("docs/benchmarks.md", r"(reuse grows by )[\d.]+ ms", r"\g<1>11.29 ms", "11.29 is in no table there"),
    ("bench/results/smollm2.csv", r"(.*\n[^\n]*,ibid,[^\n]*,prefill,512,)\d+,", r"\g<1>1234,", "docs/benchmarks.md:"),
    ("README.md", r"98\.36 MB", "99.36 MB", "99.36 is in no table there"),
    ("bench/results/smollm2.csv", r"(.*\n)[\d-]+(,[^\n]*,ibid,[^\n]*,prefill,512,)", r"\g<1>2026-11-29\g<2>", "whose date differs"),
    ("bench/results/turn-curve.csv", r'(reuse,"growth per 1,000 tokens",,)[\d.]+', r"\g<1>12.28",
     "12.28 is not in docs/benchmarks.md, the-picture"),
    ("bench/results/turn-curve.csv", r"benchmarks#the-picture", "benchmarks#no-picture", "unknown place"),
    ("bench/results/smollm2.csv", r"(\n[\d-]+,)\w+,", r"\g<1>,", "no commit"),
    ("bench/results/quality.csv", r",ibid logits[^\n]*", ",", "no command"),
    ("bench/results/quality.csv", r"mean KL,", "mean KI,", "docs/benchmarks.md:"),
    ("bench/results/quality.csv", r",0\.00197,", ",0.0o197,", "is no number"),
    ("docs/benchmarks.md", r"<!-- table quality -->", "<!-- table qualities -->", "does not describe the table qual"),
    ("docs/benchmarks.md", r"(<!-- table quality -->.*?)<!-- end -->", r"\g<1>", "without an end"),
)

# Output of `ibid bench --json`, and of another engine with two settings.
FIGURES = {
    "ibid": [{"engine": "ibid", "threads": 2, "kv": "f16", "numerics": "exact", "isa": "avx2", **figure}
             for figure in ({"what": "prefill", "n": 512, "tps": 300.0},
                            {"what": "decode", "depth": 0, "tps": 45.0, "peak_percent": 87.4})],
    "other": [{"engine": "llama.cpp", "threads": 2, "kv": "f16", "flash": flash, "what": what, at: n, "tps": tps}
              for flash in (0, 1) for what, at, n, tps in (("prefill", "n", 512, 90.0 + 10 * flash),
                                                          ("decode", "depth", 0, 30.0 - 10 * flash))],
}


def check_appended_rows(copy):
    """Rows of compare.py become a table line, with the other engine's better setting."""
    for name, lines in FIGURES.items():
        program = copy / name
        program.write_text("#!/bin/sh\n" + "".join(f"echo '{json.dumps(line)}'\n" for line in lines), encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    results = copy / "bench/results/architectures.csv"
    results.unlink()  # so that the new file gets its own header
    command = [sys.executable, "-B", copy / "bench/compare.py", copy / "ibid", "--rival", f"{copy}/other {{model}}",
               "folder/Qwen3-0.6B-Q4_K_M.gguf", "--rounds", "1", "--max-other", "100", "--csv", results,
               "--commit", "abc"]
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        want(done.returncode == 0, "compare.py --csv", done)
    text = results.read_text(encoding="utf-8")
    if text.count("\n") != 9 or str(copy) in text or "folder/" in text:
        sys.exit(f"compare.py --csv: wanted a header and two times four rows without a path:\n{text}")
    done = write_tables(copy)  # may report text that quotes the removed rows
    line = "| Qwen3-0.6B | 512: 300 | 100 | 3.0 | 45.0 | 30.0 | 1.5 | 87 % |"
    want(line in (copy / "docs/benchmarks.md").read_text(encoding="utf-8"), f"wanted the line {line}", done)


def main(tree):
    with tempfile.TemporaryDirectory() as directory:
        copy = copy_of(tree, os.path.join(directory, "same"))
        done = write_tables(copy, "--check")
        want(done.returncode == 0 and not done.stdout + done.stderr, "a copy passes", done)
        want(write_tables(copy).returncode == 0, "writes", done)
        for name in PAGES:
            want((copy / name).read_bytes() == (tree / name).read_bytes(), f"{name} is as written before", done)
        check_appended_rows(copy)
        for number, (name, pattern, by, reported) in enumerate(CASES):
            copy = copy_of(tree, os.path.join(directory, str(number)))
            replace(copy / name, pattern, by)
            before = (copy / name).read_bytes()
            done = write_tables(copy, "--check")
            want(done.returncode == 1 and reported in done.stderr, f"{name}: {pattern} -> {by}: {reported}", done)
            want((copy / name).read_bytes() == before, "--check writes nothing", done)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
