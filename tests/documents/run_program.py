"""run_program.py PROGRAM README_PROGRAM: runs the programs of docs/program.md and README.md without model.gguf and with it.

Without it: one sentence on standard error and exit status 1. With the default model: answers, and the numbers that
the page promises. Without the default model the second part is skipped; on CI it fails.
"""
import os
import pathlib
import subprocess
import sys
import tempfile


def run(program, directory):
    return subprocess.run([program], cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def default_model():
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(os.environ.get("HOME", "/nowhere"), ".local/share")
    folder = os.environ.get("IBID_MODELS") or os.path.join(data, "ibid/models")
    return pathlib.Path(folder) / "SmolLM2-135M-Instruct.Q4_1.gguf"


def want(condition, what, done):
    if not condition:
        sys.exit(f"{what}\nexit status {done.returncode}\n{done.stdout}\n{done.stderr}")


def main(program, readme):
    with tempfile.TemporaryDirectory() as directory:
        for each in (program, readme):
            done = run(each, directory)
            want(done.returncode == 1 and done.stdout == "", "without the model: expected exit status 1, no output", done)
            want(done.stderr.startswith("model.gguf: ") and done.stderr.count("\n") == 1, "expected one sentence", done)
        model = default_model()
        if not model.is_file():
            sys.exit("the default model is missing" if os.environ.get("CI") == "true" else None)
        os.symlink(model, os.path.join(directory, "model.gguf"))
        done = run(readme, directory)
        want(done.returncode == 0 and done.stderr == "", "with the model: expected exit status 0", done)
        want(done.stdout.count("\n") >= 2, "expected two answers", done)
        done = run(program, directory)
        want(done.returncode == 0 and done.stderr == "", "with the model: expected exit status 0", done)
        lines = done.stdout.rstrip("\n").split("\n")
        want(len(done.stdout) > 60 and lines[-2].endswith(" tokens cached, 0 read"), "the last answer prefills nothing",
             done)
        want(lines[-1] == "5 messages there, 3 here", "expected both conversations", done)


if __name__ == "__main__":
    main(*map(os.path.abspath, sys.argv[1:]))
