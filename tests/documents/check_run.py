"""check_run.py RUN: what `./run` says in a pipe, with tools that only pretend to build.

How long it will take comes before the build, few lines come from it, and when it fails the errors do, with the place of
the rest. What the program prints is the only thing on standard output. `./run test` gives ctest what each of its forms
stands for, and its exit status is that of ctest.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

STEPS = 210
TOOLS = {
    "dpkg-query": 'for package; do echo "installed $package"; done',
    "nproc": "echo 2",
    "ctest": 'echo "ctest $*"; exit ${CTEST_STATUS:-0}',
    "python3": 'echo "summarize ${1##*/}"',
    "cmake": 'echo cmake says much; mkdir -p build/release; touch build/release/build.ninja',
    "ninja": f'''case "$*" in
  *build.ninja*) exit 0 ;;
  *" -n "*) ;;
  *) test -z "$FAILS" || {{ echo "[1/{STEPS}] Building a"; echo "FAILED: a.o"; echo "a.cc:1: error: no"; exit 1; }}
     mkdir -p "$2/apps"; printf '#!/bin/sh\\necho "$@"\\n' >"$2/apps/ibid"; chmod +x "$2/apps/ibid" ;;
esac
i=0; while [ $i -lt {STEPS} ]; do i=$((i + 1)); echo "[$i/{STEPS}] Building $i"; done''',
}


def main(run):
    with tempfile.TemporaryDirectory() as directory:
        tree, tools = pathlib.Path(directory, "a tree"), pathlib.Path(directory, "tools")
        tree.mkdir()
        tools.mkdir()
        shutil.copy(run, tree / "run")
        for name, script in TOOLS.items():
            (tools / name).write_text("#!/bin/sh\n" + script + "\n", encoding="utf-8")
            (tools / name).chmod(0o755)
        environment = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": directory}

        def start(*arguments, **more):
            return subprocess.run([tree / "run", *(arguments or ("inspect", "two words"))], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, env=environment | more, check=False)

        def want(condition, what, done):
            if not condition:
                sys.exit(f"{what}\nexit status {done.returncode}\n--- stdout\n{done.stdout}--- stderr\n{done.stderr}")

        failed = start(FAILS="1")
        log = tree / "build/release/build.log"
        want(failed.returncode == 1 and failed.stdout == "", "a build that fails", failed)
        want("a.cc:1: error: no" in failed.stderr and str(log) in failed.stderr, "shows the error and the log", failed)
        done = start()
        want(done.returncode == 0 and done.stdout == "inspect two words\n", "only the program writes to stdout", done)
        said = done.stderr.splitlines()
        want(len(said) < 5 and said[0].startswith(f"run: building release: {STEPS} steps, about 7 minutes on 2 cores"),
             "how long it takes, and little more", done)
        want(log.read_text(encoding="utf-8").count("\n") == STEPS, "the log has everything", done)

        every = start("test")
        want(every.returncode == 0 and "ctest --preset release --parallel 2 --no-tests=error -C Whole -LE ^single$\n" in
             every.stdout and every.stdout.endswith("summarize summarize.py\n"), "all tests, whole, and a summary", every)
        fast = start("test", "--fast")
        want(fast.returncode == 0 and " -C Fast -L ^fast$\nsummarize summarize.py\n" in fast.stdout, "the fast tests", fast)
        single = start("test", "--preset", "dev", "-R", "a test")
        want(single.returncode == 0 and single.stdout.endswith("ctest --preset dev --parallel 2 -R a test\n"),
             "single tests", single)
        for arguments in (["test"], ["test", "--fast"], ["test", "-R", "x"]):
            failing = start(*arguments, CTEST_STATUS="8")
            want(failing.returncode == 8, f"{arguments}: the exit status of ctest", failing)
        usage = start("help")
        want("test --fast" in usage.stdout, "--help knows the fast tests", usage)


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
