"""check_language.py TREE: fails on habits that make comments, pages and error texts hard to read.

Looks at comments of C++, Python, JavaScript and CMake files, at paragraphs of Markdown pages, at string literals with
spaces in product code (errors, help), and at names of tests. docs/contributing.md has the rules.
"""
import os
import pathlib
import re
import sys

PROSE = {
    "a clause as the subject": r"(?:^|[.:;] )(?:What|Whoever|Whatever|Who|Whose) (?!if\b|does\b|is this\b)[a-z]",
    "a bare genitive": r"^(?:Of|Of the|Of each|Of all|Of it|Of them)\b(?! course)",
    "'is none' for missing or invalid": r"\b(?:is|are|was|were) none\b|\bthat is no [a-z]+\b(?= is| are| has)",
    "'about' at the end": r", about[.;)]",
    "'so many' for a number": r"\b(?:so|as) many (?:of (?:them|it)|as there are)\b",
    "somebody for a part": r"\b(?:[Ss]omebody|[Ww]hoever|[Ww]homever)\b",
}
TEXTS = {
    "'is none' for missing or invalid": r"\b(?:is|are|was|were) none\b",
    "a person for a part": r"\b(?:somebody|nobody|whoever)\b",
    "a place for a time": r"\bin front of it\b",
}
TEST_NAMES = r"^(?:What|Whoever|Of[A-Z]|WhoEver)"
CODE = {".h", ".cc", ".inc", ".py", ".js", ".cmake"}
SKIP = re.compile(r"(^|/)(golden|corpus|results|pictures|namesakes|hard_words)(/|$)|unicode_tables|case_tables")
STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"')


def files(tree):
    for folder, folders, names in os.walk(tree):
        folders[:] = sorted(name for name in folders if name not in ("build", ".git", "__pycache__"))
        for path in (pathlib.Path(folder, name) for name in sorted(names)):
            if not SKIP.search(str(path.relative_to(tree))):
                yield path


def comments(path, lines):
    mark = "#" if path.suffix in (".py", ".cmake") else "//"
    block, start = [], 0
    for number, line in enumerate([*lines, ""], 1):
        text = line.strip()
        if text.startswith(mark) and not re.match(r"#(!|include|pragma|if|end|define)", text):
            start = start if block else number
            block.append(text[len(mark):].strip(" /"))
            continue
        if block:
            yield start, " ".join(block)
            block = []
        if mark == "//" and " // " in line:
            yield number, line.split(" // ", 1)[1].strip()


def paragraphs(text):
    text = re.sub(r"```.*?```", lambda found: "\n" * found[0].count("\n"), text, flags=re.S)
    for found in re.finditer(r"(?:[^\n]+\n?)+", text):
        paragraph = found[0].strip()
        if not paragraph.startswith(("|", "#", "    ", "<!--")):
            yield text[:found.start()].count("\n") + 1, " ".join(paragraph.split())


def faults(tree):
    own = pathlib.Path(__file__).name
    for path in files(tree):
        if path.name == own or not path.is_file():
            continue
        name, text = path.relative_to(tree), path.read_text(encoding="utf-8", errors="replace")
        prose = []
        if path.suffix in CODE:
            prose = comments(path, text.split("\n"))
        elif path.suffix == ".md":
            prose = paragraphs(text)
        for number, words in prose:
            for habit, pattern in PROSE.items():
                if re.search(pattern, words):
                    yield f"{name}:{number}: {habit}: {words[:100]}"
        if path.suffix not in (".h", ".cc"):
            continue
        if name.parts[0] == "tests":
            for found in re.finditer(r"^TEST(?:_F|_P)?\(\w+,\s*(\w+)\)", text, re.M):
                if re.match(TEST_NAMES, found[1]):
                    yield f"{name}: a clause as the name of a test: {found[1]}"
            continue
        for number, line in enumerate(text.split("\n"), 1):
            for literal in STRING.findall("" if line.lstrip().startswith(("//", "#")) else line.split(" // ")[0]):
                for habit, pattern in TEXTS.items():
                    if " " in literal and re.search(pattern, literal):
                        yield f"{name}:{number}: {habit}: {literal[:100]}"


if __name__ == "__main__":
    found = list(faults(pathlib.Path(sys.argv[1]).resolve()))
    if found:
        sys.exit("\n".join(found) + f"\n{len(found)} places to write in plain words")
