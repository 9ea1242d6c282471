"""check_documents.py TREE IBID: fails if README.md or docs/ refer to something that does not exist.

- Links lead to existing files and headings.
- Paths in backticks are files or folders; `*` matches a part of a name.
- Code lines, and code in backticks, that begin with `./run` or `ibid` use existing commands and options, according to
  the program's `--help`. In README.md, separate options (`--kv int8`) are checked as well.
- Chat commands (`/edit`) exist in the sources of the chat.
- `./run` accepts every command that the program's help lists.
"""
import functools
import pathlib
import re
import subprocess
import sys

FOLDERS = ("include|base|net|weights|kernels|tokenizer|templates|grammar|sampling|cache|model|runtime|server|apps|tests|"
           "bench|docs|cmake|deploy")
PATH = re.compile(rf"(?:{FOLDERS})/[\w./*-]*")
LINK = re.compile(r"\]\(([^)\s]+)\)")
SPAN = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
COMMAND = re.compile(r"^(\./run|(?:build/release/apps/)?ibid)(?: (?:\[--\w+\] )?([a-z][\w-]*)\b(.*))?$")
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]*|-[a-zA-Z]\b)")
OWN_COMMANDS_OF_RUN = {"build", "test", "format", "tidy", "gate", "fuzz", "help", "packages"}


def help_of(ibid):
    """Returns the help of a command, or None if it does not exist."""
    @functools.cache
    def ask(*command):
        done = subprocess.run([ibid, *command, "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
        return done.stdout if done.returncode == 0 else None
    return ask


def options_in(help_text):
    return set(OPTION.findall(help_text))


def slug(heading):
    text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def headings(text):
    return {slug(line) for line in re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.M)}


def broken_links(tree, document, text):
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (document.parent / name) if name else document
        if not path.exists():
            yield f"the link {target} leads nowhere"
        elif anchor and anchor not in headings(path.read_text(encoding="utf-8")):
            yield f"the link {target} leads to no heading"


def missing_paths(tree, text):
    for span in SPAN.findall(FENCE.sub("", text)):
        for path in PATH.findall(span):
            path = path.rstrip("./")
            if PATH.fullmatch(span.rstrip("./")) and not any(tree.glob(path)) and not any(tree.glob(path + ".*")):
                yield f"{path} is not in the tree"


def shell_lines(text):
    """Yields the lines of code blocks, and code in backticks."""
    for language, block in FENCE.findall(text):
        if language in ("", "sh", "console"):
            yield from block.split("\n")
    outside = FENCE.sub("", text)
    yield from re.findall(r"^ {4}(.*)$", outside, re.M)
    yield from SPAN.findall(outside)


def commands_in(line):
    """Yields (program, command, arguments) for each part of a pipe, without quoted text, prompts and comments."""
    line = re.sub(r"'[^']*'|\"[^\"]*\"", "TEXT", line)
    line = re.sub(r"\s#.*", "", line).strip()
    for part in re.split(r"\s*(?:\||&&|;|>|<)\s*", line.removeprefix("$ ")):
        found = COMMAND.match(part)
        if found:
            yield found[1], found[2], found[3] or ""


def unknown_commands(run_commands, ask, text):
    for line in shell_lines(text):
        for program, command, arguments in commands_in(line):
            if command is None:
                continue
            name = f"{program} {command}"
            if program == "./run" and command not in run_commands:
                yield f"{name}: there is no such command"
                continue
            if program == "./run" and command in OWN_COMMANDS_OF_RUN:
                continue
            if ask(command) is None:
                yield f"{name}: there is no such command"
                continue
            known = options_in(ask(command))
            first = re.match(r" ([a-z]+)\b", arguments)  # a nested command: `ibid sessions export`
            if first:
                known |= options_in(ask(command, first[1]) or "")
            for option in OPTION.findall(arguments):
                if option not in known:
                    yield f"{name}: there is no option {option}"


def unknown_options(run_text, commands, ask, text):
    known = options_in(run_text).union(*(options_in(ask(command) or "") for command in commands))
    for span in SPAN.findall(FENCE.sub("", text)):
        option = OPTION.match(span)
        if option and option[0] not in known:
            yield f"no command has the option {option[0]}"


def unknown_chat_commands(terminal, text):
    for span in SPAN.findall(FENCE.sub("", text)):
        found = re.fullmatch(r"/([a-z][a-z-]*)( .*)?", span)
        if found and not re.search(rf'"/?{found[1]}[ "]', terminal):
            yield f"/{found[1]} is no command of a conversation"


def commands_of_run(run_text):
    labels = re.search(r"^case \$command in\n(.*?)^esac", run_text, re.M | re.S)[1]
    return {word for line in re.findall(r"^  ([\w |-]+)\)$", labels, re.M) for word in line.split(" | ")}


def untruths(tree, ibid):
    ask = help_of(ibid)
    run_text = (tree / "run").read_text(encoding="utf-8")
    run_commands = commands_of_run(run_text)
    sources = {path: path.read_text(encoding="utf-8") for path in sorted((tree / "apps").rglob("*.cc"))}
    commands = {name for source in sources.values() for name in re.findall(r'root\.add_subcommand\(\s*"([\w-]+)"', source)}
    terminal = "".join(source for path, source in sources.items() if path.parent.name == "chat")
    listed = subprocess.run([ibid, "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stdout
    for command in sorted(commands - run_commands):
        if not re.search(rf"^ +{command}\b", listed, re.M):
            continue  # hidden command, used by the build
        yield f"run: does not know the command {command}"
    for document in [tree / "README.md", *sorted((tree / "docs").rglob("*.md"))]:
        text = document.read_text(encoding="utf-8")
        found = [*broken_links(tree, document, text), *missing_paths(tree, text),
                 *unknown_commands(run_commands, ask, text), *unknown_chat_commands(terminal, text)]
        if document.name == "README.md":
            found += unknown_options(run_text, commands, ask, text)
        for what in found:
            yield f"{document.relative_to(tree)}: {what}"


if __name__ == "__main__":
    lies = list(untruths(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]))
    if lies:
        sys.exit("Documents name what is not there:\n" + "\n".join(lies))
