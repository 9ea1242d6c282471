"""Nodes with caches of keys and values, a store that they share, and what happens to them; for simulate.py.

A node answers one request after the other: it reads the tokens of the prompt whose keys and values are neither in its
memory nor came from the store, then it decodes. Memory and store evict the block that was used least recently, of one
prompt the last block first. A node looks for blocks in its own memory, by name; the router's index decides only which
node is asked. So a wrong index costs tokens that are read again, and every request is answered.

A request that continues another one is sent when that one has its answer, if this is later than in the trace.
"""
import collections
import dataclasses
import heapq
import itertools
import math
import random
import typing

import routing
from traces import BLOCK_TOKENS, Workload

PEAK_S = 10  # the busiest time of the store is looked for in periods of this length
MOST_BACKLOG_S = 5  # records that would wait longer to be written to the store are dropped

Changes = list[tuple[int, int]]  # a segment, and how many of its blocks are now in memory


@dataclasses.dataclass(frozen=True)
class Settings:
    policy: str
    n_nodes: int
    memory_tokens: int  # of a node
    store_tokens: int = 0  # for each node, of one store for all; 0: no store
    store_bytes_per_s: float = math.inf  # in each direction
    token_bytes: int = 59136
    prefill_per_s: float = 800
    decode_per_s: float = 200
    lost_node: int = -1
    lost_at_s: float = 0
    down_s: float = 60
    event_delay_s: float = 0
    events_lost: float = 0  # share of the messages from a node to the router
    seed: int = 1


@dataclasses.dataclass
class Outcome:
    n_requests: int = 0
    n_answered: int = 0
    n_interrupted: int = 0  # were being answered by the lost node, and were sent to another one
    n_asked: int = 0  # tokens, here and below
    n_known: int = 0
    n_from_memory: int = 0
    n_from_store: int = 0
    n_falsely_claimed: int = 0
    seconds: float = 0
    busiest: float = 1.0  # requests of the busiest node, in those of the mean
    first_token_s: list[float] = dataclasses.field(default_factory=list)
    fetched: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # bytes by period
    stored: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    asked_in_minute: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    cached_in_minute: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    @property
    def n_cached(self) -> int:
        return self.n_from_memory + self.n_from_store

    @property
    def n_read_again(self) -> int:
        return self.n_known - self.n_cached


class Memory:
    """Blocks by segment, the least recently used one first; each segment from its beginning."""

    def __init__(self, n_tokens: int, n_blocks: dict[int, int]):
        self.capacity = n_tokens // BLOCK_TOKENS
        self.lengths = n_blocks
        self.segments: collections.OrderedDict[int, int] = collections.OrderedDict()
        self.n_used = 0

    def match(self, path: tuple[int, ...]) -> int:
        """The number of blocks at the beginning of the path that are here."""
        n = 0
        for segment in path:
            here = self.segments.get(segment, 0)
            n += here
            if here < self.lengths[segment]:
                break
        return n

    def put(self, path: tuple[int, ...]) -> Changes:
        segments, changes = self.segments, []
        for segment in reversed(path):
            before, whole = segments.pop(segment, 0), self.lengths[segment]
            segments[segment] = whole
            self.n_used += whole - before
            if before < whole:
                changes.append((segment, whole))
        while self.n_used > self.capacity:
            segment, here = next(iter(segments.items()))
            left = max(0, here - (self.n_used - self.capacity))
            self.n_used -= here - left
            if left:
                segments[segment] = left
            else:
                del segments[segment]
            changes.append((segment, left))
        return changes


class Link:
    """Bytes in one direction between the store and the nodes, one transfer after the other."""

    def __init__(self, bytes_per_s: float):
        self.bytes_per_s = bytes_per_s
        self.busy_s = 0.0

    def send(self, now: float, n_bytes: float, until: float = math.inf) -> tuple[float, float]:
        """(when the transfer begins, when it ends, whole or at `until`)."""
        begin = max(now, self.busy_s)
        end = max(begin, min(begin + n_bytes / self.bytes_per_s, until))
        self.busy_s = end
        return begin, end


