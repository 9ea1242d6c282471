"""Fails if a register tile of the AVX-512 or AMX kernels spills vectors to the stack.

gcc 12 spills every accumulator of a tile that is slightly too big; the tile then runs at half speed with the
same results, so no other test fails. Reads the object files' disassembly:
    no_spills.py OBJDUMP OBJECT...
"""
import re
import subprocess
import sys

# Functions that must not spill: pattern, minimum number of them, their main instruction and its minimum count, and the
# allowed accesses to vectors on the stack: gcc spills one where rows are stored, after the loop.
TILES = [
    (re.compile(r"::Tile<.*>::run\("), 8, "vpdpbusd", 32, 0),
    (re.compile(r"::float_tile<"), 3, "vfmadd", 16, 0),
    (re.compile(r"::AmxTile<.*>::run\("), 8, "vfmadd", 32, 2),
]
STACK_VECTOR = re.compile(r"%zmm\d+,.*\(%rsp|\(%rsp.*%zmm\d+")


def functions(objdump, path):
    text = subprocess.run([objdump, "-d", "-C", "--no-show-raw-insn", path], check=True, capture_output=True,
                          text=True).stdout
    for part in text.split("\n\n"):
        lines = part.strip().splitlines()
        if lines and lines[0].endswith(">:"):
            yield lines[0], lines[1:]


def main():
    objdump, *paths = sys.argv[1:]
    counts = [0] * len(TILES)
    spills = []
    for name, body in (f for path in paths for f in functions(objdump, path)):
        for i, (pattern, _, instruction, least, allowed) in enumerate(TILES):
            if pattern.search(name) and sum(instruction in line for line in body) >= least:
                counts[i] += 1
                found = [f"{name}\n  {line.strip()}" for line in body if STACK_VECTOR.search(line)]
                spills += found if len(found) > allowed else []
    for (pattern, wanted, _, _, _), count in zip(TILES, counts):
        if count < wanted:
            sys.exit(f"found {count} functions like {pattern.pattern}, expected at least {wanted}: is the test stale?")
    if spills:
        sys.exit(f"{len(spills)} vectors on the stack, the first:\n" + "\n".join(spills[:3]))


main()
