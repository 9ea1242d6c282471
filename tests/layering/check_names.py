#!/usr/bin/env python3
"""Fails if two classes, or two inline constants, have the same name in one namespace.

  check_names.py TREE

The linker silently keeps one of two inline functions of the same name, so a class would run the code of the other, or
read its value. Checks only headers, except those of tests.
"""
import collections
import pathlib
import re
import sys

# Headers of which a file includes only one: those of instruction sets.
ALLOWED = {("kernels/simd/vec_avx2.h", "kernels/simd/vec_avx512.h")}


def classes(path):
    text = path.read_text(encoding="utf-8")
    parts = re.findall(r"^namespace ([\w:]+) \{|^}  // namespace ([\w:]+)$|"
                       r"^(?:class|struct) (?:IBID_EXPORT )?(\w+)(?: final)?\s*(?::[^:;{][^;{]*)?\{|"
                       r"^inline constexpr [^=;({]+? (\w+)(?:\[\w*\])*(?: =|\{)", text, re.M)
    inside = []
    for opened, closed, name, constant in parts:
        if opened:
            inside.append(opened)
        elif closed:
            inside = inside[:-1]
        else:
            yield "::".join(inside), name or constant


def main():
    root = pathlib.Path(sys.argv[1])
    homes = collections.defaultdict(set)
    for path in sorted(root.glob("*/**/*.h")):
        where = path.relative_to(root)
        if where.parts[0] not in ("tests", "build"):
            for name in classes(path):
                homes[name].add(str(where))
    twice = {name: sorted(files) for name, files in homes.items()
             if len(files) > 1 and tuple(sorted(files)) not in ALLOWED}
    for (namespace, name), files in sorted(twice.items()):
        print(f"{namespace}::{name} is in {' and in '.join(files)}: give one of them another name")
    return 1 if twice else 0


if __name__ == "__main__":
    sys.exit(main())
