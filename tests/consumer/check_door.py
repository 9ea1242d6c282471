"""check_door.py STAGE COMPILER NM: checks the public interface of an installed ibid.

At most a dozen headers, in include/ibid, which include only each other and the standard library, and define only macros
with the prefix IBID_. The shared library exports only functions of these headers. The static library defines none of
nlohmann::ordered_json, of which a program may have another version.
"""
import pathlib
import re
import subprocess
import sys

MOST_HEADERS = 12
MOST_LINES = 100_000  # of the largest header, preprocessed; the standard library has 83,000 of these
PUBLIC = re.compile(
    r"ibid::(api::(Engine|ChatSession|TurnStream|Bell)::|Status::(to_string|misused)|LostPrefix::to_string|"
    r"SessionLosses::to_string|(error_code|finish_reason)_name\(|lost_cause_text\(|default_max_chunk\()")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


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
    lines = run(compiler, "-std=c++20", "-E", "-x", "c++", f"-I{include}", include / "ibid/chat_session.h").count("\n")
    if lines > MOST_LINES:
        faults.append(f"chat_session.h is {lines} lines with all that it includes, at most {MOST_LINES} were meant")

    shared = next(stage.rglob("libibid.so"))
    shown = [line.split(maxsplit=2)[1:] for line in run(nm, "-DC", "--defined-only", shared).splitlines()]
    names = [name.split("@@")[0] for kind, name in shown if kind != "A"]
    faults += [f"{shared.name} shows {name}" for name in names if not PUBLIC.match(name)]
    if len(names) < 50:
        faults.append(f"{shared.name} shows {len(names)} functions only")
    static = run(nm, "-C", "--defined-only", next(stage.rglob("libibid.a")))
    for name in re.findall(r"nlohmann::\w*(?:::)?basic_json<nlohmann::.*", static):
        faults.append(f"libibid.a defines {name[:150]}")
    print(f"{len(headers)} headers, {lines} lines preprocessed, {len(names)} functions shown")
    return faults


if __name__ == "__main__":
    found = main(pathlib.Path(sys.argv[1]), *sys.argv[2:])
    if found:
        sys.exit("\n".join(found[:40]))
