"""check_examples.py TREE: fails if C++ in a document differs from what the tests compile and run.

Every ```cpp block of DOCUMENTS must be in EXAMPLES between "// BEGIN document" and "// END", except for indentation and
#include lines, which are at the beginning of a file; and every such part of EXAMPLES must be in its document.
"""
import pathlib
import re
import sys
import textwrap

DOCUMENTS = ("docs/sessions.md",)
EXAMPLES = "tests/api/session_examples_test.cc"


def normal(code):
    lines = [line for line in code.split("\n") if not line.startswith("#include")]
    return textwrap.dedent("\n".join(lines)).strip("\n")


def differences(tree):
    examples = (tree / EXAMPLES).read_text(encoding="utf-8")
    tested = re.findall(r"^ *// BEGIN (\S+)\n(.*?)^ *// END$", examples, re.M | re.S)
    for document in DOCUMENTS:
        text = (tree / document).read_text(encoding="utf-8")
        shown = [normal(block) for block in re.findall(r"^```cpp\n(.*?)^```$", text, re.M | re.S)]
        run = [normal(code) for name, code in tested if name == document]
        if not shown:
            yield f"{document}: no example"
        for code in shown:
            if code not in run:
                yield f"{document}: not tested: " + code.split("\n")[0]
        for code in run:
            if code not in shown:
                yield f"{document}: tested and not shown: " + code.split("\n")[0]
    for name, _ in tested:
        if name not in DOCUMENTS:
            yield f"{name}: not among the documents"


if __name__ == "__main__":
    found = list(differences(pathlib.Path(sys.argv[1])))
    if found:
        sys.exit(f"Documents and {EXAMPLES} differ:\n" + "\n".join(found))
