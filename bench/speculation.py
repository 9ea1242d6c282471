#!/usr/bin/env python3
"""Gain or cost in time of drafts from the conversation: the same answers with and without, in alternating runs.
The answers must be equal, character by character.

  speculation.py IBID MODEL [--rounds 7] [--threads N] [--kv f32|f16|int8] [--max-tokens 300]

Tasks: ordinary prose, greedy (a small model soon repeats itself, which suits drafts) and sampled with a fixed seed,
and a copy of a text with one name changed. The time of decoding and sampling is measured. For every task: tokens per
second with and without drafts, drafts made and accepted, and median and quartiles of the rounds' ratios; above 1
drafts are faster. The last line combines all rounds of sampled prose.

Standard library only.
"""
import argparse
import json
import statistics
import subprocess
import sys

PROSE = {
    "story": "Write a story about a girl who finds a map in a library.",
    "letter": "Write a letter to a friend about a week in the mountains.",
    "advice": "What should I think about before I buy an old house?",
    "history": "Describe the history of the printing press.",
}
COPY = """Repeat the following text exactly, but write "Edward Hale" instead of "Thomas Hale". Answer with the text only.

The old lighthouse at Marrow Point was built in 1871 by a company of masons from the north. It stands ninety feet above \
the sea, and on a clear night its lamp can be seen from twenty miles away. For more than a century the keepers climbed \
its spiral stairs every evening to trim the wick and polish the glass. In 1986 the last keeper, a quiet man named Thomas \
Hale, locked the door behind him and walked down the hill."""

GREEDY = ["--temperature", "0"]
SAMPLED = ["--temperature", "0.8", "--seed", "1"]
TASKS = ([(f"{name}, greedy", text, GREEDY) for name, text in PROSE.items()] +
         [(f"{name}, sampled", text, SAMPLED) for name, text in PROSE.items()] +
         [("copy, greedy", COPY, GREEDY)])


def ask(options, question, sampling, speculate):
    """The answer, its tokens per second, and its usage."""
    command = [options.ibid, "ask", options.model, question, "--json", "--max-tokens", str(options.max_tokens),
               "--kv", options.kv, "--speculate", speculate, "--repeat-penalty", "1",
               "--stop-repetition", "off", *sampling]
    if options.threads:
        command += ["--threads", str(options.threads)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"ibid ask: exit status {done.returncode}")
    turn = json.loads(done.stdout)
    timings = turn["timings"]
    n_decoded = turn["usage"]["completion_tokens"]
    details = turn["usage"]["completion_tokens_details"]
    accepted = details["accepted_prediction_tokens"]
    usage = {"n_decoded": n_decoded, "n_accepted": accepted,
             "n_drafted": accepted + details["rejected_prediction_tokens"]}
    text = turn["choices"][0]["message"]["content"]
    return text, 1e3 * n_decoded / (timings["decode_ms"] + timings["sample_ms"]), usage


def run_task(options, question, sampling, number):
    """Rates with and without drafts, and the usage with drafts."""
    order = ("on", "off") if number % 2 == 0 else ("off", "on")
    runs = {speculate: ask(options, question, sampling, speculate) for speculate in order}
    if runs["on"][0] != runs["off"][0]:
        raise SystemExit(f"the answers differ with and without drafts: {question[:60]}")
    return runs["on"][1], runs["off"][1], runs["on"][2]


def quartiles(values):
    return values * 3 if len(values) == 1 else statistics.quantiles(values, n=4, method="inclusive")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ibid")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--kv", default="f16")
    parser.add_argument("--max-tokens", type=int, default=300)
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")

    results = {name: [] for name, _, _ in TASKS}
    for number in range(options.rounds):
        for name, question, sampling in TASKS:
            results[name].append(run_task(options, question, sampling, number))
        print(f"round {number + 1}", file=sys.stderr)

    print(f"{'':20}{'with':>8}{'without':>9}{'drafted':>9}{'accepted':>9}{'of':>5}{'ratio':>8}{'quartiles':>14}")
    prose = []
    for name, runs in results.items():
        ratios = [on / off for on, off, _ in runs]
        prose += ratios if name.endswith("sampled") else []
        low, middle, high = quartiles(ratios)
        usage = runs[0][2]
        print(f"{name:20}{statistics.median(r[0] for r in runs):8.1f}{statistics.median(r[1] for r in runs):9.1f}"
              f"{usage['n_drafted']:9}{usage['n_accepted']:9}{usage['n_decoded']:5}{middle:8.3f}{low:8.3f}-{high:.3f}")
    low, middle, high = quartiles(prose)
    print(f"{'all sampled prose':48}{len(prose):5} rounds{middle:8.3f}{low:8.3f}-{high:.3f}")


if __name__ == "__main__":
    main()
