"""extract_program.py PAGE README DIRECTORY: writes the programs of two documents and a CMakeLists.txt to DIRECTORY.

PAGE has one ```cpp block, main.cc, and one ```cmake block, the CMakeLists.txt, which builds it as `app`. README has one
```cpp block, readme.cc, which the CMakeLists.txt builds as `readme`.
"""
import pathlib
import re
import sys


def block(path, language):
    found = re.findall(rf"^```{language}\n(.*?)^```$", pathlib.Path(path).read_text(encoding="utf-8"), re.M | re.S)
    if len(found) != 1:
        sys.exit(f"{path}: {len(found)} blocks of {language}, expected one")
    return found[0]


def main(page, readme, directory):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "main.cc").write_text(block(page, "cpp"), encoding="utf-8")
    (directory / "readme.cc").write_text(block(readme, "cpp"), encoding="utf-8")
    cmake = block(page, "cmake") + "add_executable(readme readme.cc)\ntarget_link_libraries(readme ibid::ibid)\n"
    (directory / "CMakeLists.txt").write_text(cmake, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]))
