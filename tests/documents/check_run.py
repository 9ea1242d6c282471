"""check_run.py RUN: tests `./run` without a terminal, with fake tools for building and installing.

It prints a time estimate before the build and few lines during it; after a failure, the errors and the path of the log.
Only the program writes to standard output. `./run test` calls ctest with the options of each form and returns its exit
status. Each command installs only the packages that it needs. Each failure ends with one sentence of `./run`.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

STEPS = 210
# $STATE: a folder with the recorded calls of the tools and the simulated state of the system.
TOOLS = {
    "dpkg-query": 'if [ -e "$STATE/bare" ]; then set -- $(cat "$STATE/installed" 2>/dev/null); fi\n'
                  'for package; do echo "installed $package"; done',
    "dpkg": "exit 0",
    "sudo": '[ "$1" = -n ] && shift; exec "$@"',
    "apt-cache": 'test -e "$STATE/lists" || exit 0\nshift\n'
                 'for package; do printf "%s:\\n  Installed: (none)\\n  Candidate: 1.0\\n" "$package"; done',
    "apt-get": r'''echo "$*" >>"$STATE/apt"
case "$*" in
  *update*) if [ -n "$OFFLINE" ]; then echo "W: Failed to fetch"; else touch "$STATE/lists"; fi ;;
  *) test -e "$STATE/lists" || { echo "E: Unable to locate package" >&2; exit 100; }
     test -z "$OFFLINE" || { echo "E: Unable to fetch some archives" >&2; exit 100; }
     echo "$*" >>"$STATE/installed" ;;
esac''',
    "nproc": "echo 2",
    "df": r'''printf 'head\ndisk 1 1 %s 1%% /\n' "${FREE:-1000000}"''',
    "ctest": 'echo "ctest $*"; test -z "$LEAVES" || touch "$TMPDIR/left"; exit ${CTEST_STATUS:-0}',
    "python3": 'echo "summarize ${1##*/}"',
    "cmake": r'''echo cmake says much; echo "$*" >>"$STATE/cmake"
test -z "$FREE" || exit 0
mkdir -p build/release; echo rules >build/release/build.ninja
case "$*" in *TESTS=OFF*) tests=OFF ;; *) tests=ON ;; esac
echo "IBID_TESTS:BOOL=$tests" >build/release/CMakeCache.txt''',
    "ninja": rf'''case "$*" in
  *build.ninja*) exit 0 ;;
  *" -n "*) ;;
  *) echo begin >>"$STATE/ninja"
     if [ -n "$SLOW" ]; then sleep "$SLOW"; fi
     test -z "$FAILS" || {{ echo "[1/{STEPS}] Building a"; echo "FAILED: a.o"; echo "a.cc:1: error: no"
       i=0; while [ $i -lt "$FAILS" ]; do i=$((i + 1)); echo "a.cc:1: note: $i"; done; exit 1; }}
     mkdir -p "$2/apps"
     printf '#!/bin/sh\necho "$@"\nflock -n "$(dirname "$0")/../run.lock" true || echo locked\necho "$IBID_COMMAND" >"$STATE/command"\n' \
       >"$2/apps/ibid"
     chmod +x "$2/apps/ibid"; echo end >>"$STATE/ninja" ;;
esac
i=0; while [ $i -lt {STEPS} ]; do i=$((i + 1)); echo "[$i/{STEPS}] Building $i"; done''',
}


class Clone:
    """A folder that contains only `./run`, on a system with the tools above."""

    def __init__(self, run, directory):
        self.tree, self.state, tools = (pathlib.Path(directory, name) for name in ("a tree", "state", "tools"))
        for folder in (self.tree, self.state, tools):
            folder.mkdir()
        shutil.copy(run, self.tree / "run")
        for name, script in TOOLS.items():
            (tools / name).write_text("#!/bin/sh\n" + script + "\n", encoding="utf-8")
            (tools / name).chmod(0o755)
        self.environment = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": directory, "STATE": str(self.state)}

    def command(self, arguments, more):
        return {"args": [self.tree / "run", *(arguments or ("inspect", "two words"))], "stdin": subprocess.DEVNULL,
                "text": True, "env": self.environment | more}

    def start(self, *arguments, **more):
        return subprocess.run(**self.command(arguments, more), capture_output=True, check=False)

    def begin(self, *arguments, **more):
        return subprocess.Popen(**self.command(arguments, more), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                start_new_session=True)

    def noted(self, name):
        path = self.state / name
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def wait_for(self, name):
        for _ in range(1000):
            if self.noted(name):
                return
            time.sleep(0.01)


def want(condition, what, done):
    if not condition:
        sys.exit(f"{what}\nexit status {done.returncode}\n--- stdout\n{done.stdout}--- stderr\n{done.stderr}")


def last_sentence(done):
    return done.stderr.splitlines()[-1] if done.stderr else ""


def check_build(clone):
    failed = clone.start(FAILS="1")
    log = clone.tree / "build/release/build.log"
    want(failed.returncode == 1 and failed.stdout == "", "a build that fails", failed)
    want("a.cc:1: error: no" in failed.stderr and str(log) in failed.stderr, "shows the error and the log", failed)
    # More output than a pipe buffers.
    long = clone.start(FAILS="10000")
    want(long.returncode == 1 and last_sentence(long) == f"run: the build failed; its whole output is in {log}",
         "a build that fails at length ends on the same sentence", long)
    want(len(long.stderr.splitlines()) < 70, "and shows its beginning", long)
    done = clone.start()
    want(done.returncode == 0 and done.stdout == "inspect --fetch two words\n", "only the program writes to stdout, "
         "and no lock is held while it runs", done)
    said = done.stderr.splitlines()
    want(len(said) < 5 and said[0].startswith(f"run: building release: {STEPS} steps, about 7 minutes on 2 cores"),
         "how long it takes, and little more", done)
    want("GB of memory" in said[0], "and what memory it takes", done)
    want(len(log.read_text(encoding="utf-8").splitlines()) == STEPS, "the log has everything", done)
    want(clone.noted("command") == [str(clone.tree / "run")], "the program knows what it is called by", done)


def check_tests(clone):
    every = clone.start("test")
    want(every.returncode == 0 and "ctest --preset release --parallel 2 --no-tests=error --output-junit " in every.stdout
         and " -C Whole -LE ^single$\n" in every.stdout and every.stdout.endswith("summarize summarize.py\n"),
         "all tests, whole, and a summary", every)
    want("; the tests take about " in every.stderr, "how long the tests take", every)
    fast = clone.start("test", "--fast")
    want(fast.returncode == 0 and " -C Fast -L ^fast$\nsummarize summarize.py\n" in fast.stdout, "the fast tests", fast)
    cluster = clone.start("test", "--cluster")
    want(cluster.returncode == 0 and " -C Cluster -L ^cluster$ -E ^cluster.sample$\nsummarize summarize.py\n" in cluster.stdout,
         "the tests of several servers", cluster)
    single = clone.start("test", "--preset", "release", "-R", "a test")
    want(single.returncode == 0 and single.stdout.endswith("ctest --preset release --parallel 2 -R a test\n"),
         "single tests", single)
    for arguments in (["test"], ["test", "--fast"], ["test", "-R", "x"]):
        failing = clone.start(*arguments, CTEST_STATUS="8")
        want(failing.returncode == 8, f"{arguments}: the exit status of ctest", failing)
    left = clone.start("test", LEAVES="1")
    want(left.returncode == 1 and "the tests left files in TMPDIR: left" in left.stderr, "files that tests leave", left)
    usage = clone.start("help")
    want("test --fast" in usage.stdout, "--help knows the fast tests", usage)


def check_two_at_once(clone):
    both = [clone.begin(SLOW="0.5") for _ in range(2)]
    said = [process.communicate() for process in both]
    for process, (out, err) in zip(both, said):
        done = subprocess.CompletedProcess([], process.returncode, out, err)
        want(done.returncode == 0 and out.startswith("inspect --fetch two words\n"), "each of two answers", done)
    want(clone.noted("ninja") == ["begin", "end"] * 2, f"one builds after the other: {clone.noted('ninja')}", done)
    want(sum("another ./run builds release: waiting" in err for _, err in said) == 1, "the second says so", done)


def check_interrupt(clone):
    process = clone.begin(SLOW="60")
    clone.wait_for("ninja")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    want(process.returncode == 130, "Ctrl-C in a build", subprocess.CompletedProcess([], process.returncode, out, err))


def check_packages(clone):
    (clone.state / "bare").touch()
    done = clone.start("--yes", "chat")
    calls = clone.noted("apt")
    want(done.returncode == 0 and len(calls) == 2 and "update" in calls[0] and "install" in calls[1],
         "a fresh system gets its package lists first", done)
    want("Unable to locate" not in done.stderr, "and no errors", done)
    want(" g++ " in calls[1] and "gtest" not in calls[1], "chat needs no packages of the tests", done)
    want("-DIBID_TESTS=OFF" in clone.noted("cmake")[-1], "nor is it configured for them", done)
    done = clone.start("--yes", "test")
    want(done.returncode == 0 and len(clone.noted("apt")) == 3 and "gtest" in clone.noted("apt")[-1] and
         " g++ " not in clone.noted("apt")[-1], "the tests install what they need besides", done)
    want("-UIBID_TESTS -UIBID_BENCH" in clone.noted("cmake")[-1], "and are configured then", done)
    want(clone.start("chat").returncode == 0 and len(clone.noted("cmake")) == 2, "chat keeps that", done)


def check_offline(clone):
    (clone.state / "bare").touch()
    for lists in (False, True):
        if lists:
            (clone.state / "lists").touch()
        done = clone.start("--yes", "chat", OFFLINE="1")
        want(done.returncode == 1 and last_sentence(done).startswith("run: apt-get ") and "network" in last_sentence(done),
             "without a network one sentence comes last", done)


def check_refusals(clone):
    (clone.state / "bare").touch()
    targets = clone.tree / "tests/fuzz/CMakeLists.txt"
    targets.parent.mkdir(parents=True)
    targets.write_text("ibid_fuzz_target(json weights)\n", encoding="utf-8")
    done = clone.start("--yes", "fuzz", "jsn")
    want(done.returncode == 1 and "unknown target jsn; the targets are: json" in done.stderr, "an unknown target", done)
    done = clone.start("--yes", "chat", HOME="")
    want(done.returncode == 1 and "directory for models: HOME is not set" in done.stderr, "no HOME", done)
    done = clone.start("tidy", "--since", "nonsense")
    want(done.returncode == 1 and last_sentence(done) == "run: unknown commit nonsense", "an unknown commit", done)
    (clone.tree / "build").touch()
    done = clone.start("--yes", "chat")
    want(done.returncode == 1 and f"cannot write to {clone.tree}/build" in last_sentence(done), "a read-only clone", done)
    want(not clone.noted("apt"), "nothing is installed before a refusal", done)


def check_full_disk(clone):
    done = clone.start(FREE="100")
    want(done.returncode == 1 and "cmake could not configure the build; the disk is full: 100 kB are free" in done.stderr,
         "a full disk, of which cmake says nothing", done)


def main(run):
    for check in (check_build, check_tests, check_two_at_once, check_interrupt, check_packages, check_offline,
                  check_refusals, check_full_disk):
        with tempfile.TemporaryDirectory() as directory:
            check(Clone(run, directory))


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
