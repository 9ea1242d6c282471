"""Policies by which a router chooses the node of a request; for simulate.py.

All of them have the list of nodes that are up, and their load. `exact` also has an index of the blocks in the memory of
each node, from the events that nodes send.
"""
import bisect
import itertools
import math
import random
import typing

from traces import BLOCK_TOKENS

if typing.TYPE_CHECKING:
    from cluster import Changes, Cluster

RING_POINTS = 100  # of a node on the ring of a consistent hash
LOAD_BOUND = 1.5  # most requests of a node, in those of the mean
MOST_CANDIDATES = 32


class Policy:
    has_index = False
    n_claimed = 0  # blocks of the last request that the index had for the chosen node

    def __init__(self, cluster: "Cluster"):
        self.cluster = cluster

    def choose(self, number: int, now: float) -> int:
        raise NotImplementedError

    def note_changes(self, node: int, changes: "Changes") -> None:
        """Applies an event of the node. Policies without an index ignore it."""

    def note_cleared(self, node: int) -> None:
        """Removes the blocks of a node that began anew."""


class RoundRobin(Policy):
    def __init__(self, cluster: "Cluster"):
        super().__init__(cluster)
        self.turn = itertools.count()

    def choose(self, number: int, now: float) -> int:
        return self.cluster.up[next(self.turn) % len(self.cluster.up)]


class PowerOfTwo(Policy):
    """The node with fewer requests, of two random ones."""

    def choose(self, number: int, now: float) -> int:
        cluster = self.cluster
        first, second = (cluster.up[int(cluster.rng.random() * len(cluster.up))] for _ in range(2))
        return first if len(cluster.nodes[first].turns) <= len(cluster.nodes[second].turns) else second


def spread(number: int) -> int:
    """64 bits that look random: the last steps of SplitMix64."""
    number = (number + 1) * 0x9e3779b97f4a7c15 & (1 << 64) - 1
    number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9 & (1 << 64) - 1
    number = (number ^ number >> 27) * 0x94d049bb133111eb & (1 << 64) - 1
    return number ^ number >> 31


class Hash(Policy):
    """A consistent hash of the conversation's beginning. The next node on the ring replaces one that is not up."""

    def __init__(self, cluster: "Cluster"):
        super().__init__(cluster)
        rng = random.Random(cluster.settings.seed)
        ring = sorted((rng.getrandbits(64), node) for node in range(len(cluster.nodes)) for _ in range(RING_POINTS))
        self.points = [point for point, _ in ring]
        self.owners = [owner for _, owner in ring]

    def is_free(self, node: int) -> bool:
        return self.cluster.nodes[node].is_up

    def choose(self, number: int, now: float) -> int:
        place = bisect.bisect(self.points, spread(self.cluster.workload.keys[number])) % len(self.points)
        while not self.is_free(self.owners[place]):
            place = (place + 1) % len(self.points)
        return self.owners[place]


class BoundedHash(Hash):
    """The same, but a node that has its share of the requests and half of it more is passed over."""

    def choose(self, number: int, now: float) -> int:
        self.bound = math.ceil(LOAD_BOUND * (self.cluster.n_in_flight + 1) / len(self.cluster.up))
        return super().choose(number, now)

    def is_free(self, node: int) -> bool:
        return super().is_free(node) and len(self.cluster.nodes[node].turns) < self.bound


class Exact(Policy):
    """The node with the shortest time to the first token, by its queue and by the blocks that the index has for it."""
    has_index = True

    def __init__(self, cluster: "Cluster"):
        super().__init__(cluster)
        self.holders: dict[int, dict[int, int]] = {}  # of a segment: how many of its blocks each node has
        self.segments_of: list[set[int]] = [set() for _ in cluster.nodes]

    def claimed(self, path: tuple[int, ...], node: int) -> int:
        n = 0
        for segment in path:
            here = self.holders.get(segment, {}).get(node, 0)
            n += here
            if here < self.cluster.workload.n_blocks[segment]:
                break
        return n

    def candidates(self, path: tuple[int, ...]) -> set[int]:
        """The least loaded node, and those with parts of the prompt that few nodes have."""
        found = {self.cluster.least_loaded()}
        for segment in path:
            holders = self.holders.get(segment, ())
            if len(holders) <= MOST_CANDIDATES:
                found.update(holders)
        return found

    def choose(self, number: int, now: float) -> int:
        cluster, path = self.cluster, self.cluster.workload.paths[number]
        block_s = BLOCK_TOKENS / cluster.settings.prefill_per_s
        costs = []
        for node in self.candidates(path):
            if cluster.nodes[node].is_up:
                n = self.claimed(path, node)
                costs.append((cluster.queue_s(node, now) - n * block_s, cluster.nodes[node].busy_s, node, n))
        *_, chosen, self.n_claimed = min(costs)
        return chosen

    def note_changes(self, node: int, changes: "Changes") -> None:
        for segment, n in changes:
            if n:
                self.holders.setdefault(segment, {})[node] = n
                self.segments_of[node].add(segment)
            elif self.holders.get(segment, {}).pop(node, 0):
                self.segments_of[node].discard(segment)
                if not self.holders[segment]:
                    del self.holders[segment]

    def note_cleared(self, node: int) -> None:
        self.note_changes(node, [(segment, 0) for segment in self.segments_of[node]])


POLICIES: dict[str, type[Policy]] = {
    "round robin": RoundRobin,
    "power of two": PowerOfTwo,
    "hash": Hash,
    "bounded hash": BoundedHash,
    "exact": Exact,
}
