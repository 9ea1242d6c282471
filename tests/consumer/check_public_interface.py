"""check_public_interface.py STAGE COMPILER NM: checks the public interface of an installed ibid.

At most 14 headers, in include/ibid, which include only each other and the standard library, and define only macros
with the prefix IBID_. The shared library exports only functions of these headers. The static library defines none of
nlohmann::ordered_json, of which a program may have another version.
"""
import pathlib
import re
import subprocess
import sys

MOST_HEADERS = 14
# The largest header, preprocessed, has at most so many lines of its own and of other standard headers than these, whose
# size depends on the compiler.
STANDARD_HEADERS = "chrono functional map memory optional span stop_token string string_view utility vector".split()
MOST_LINES_ADDED = 2_000
PUBLIC = re.compile(
    r"ibid::((Engine|ChatSession|TurnStream)::|Status::(to_string|misused)|LostPrefix::to_string|"
    r"LoadWarnings::to_string|(error_code|finish_reason)_name\(|lost_cause_text\(|default_max_chunk\()")


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=True, **options).stdout


def main(stage, compiler, nm):
    faults = []
    include = stage / "include"
    headers = sorted(path for path in stage.rglob("*.h*") if path.is_file())
    faults += [f"{path} is installed outside of include/ibid" for path in headers if path.parent != include / "ibid"]
    if len(headers) > MOST_HEADERS:
        faults.append(f"{len(headers)} headers, at most {MOST_HEADERS} are to be read")
    for path in headers:
        for macro in re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", path.read_text(encoding="utf-8"), re.M):
            if not macro.startswith("IBID_"):
                faults.append(f"{path.name} defines {macro}")
        found = run(compiler, "-std=c++20", "-M", "-x", "c++", f"-I{include}", path)
        for name in re.findall(r"[^\s\\]+", found)[1:]:
            if re.search(r"nlohmann|omp\.h|kernels/|xxhash|openssl|cblas", name):
                faults.append(f"{path.name} includes {name}")
    preprocess = [compiler, "-std=c++20", "-E", "-P", "-x", "c++", f"-I{include}"]
    lines = run(*preprocess, include / "ibid/chat_session.h").count("\n")
    standard = "".join(f"#include <{name}>\n" for name in STANDARD_HEADERS)
    added = lines - run(*preprocess, "-", input=standard).count("\n")
    if added > MOST_LINES_ADDED:
        faults.append(f"chat_session.h adds {added} lines to the standard headers, at most {MOST_LINES_ADDED}")

    shared = next(stage.rglob("libibid.so"))
    shown = [line.split(maxsplit=2)[1:] for line in run(nm, "-DC", "--defined-only", shared).splitlines()]
    names = [name.split("@@")[0] for kind, name in shown if kind != "A"]
    faults += [f"{shared.name} shows {name}" for name in names if not PUBLIC.match(name)]
    if len(names) < 50:
        faults.append(f"{shared.name} shows {len(names)} functions only")
    static = run(nm, "-C", "--defined-only", next(stage.rglob("libibid.a")))
    for name in re.findall(r"nlohmann::\w*(?:::)?basic_json<nlohmann::.*", static):
        faults.append(f"libibid.a defines {name[:150]}")
    print(f"{len(headers)} headers, {added} lines added to the standard ones, {len(names)} functions shown")
    return faults


if __name__ == "__main__":
    found = main(pathlib.Path(sys.argv[1]), *sys.argv[2:])
    if found:
        sys.exit("\n".join(found[:40]))