@dataclasses.dataclass(slots=True)
class Turn:
    """A request at a node."""
    number: int
    node: int
    sent_s: float
    finish_s: float
    first_token_s: float
    n_from_memory: int
    n_from_store: int
    n_falsely_claimed: int
    changes: Changes


class Node:
    def __init__(self, memory: Memory):
        self.memory = memory
        self.is_up = True
        self.busy_s = 0.0
        self.turns: collections.deque[Turn] = collections.deque()  # unfinished, in the order of their ends
        self.n_turns = 0


class Cluster:
    def __init__(self, workload: Workload, settings: Settings):
        self.workload, self.settings = workload, settings
        self.outcome = Outcome()
        self.nodes = [Node(self.new_memory()) for _ in range(settings.n_nodes)]
        self.up = list(range(settings.n_nodes))
        self.n_in_flight = 0
        self.is_answered = bytearray(len(workload))
        self.waiting: dict[int, list[int]] = {}  # requests that continue an unanswered one
        self.idle_order = [(0.0, node) for node in self.up]  # a heap; entries of other times than the node's are old
        self.store = None
        if settings.store_tokens:
            self.store = Memory(settings.store_tokens * settings.n_nodes, workload.n_blocks)
        self.from_store, self.to_store = Link(settings.store_bytes_per_s), Link(settings.store_bytes_per_s)
        self.events: list = []  # a heap of (time, order, function, arguments)
        self.order = itertools.count()
        self.rng = random.Random(settings.seed)
        self.router = routing.POLICIES[settings.policy](self)

    def new_memory(self) -> Memory:
        return Memory(self.settings.memory_tokens, self.workload.n_blocks)

    def run(self) -> Outcome:
        requests, outcome, settings = self.workload.requests, self.outcome, self.settings
        if settings.lost_node >= 0:
            self.at(settings.lost_at_s, self.lose, settings.lost_node)
        for number, request in enumerate(requests):
            self.advance(request.time_s)
            previous = self.workload.previous[number]
            if previous < 0 or self.is_answered[previous]:
                self.dispatch(request.time_s, number, request.time_s)
            else:
                self.waiting.setdefault(previous, []).append(number)
        self.advance(math.inf)
        del self.router  # nothing refers to itself, so that memory is freed without the collector of cycles
        outcome.n_requests = len(requests)
        outcome.seconds = max(1.0, requests[-1].time_s)
        outcome.busiest = max(node.n_turns for node in self.nodes) / (len(requests) / len(self.nodes))
        return outcome

    def at(self, time_s: float, function: typing.Callable, *arguments) -> None:
        heapq.heappush(self.events, (time_s, next(self.order), function, arguments))

    def advance(self, until: float) -> None:
        while self.events and self.events[0][0] <= until:
            time_s, _, function, arguments = heapq.heappop(self.events)
            function(time_s, *arguments)

    def queue_s(self, node: int, now: float) -> float:
        return max(0.0, self.nodes[node].busy_s - now)

    def least_loaded(self) -> int:
        while True:
            busy_s, node = self.idle_order[0]
            if self.nodes[node].is_up and self.nodes[node].busy_s == busy_s:
                return node
            heapq.heappop(self.idle_order)

    def dispatch(self, now: float, number: int, sent_s: float) -> None:
        request, path = self.workload.requests[number], self.workload.paths[number]
        chosen = self.router.choose(number, now)
        node = self.nodes[chosen]
        n_here = node.memory.match(path)
        n_fetched, begin_s = self.fetch(path, n_here, now, max(now, node.busy_s))
        n_from_memory = min(request.n_tokens, n_here * BLOCK_TOKENS)
        n_cached = min(request.n_tokens, (n_here + n_fetched) * BLOCK_TOKENS)
        first_s = begin_s + (request.n_tokens - n_cached) / self.settings.prefill_per_s
        node.busy_s = first_s + request.n_output / self.settings.decode_per_s
        n_claimed = min(request.n_tokens, self.router.n_claimed * BLOCK_TOKENS)
        turn = Turn(number, chosen, sent_s, node.busy_s, first_s - sent_s, n_from_memory, n_cached - n_from_memory,
                    max(0, n_claimed - n_from_memory), node.memory.put(path))
        node.turns.append(turn)
        node.n_turns += 1
        self.n_in_flight += 1
        heapq.heappush(self.idle_order, (node.busy_s, chosen))
        self.at(turn.finish_s, self.finish, turn)

    def fetch(self, path: tuple[int, ...], n_here: int, now: float, ready_s: float) -> tuple[int, float]:
        """(blocks that came from the store, when the node begins to read). The store is asked when the request arrives.
        The node, ready at `ready_s`, waits at most half the time in which it would read what the store has."""
        n_wanted = self.store.match(path) - n_here if self.store else 0
        if n_wanted <= 0:
            return 0, ready_s
        block_bytes = BLOCK_TOKENS * self.settings.token_bytes
        deadline_s = ready_s + n_wanted * BLOCK_TOKENS / self.settings.prefill_per_s / 2
        begin, end = self.from_store.send(now, n_wanted * block_bytes, until=deadline_s)
        n_came = n_wanted
        if begin + n_wanted * block_bytes / self.settings.store_bytes_per_s > deadline_s:
            n_came = int((end - begin) * self.settings.store_bytes_per_s / block_bytes)
            end = deadline_s
        self.outcome.fetched[int(begin // PEAK_S)] += n_came * block_bytes
        return n_came, max(ready_s, end)

    def finish(self, now: float, turn: Turn) -> None:
        node, outcome, request = self.nodes[turn.node], self.outcome, self.workload.requests[turn.number]
        if not node.turns or node.turns[0] is not turn:
            return  # the node was lost meanwhile
        node.turns.popleft()
        self.n_in_flight -= 1
        minute = int(turn.sent_s // 60)
        outcome.n_answered += 1
        outcome.n_asked += request.n_tokens
        outcome.n_known += self.workload.n_known[turn.number]
        outcome.n_from_memory += turn.n_from_memory
        outcome.n_from_store += turn.n_from_store
        outcome.n_falsely_claimed += turn.n_falsely_claimed
        outcome.first_token_s.append(turn.first_token_s)
        outcome.asked_in_minute[minute] += request.n_tokens
        outcome.cached_in_minute[minute] += turn.n_from_memory + turn.n_from_store
        self.send_event(now, self.router.note_changes, turn.node, turn.changes)
        if self.store:
            self.write(now, self.workload.paths[turn.number])
        self.is_answered[turn.number] = True
        for number in self.waiting.pop(turn.number, ()):
            self.at(now, self.dispatch, number, now)

    def write(self, now: float, path: tuple[int, ...]) -> None:
        """Writes the blocks that the store lacks, and marks the others as used."""
        n_bytes = (sum(map(self.workload.n_blocks.get, path)) - self.store.match(path)) * BLOCK_TOKENS
        n_bytes *= self.settings.token_bytes
        if self.to_store.busy_s - now > MOST_BACKLOG_S:
            return
        begin, end = self.to_store.send(now, n_bytes)
        self.outcome.stored[int(begin // PEAK_S)] += n_bytes
        self.at(end, lambda _, path=path: self.store.put(path))

    def send_event(self, now: float, function: typing.Callable, *arguments) -> None:
        if self.router.has_index and self.rng.random() >= self.settings.events_lost:
            self.at(now + self.settings.event_delay_s, lambda _: function(*arguments))

    def lose(self, now: float, lost: int) -> None:
        """The node's memory is gone; its requests are sent again. It comes back empty, unless it is the only one."""
        node = self.nodes[lost]
        node.memory = self.new_memory()
        node.is_up = len(self.nodes) == 1
        turns, node.turns = node.turns, collections.deque()
        node.busy_s = now
        self.n_in_flight -= len(turns)
        self.outcome.n_interrupted += len(turns)
        if not node.is_up:
            self.up.remove(lost)
            self.at(now + self.settings.down_s, self.come_back, lost)
        else:
            self.come_back(now, lost)
        for turn in turns:
            self.dispatch(now, turn.number, turn.sent_s)

    def come_back(self, now: float, lost: int) -> None:
        node = self.nodes[lost]
        if not node.is_up:
            node.is_up = True
            self.up.append(lost)
        node.busy_s = now
        heapq.heappush(self.idle_order, (now, lost))
        self.send_event(now, self.router.note_cleared, lost)
