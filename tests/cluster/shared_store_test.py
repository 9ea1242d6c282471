"""Two `ibid serve` that share keys and values through a redis-server: a conversation moves to a node that never saw it,
and a store that hangs, is slow or is killed costs no answer.

    IBID_PROGRAM=build/release/apps/ibid IBID_WRITE_TALKING_MODEL=build/release/tests/server/write_talking_model \\
      python3 tests/cluster/shared_store_test.py [--model PATH] [--words N] [--context N] [--plain]

--words: of the first message; --context: positions of a node; --plain: without a key file. The figures are printed. Exit status 77: skipped, with the
reason.
"""
import argparse
import contextlib
import os
import pathlib
import random
import re
import secrets
import signal
import subprocess
import tempfile
import time

from nodes import WORDS, chat, expect, get, nodes, program_with, talking_model, wait_for

MAX_TOKENS_READ_AGAIN = 64  # of a conversation that moves, beside the new message
MAX_RECOVERY_S = 8          # until a store that hung for a few seconds is used again


class Redis:
    """A redis-server on a Unix socket, with its data in memory."""

    def __init__(self, directory, *options):
        self.socket = str(pathlib.Path(directory) / "redis.sock")
        self.command = [program_with("redis-server"), "--port", "0", "--unixsocket", self.socket, "--save", "",
                        "--appendonly", "no", "--dir", str(directory), *options]
        self.process = None
        self.start()

    def start(self):
        pathlib.Path(self.socket).unlink(missing_ok=True)
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for("redis-server", lambda: pathlib.Path(self.socket).exists())

    def send(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def timed(node, messages, **fields):
    """The answer, and the seconds to its first text."""
    first, begin = [], time.monotonic()

    def on_chunk(answer):
        if answer.text and not first:
            first.append(time.monotonic() - begin)

    answer = chat(node.url, messages, on_chunk=on_chunk, max_tokens=12, **fields)
    expect(answer.finish is not None, "a failed turn:", answer.error)
    return answer, first[0] if first else time.monotonic() - begin


def metric(node, name):
    """The sum of a metric of the cache server."""
    lines = [line for line in get(node.url + "/metrics")[1].splitlines() if line.startswith(name)]
    lines = [line for line in lines if 'tier="directory"' not in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def written(node):
    wait_for("end of the writes", lambda: metric(node, "ibid_tier_waiting_bytes") == 0)


class Talk:
    def __init__(self, seed, n_words):
        rnd = random.Random(seed)
        self.words = lambda n: " ".join(rnd.choice(WORDS) for _ in range(n))
        self.messages = [{"role": "system", "content": self.words(n_words)}]
        self.n_before = 0

    def next(self):
        self.messages.append({"role": "user", "content": self.words(6)})

    def add(self, answer):
        self.messages.append({"role": "assistant", "content": answer.text})
        self.n_before = answer.usage["prompt_tokens"] + answer.usage["completion_tokens"]


def test_moves(a, b, n_words, n_talks=4):
    """Each turn is asked of node a, and then of b, which never saw the conversation before its second turn."""
    known, moved, computed = [], [], []
    for seed in range(n_talks):
        talk = Talk(f"{time.time()}-{seed}", n_words)
        talk.next()
        first, seconds = timed(a, talk.messages)
        computed.append(seconds)
        talk.add(first)
        written(a)
        talk.next()
        there, seconds = timed(b, talk.messages)
        moved.append(seconds)
        here, seconds = timed(a, talk.messages)
        known.append(seconds)
        # Both nodes continue the sampled tokens, of which the text is not always an exact copy.
        expect(there.text == here.text, "another answer after the move:", there.text, here.text)
        # In another namespace nothing is known, so all of the text is computed.
        alone, _ = timed(a, talk.messages, cache_salt=f"alone-{seed}")
        expect(alone.cached() == 0, "known in another namespace:", alone.cached())
        n_new = there.usage["prompt_tokens"] - talk.n_before
        n_read = there.usage["prompt_tokens"] - there.cached()
        expect(n_read <= n_new + MAX_TOKENS_READ_AGAIN, "tokens that were read again:", n_read, "of which", n_new, "are new")
    middle = lambda values: sorted(values)[len(values) // 2]
    print(f"moved: {there.usage['prompt_tokens']} tokens, {n_read} of them read, {n_new} of them new; seconds to the first text: "
          f"computed {middle(computed):.3f}, moved {middle(moved):.3f}, known {middle(known):.3f}, "
          f"moved / known {middle(moved) / middle(known):.2f}")
    expect(metric(b, "ibid_tier_quarantined_total") == 0, "records were not sound")


def test_outage(a, redis, n_words):
    """The store hangs, comes back, is killed, and comes back empty."""
    talk = lambda: [{"role": "user", "content": Talk(str(time.time()), n_words).words(n_words)}]
    sound = sorted(timed(a, talk())[1] for _ in range(3))[1]
    redis.send(signal.SIGSTOP)
    hung = [timed(a, talk())[1] for _ in range(4)]
    expect(metric(a, "ibid_cache_server_usable") == 0, "the store is used after", len(hung), "turns, though it hangs")
    print(f"hung: seconds to the first text: before {sound:.3f}, while it hangs "
          + ", ".join(f"{each:.3f}" for each in hung))
    redis.send(signal.SIGCONT)
    begin = time.monotonic()

    def says(line, n):
        timed(a, talk())  # lines are written when calls fail or succeed
        return len(re.findall(line, a.log_path.read_text())) == n
    wait_for("use of the store", lambda: says("is used again", 1), MAX_RECOVERY_S)
    print(f"hung: used again after {time.monotonic() - begin:.1f} s, turns included")
    expect(metric(a, "ibid_cache_server_usable") == 1, "the store is not used")
    redis.kill()
    wait_for("the line about the outage", lambda: says("is not used until it answers", 2))
    redis.start()
    wait_for("use of the store", lambda: says("is used again", 2), 2 * MAX_RECOVERY_S)
    expect(metric(a, "ibid_cache_server_failures_total") == 2, "outages that were counted")


def test_dead_node(a, b, n_words):
    """A node is killed; another one goes on with its conversation."""
    talk = Talk(f"dead-{time.time()}", n_words)
    talk.next()
    talk.add(timed(a, talk.messages)[0])
    written(a)
    a.kill()
    talk.next()
    answer, seconds = timed(b, talk.messages)
    n_read = answer.usage["prompt_tokens"] - answer.cached()
    print(f"dead node: {answer.usage['prompt_tokens']} tokens, {n_read} of them read, {seconds:.3f} s to the first text")
    expect(n_read <= answer.usage["prompt_tokens"] - talk.n_before + MAX_TOKENS_READ_AGAIN, "tokens that were read:", n_read)
    a.start()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--words", type=int, default=120)
    parser.add_argument("--context", default="2048")
    parser.add_argument("--plain", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        redis = Redis(directory)
        stack.callback(redis.kill)
        options = ["--cache-server", "unix:" + redis.socket, "--context", given.context]
        if not given.plain:
            key_file = pathlib.Path(directory) / "key"
            key_file.write_text(secrets.token_hex(32) + "\n")
            os.chmod(key_file, 0o600)
            options += ["--cache-key-file", str(key_file)]
        model = given.model or stack.enter_context(talking_model())
        a, b = stack.enter_context(nodes(directory, model, options=options))
        test_moves(a, b, given.words)
        test_dead_node(a, b, given.words)
        test_outage(a, redis, given.words)


if __name__ == "__main__":
    main()
