"""Workloads for simulate.py: requests with the blocks of their prompts, from a trace or from the statistics of one.

A trace is a file in the form of Mooncake's (`FAST25-release` of kvcache-ai/Mooncake): JSON lines with `timestamp` in
milliseconds, `input_length` and `output_length` in tokens, and `hash_ids`, one for each block of 512 tokens of the
prompt. The id of a block stands for the block and all blocks before it.

The statistics (bench/simulation/*.json) have no request of the trace. They describe conversations: the number of turns;
and in classes of it, when a conversation begins, the length of its first prompt and the pauses between its turns. A
turn either continues the prompt before or branches off it. A list of numbers has the means of equal parts of the
sorted values, so a random element of the list has the mean of the values.
"""
import collections
import dataclasses
import json
import pathlib
import random
import statistics
import typing

BLOCK_TOKENS = 512
MOST_TURNS = (1, 2, 4, 8, 1 << 30)  # the classes of conversations
MOST_BLOCKS = (4, 16, 32, 1 << 30)  # the classes of prompts: longer ones are branched off more often
N_PARTS = 40
MOST_SECONDS, MOST_OUTPUT = 7 * 86400, 1 << 20


class Unusable(Exception):
    """A trace or statistics that cannot be used; the message names it."""


@dataclasses.dataclass(slots=True)
class Request:
    time_s: float
    n_tokens: int
    n_output: int
    blocks: list[int]


@dataclasses.dataclass
class Workload:
    """Requests in the order of time. Blocks that always occur together are one segment, named by its last block."""
    requests: list[Request]  # without their blocks
    paths: list[tuple[int, ...]]  # the segments of each prompt
    keys: list[int]  # the conversation of each prompt: its first block that is not common to all requests
    n_known: list[int]  # tokens at the beginning of each prompt that an earlier prompt had
    previous: list[int]  # the request that each one continues, or -1
    n_blocks: dict[int, int]  # of a segment

    def __len__(self) -> int:
        return len(self.requests)


