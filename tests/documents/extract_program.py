"""extract_program.py README DIRECTORY: writes the program and the CMakeLists.txt of README to DIRECTORY.

README must have one ```cpp block with the whole program, and one ```cmake block that builds it.
"""
import pathlib
import re
import sys


def block(text, language):
    found = re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)
    if len(found) != 1:
        sys.exit(f"{len(found)} blocks of {language}, wanted one")
    return found[0]


if __name__ == "__main__":
    readme = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    directory = pathlib.Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    for name, language in (("main.cc", "cpp"), ("CMakeLists.txt", "cmake")):
        (directory / name).write_text(block(readme, language), encoding="utf-8")