def blocks_of(n_tokens: int) -> int:
    return -(-n_tokens // BLOCK_TOKENS)


def parse_request(text: bytes) -> Request:
    """Raises ValueError, KeyError, TypeError or RecursionError."""
    line = json.loads(text)
    time_ms, n_tokens, n_output, blocks = (line[name] for name in
                                           ("timestamp", "input_length", "output_length", "hash_ids"))
    if not all(type(value) is int and value >= 0 for value in (time_ms, n_tokens, n_output, *blocks)):
        raise ValueError("a value is not a natural number")
    if n_tokens == 0 or len(blocks) != blocks_of(n_tokens):
        raise ValueError(f"{len(blocks)} blocks for {n_tokens} tokens")
    if time_ms > 1000 * MOST_SECONDS or n_output > MOST_OUTPUT:
        raise ValueError("more than a week, or more than 1,048,576 tokens of output")
    return Request(time_ms / 1000, n_tokens, n_output, blocks)


def read_trace(path: pathlib.Path) -> list[Request]:
    requests = []
    with open(path, "rb") as file:
        for number, text in enumerate(file, 1):
            try:
                if text.strip():
                    requests.append(parse_request(text))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise Unusable(f"{path}:{number}: not a request of a trace: {error!r}") from None
    if not requests:
        raise Unusable(f"{path}: no requests")
    return sorted(requests, key=lambda request: request.time_s)


def n_common(requests: list[Request]) -> int:
    """The number of blocks with which all prompts begin."""
    shortest = min((request.blocks for request in requests), key=len)
    return next((n for n, block in enumerate(shortest) if any(request.blocks[n] != block for request in requests)),
                len(shortest))


def key_of(request: Request, number: int, common: int) -> int:
    """Prompts without a block of their own are conversations of one turn."""
    return request.blocks[common] if len(request.blocks) > common else -1 - number


def conversations(requests: list[Request]) -> list[list[Request]]:
    """In the order of their beginnings."""
    common = n_common(requests)
    found: dict[int, list[Request]] = {}
    for number, request in enumerate(requests):
        found.setdefault(key_of(request, number, common), []).append(request)
    return list(found.values())


def ends_of_segments(requests: list[Request]) -> tuple[set[int], list[int]]:
    """The blocks after which prompts end or differ, and how many tokens of each prompt an earlier one had."""
    before: dict[int, int] = {}
    ends: set[int] = set()
    n_known = []
    for request in requests:
        n_seen, last = len(before), -1
        for block in request.blocks:
            if before.setdefault(block, last) != last:
                raise Unusable(f"block {block} of the trace is after the blocks {before[block]} and {last}")
            last = block
        known = request.blocks[:len(request.blocks) - (len(before) - n_seen)]
        ends.update(known[-1:], (last,))
        n_known.append(min(request.n_tokens, len(known) * BLOCK_TOKENS))
    return ends, n_known


def split_into_segments(requests: list[Request]) -> Workload:
    """Takes the blocks out of the requests. Raises Unusable if a block is after different blocks."""
    common = n_common(requests)
    ends, n_known = ends_of_segments(requests)
    workload = Workload(requests, [], [], n_known, [], {})
    last_with: dict[int, int] = {}  # the last request of each segment
    for number, request in enumerate(requests):
        path, begin, previous, n_after = [], 0, -1, 0
        for end, block in enumerate(request.blocks, 1):
            if block in ends:
                path.append(block)
                workload.n_blocks[block] = end - begin
                begin = end
                if block in last_with and end > common:
                    previous = last_with[block]
                    n_after = blocks_of(requests[previous].n_tokens) - end
                last_with[block] = number
        workload.paths.append(tuple(path))
        workload.keys.append(key_of(request, number, common))
        workload.previous.append(previous if n_after <= 1 else -1)
    for request in requests:
        request.blocks = []
    return workload


def sample_evenly(things: list, n: int, rng: random.Random) -> typing.Iterator:
    """Takes n of the things in their order: each one equally often, as nearly as n allows."""
    first = rng.random()
    for i in range(n):
        yield things[min(int((i + first) * len(things) / n), len(things) - 1)]


def scale_trace(requests: list[Request], factor: float, seed: int) -> list[Request]:
    """The trace with `factor` times its conversations: some of them, or copies with other blocks at the same times."""
    found = conversations(requests)
    common = n_common(requests)
    shift = 1 + max(block for request in requests for block in request.blocks)
    n_copies: collections.Counter = collections.Counter()
    scaled = []
    for number in sample_evenly(list(range(len(found))), max(1, round(factor * len(found))), random.Random(seed)):
        add, n_copies[number] = shift * n_copies[number], n_copies[number] + 1
        scaled += [dataclasses.replace(request, blocks=request.blocks[:common] +
                                       [block + add for block in request.blocks[common:]])
                   for request in found[number]]
    return sorted(scaled, key=lambda request: request.time_s)


def parts(values: typing.Iterable[float]) -> list[float]:
    """The means of equal parts of the sorted values, with four significant digits."""
    ordered = sorted(values)
    n = min(N_PARTS, len(ordered))
    bounds = [round(i * len(ordered) / n) for i in range(n + 1)] if n else []
    return [float(f"{statistics.fmean(ordered[begin:end]):.4g}") for begin, end in zip(bounds, bounds[1:])]


def steps_of(conversation: list[Request]) -> typing.Iterator[tuple[Request, Request, int]]:
    """(earlier request, request, shared blocks) for each but the first; the earlier one is the last that shares most."""
    last_with: dict[int, Request] = {}
    for number, request in enumerate(conversation):
        shared = next((n for n, block in enumerate(request.blocks) if block not in last_with), len(request.blocks))
        if number:
            yield last_with[request.blocks[shared - 1]], request, shared
        last_with.update(dict.fromkeys(request.blocks, request))


def class_of(n: int, most: tuple[int, ...]) -> int:
    return next(index for index, limit in enumerate(most) if n <= limit)


def share(n: int, of: int) -> float:
    return round(n / max(1, of), 4)


def class_statistics(members: list[list[Request]], end_s: float) -> dict:
    steps = [step for member in members for step in steps_of(member)]
    continued, branched = [], []
    n_steps, n_branches = collections.Counter(), collections.Counter()
    for earlier, request, shared in steps:
        is_branch = len(earlier.blocks) - shared > 1
        (branched if is_branch else continued).append((earlier, request, shared))
        n_steps[class_of(len(earlier.blocks), MOST_BLOCKS)] += 1
        n_branches[class_of(len(earlier.blocks), MOST_BLOCKS)] += is_branch
    return {
        "turns": sorted(collections.Counter(map(len, members)).items()),
        "begins": parts(member[0].time_s / end_s for member in members),
        "first_tokens": parts(member[0].n_tokens for member in members),
        "pause_s": parts(request.time_s - earlier.time_s for earlier, request, _ in steps),
        "branches": [share(n_branches[i], n_steps[i]) for i in range(len(MOST_BLOCKS))],
        "growth_tokens": parts(request.n_tokens - earlier.n_tokens for earlier, request, _ in continued),
        "kept_whole": share(sum(len(earlier.blocks) == shared for earlier, _, shared in continued), len(continued)),
        "kept": parts(shared / len(earlier.blocks) for earlier, _, shared in branched),
        "added_tokens": parts(max(0, request.n_tokens - shared * BLOCK_TOKENS) for _, request, shared in branched),
    }


def statistics_of(requests: list[Request], source: str) -> dict:
    end_s = max(1.0, requests[-1].time_s)
    times = sorted({round(request.time_s, 1) for request in requests})
    pauses = [later - earlier for earlier, later in zip(times, times[1:])]
    by_class: dict[int, list] = {}
    for conversation in conversations(requests):
        by_class.setdefault(class_of(len(conversation), MOST_TURNS), []).append(conversation)
    return {
        "source": source,
        "requests": len(requests),
        "tokens": sum(request.n_tokens for request in requests),
        "seconds": round(end_s, 3),
        "step_s": round(statistics.median(pauses), 1) if pauses and len(times) < len(requests) / 2 else 0,
        "known": share(sum(ends_of_segments(requests)[1]), sum(request.n_tokens for request in requests)),
        "longest_tokens": max(request.n_tokens for request in requests),
        "common_blocks": n_common(requests),
        "output_tokens": parts(request.n_output for request in requests),
        "classes": [class_statistics(by_class[of_class], end_s) for of_class in sorted(by_class)],
    }


class Generator:
    """Writes requests with the statistics of a trace."""

    def __init__(self, numbers: dict, seed: int):
        self.numbers = numbers
        self.rng = random.Random(seed)
        self.common = list(range(numbers["common_blocks"]))
        self.n_blocks = len(self.common)  # blocks named so far
        self.decks: dict[int, list[float]] = {}

    def pick(self, values: list[float]) -> float:
        """Deals the values in random order, each one before any again: sums vary less than those of free choices."""
        deck = self.decks.setdefault(id(values), [])
        if not deck:
            deck.extend(values)
            self.rng.shuffle(deck)
        return deck.pop()

    def blocks_after(self, kept: list[int], n_tokens: int) -> list[int]:
        n_new = blocks_of(n_tokens) - len(kept)
        self.n_blocks += n_new
        return kept + list(range(self.n_blocks - n_new, self.n_blocks))

    def first(self, of_class: dict) -> Request:
        n_tokens = max(len(self.common) * BLOCK_TOKENS + 1, round(self.pick(of_class["first_tokens"])))
        return Request(0.0, n_tokens, 0, self.blocks_after(self.common, n_tokens))

    def next(self, earlier: Request, of_class: dict) -> Request:
        """The next turn; its time is the pause."""
        common, longest = len(self.common), self.numbers["longest_tokens"]
        branches = of_class["branches"][class_of(len(earlier.blocks), MOST_BLOCKS)]
        if self.rng.random() < branches or not of_class["growth_tokens"]:
            n_kept = max(common + 1, round(self.pick(of_class["kept"]) * len(earlier.blocks)))
            n_tokens = n_kept * BLOCK_TOKENS + round(self.pick(of_class["added_tokens"]))
        else:
            n_kept = len(earlier.blocks) - (self.rng.random() >= of_class["kept_whole"])
            n_tokens = earlier.n_tokens + round(self.pick(of_class["growth_tokens"]))
        n_tokens = min(longest, max(common * BLOCK_TOKENS + 1, n_tokens))
        kept = earlier.blocks[:min(max(common, n_kept), blocks_of(n_tokens))]
        return Request(self.pick(of_class["pause_s"]), n_tokens, 0, self.blocks_after(kept, n_tokens))

    def conversation(self, of_class: dict, n_turns: int) -> list[Request]:
        end_s, step_s = self.numbers["seconds"], self.numbers["step_s"]
        turns = [self.first(of_class)]
        while len(turns) < n_turns:
            turns.append(self.next(turns[-1], of_class))
        lasts_s = sum(turn.time_s for turn in turns)
        shorter = min(1.0, end_s / max(1.0, lasts_s))
        begins = of_class["begins"]
        begin = self.pick(begins) + (self.rng.random() - 0.5) / len(begins)  # anywhere in the part
        time_s = max(0.0, min(begin * end_s, end_s - lasts_s * shorter))
        for turn in turns:
            time_s += turn.time_s * shorter
            turn.time_s = time_s // step_s * step_s if step_s else round(time_s, 3)
            turn.n_output = round(self.pick(self.numbers["output_tokens"]))
        return turns

    def requests(self, factor: float) -> list[Request]:
        """With `factor` times the conversations of the trace."""
        sizes = [(of_class, n_turns) for of_class in self.numbers["classes"]
                 for n_turns, count in of_class["turns"] for _ in range(count)]
        found = []
        for of_class, n_turns in sample_evenly(sizes, max(1, round(factor * len(sizes))), self.rng):
            found += self.conversation(of_class, n_turns)
        return sorted(found, key=lambda request: request.time_s)
