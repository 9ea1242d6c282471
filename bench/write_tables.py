#!/usr/bin/env python3
"""Writes the tables of README.md, docs/benchmarks.md and docs/simulation.md from the rows in bench/results.

  write_tables.py [TREE]           writes them
  write_tables.py [TREE] --check   writes nothing; prints what differs and fails

tables.py defines which rows go into which cell; results/README.md describes the rows. A table is between
`<!-- table NAME -->` and `<!-- end -->`; the text between them is replaced.

The prose is checked against the rows, too: every number with a unit, and in sections with tables every number with a
decimal point (except between backticks, in code or in links), must be in a table of its section or in a row whose
`place` is this section; and every such row must be in the text.

Standard library only.
"""
import csv
import fnmatch
import math
import pathlib
import re
import sys

import tables

COLUMNS = ("date", "commit", "machine", "engine", "model", "threads", "kv", "setting", "what", "at", "value", "unit",
           "q1", "q3", "peak_percent", "rounds", "place", "command")
REQUIRED = ("date", "commit", "machine", "engine", "what", "value", "unit", "command")
NUMBERS = ("value", "q1", "q3", "peak_percent", "rounds")
DISPLAY_KEYS = ("show", "digits", "decimals", "pick")  # how a reference shows its row; other names select the row
LESS_IS_BETTER = {"ms", "s", "us", "MB", "kB"}
PAGES = ("README.md", "docs/benchmarks.md", "docs/simulation.md")

MARKED = re.compile(r"(<!-- table (\S+) -->\n)(.*?)(<!-- end -->)", re.S)
REFERENCE = re.compile(r"\{([^{}]*)\}")
NUMBER = r"\d[\d,]*(?:\.\d+)?"
UNIT = r"(?:%|per cent|tokens/s|GB/s|MB/s|GFLOP/s|GOP/s|GFLOP|times|nat|MiB|MB|kB|minutes|ms|us|s)(?![\w/])"
WITH_UNIT = re.compile(rf"(?<![\w.,])((?:{NUMBER}(?: to | and | or | / |, ))*{NUMBER}) ?{UNIT}")
WITH_POINT = re.compile(r"(?<![\w.,])\d[\d,]*\.\d+(?![\w.])")


class Untrue(Exception):
    """An inconsistent row, description or page; the message names it."""


def read_rows(folder):
    rows = []
    for path in sorted(folder.glob("*.csv")):
        with open(path, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, restkey="more", restval=None)
            unknown = set(reader.fieldnames or ()) - set(COLUMNS)
            if unknown or not set(REQUIRED) <= set(reader.fieldnames or ()):
                raise Untrue(f"{path.name}: the header is not that of a results file: {reader.fieldnames}")
            for read in reader:
                where = f"{path.name}:{reader.line_num}"
                if "more" in read or None in read.values():
                    raise Untrue(f"{where}: not as many fields as the header has")
                row = dict.fromkeys(COLUMNS, "") | read
                row |= {"file": path.stem, "where": where, "shown": False}
                check_row(row)
                rows.append(row)
    return rows


def check_row(row):
    for name in REQUIRED:
        if not row[name]:
            raise Untrue(f"{row['where']}: no {name}")
    for name in NUMBERS:
        try:
            if row[name] and not math.isfinite(float(row[name])):
                raise ValueError
        except ValueError:
            raise Untrue(f"{row['where']}: {name} is no number: {row[name]}") from None
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", row["date"]):
        raise Untrue(f"{row['where']}: no date: {row['date']}")


def parse_conditions(text):
    """`what=decode; at=0` as a dict."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, equals, value = part.partition("=")
        if not equals:
            raise Untrue(f"tables.py: no condition: {part}")
        found[name.strip()] = value.strip()
    return found


def fits(text, pattern):
    return text == pattern or "*" in pattern and fnmatch.fnmatchcase(text, pattern)


def matching(files, conditions):
    """The rows that fulfil the conditions; `files` has those of each results file."""
    unknown = set(conditions) - {*COLUMNS, "file", *DISPLAY_KEYS}
    if unknown:
        raise Untrue(f"tables.py: unknown in {conditions}: {unknown}")
    tests = {"place": ""} | {name: value for name, value in conditions.items() if name not in DISPLAY_KEYS}
    named = [rows for name, rows in files.items() if fits(name, tests.get("file", "*"))]
    return [row for rows in named for row in rows if all(fits(row[name], value) for name, value in tests.items())]


def newest(rows):
    """The row with the latest date, and the last of its file with that date, which replaces earlier ones."""
    for row in rows:
        row["shown"] = True
    latest = max(row["date"] for row in rows)
    return [row for row in rows if row["date"] == latest][-1]


def is_less_better(row):
    return row["unit"] in LESS_IS_BETTER


def best_of_settings(rows):
    """The best setting of the engine at the latest date; the newest row of each setting counts."""
    latest = max(row["date"] for row in rows)
    by_setting = {}
    for row in rows:
        row["shown"] = True
        if row["date"] == latest:
            by_setting[row["setting"]] = row
    return (min if is_less_better(rows[0]) else max)(by_setting.values(), key=lambda row: float(row["value"]))


def with_commas(text, digits=None):
    """1380 as 1,380; with `digits`, rounded to that many significant digits."""
    if digits and float(text):
        decimals = int(digits) - 1 - math.floor(math.log10(abs(float(text))))
        text = f"{round(float(text), decimals):.{max(0, decimals)}f}"
    whole, point, part = text.partition(".")
    return f"{int(whole):,}{point}{part}" if re.fullmatch(r"-?\d+", whole) else text


def show_ratio(ratio, decimals, losses_bold):
    """Two decimals for ratios below 1.1, one below 100, else none."""
    if not decimals:
        decimals = 2 if ratio < 1.095 else 1 if ratio < 99.95 else 0
    text = f"{ratio:,.{int(decimals)}f}"
    return f"**{text}**" if losses_bold and float(text.replace(",", "")) < 1 else text


class Table:
    def __init__(self, name, description, files):
        self.name, self.files = name, files
        self.columns, self.lines = description["columns"], description["lines"]
        self.where = parse_conditions(description.get("where", ""))
        self.losses_bold = description.get("losses_bold", False)
        self.best_bold = description.get("best_bold", False)
        self.empty = description.get("empty", "")  # text that replaces a table without lines
        self.missing = description.get("missing", "")  # text of a cell without a row

    def find(self, conditions):
        found = matching(self.files, conditions)
        if not found:
            return None
        return best_of_settings(found) if conditions.get("pick") == "best" else newest(found)

    def reference(self, text, of_line):
        """The text of one {...}, or None when there is no row for it."""
        first, colon, second = text.partition(" : ")
        conditions = self.where | of_line | parse_conditions(first)
        row = self.find(conditions)
        if not colon:
            shown = row and row[conditions.get("show", "value")]
            return with_commas(shown, conditions.get("digits")) if shown else None
        other = self.find(self.where | of_line | parse_conditions(second + "; pick=best"))
        if row is None or other is None:
            return None
        for name in ("date", "machine", "unit"):
            if row[name] != other[name]:
                raise Untrue(f"{self.name}: a ratio of {row['where']} and {other['where']}, whose {name} differs")
        ours, theirs = float(row["value"]), float(other["value"])
        ratio = theirs / ours if is_less_better(row) else ours / theirs
        return show_ratio(ratio, conditions.get("decimals"), self.losses_bold)

    def cell(self, template, of_line):
        """Parts between ', ' and ' / ' without a row are left out."""
        text = ""
        for part in re.split(r"(?=, (?=[^{}]*\{)| / (?=[^{}]*\{))", template):
            shown = [self.reference(reference, of_line) for reference in REFERENCE.findall(part)]
            if None in shown:
                continue
            values = iter(shown)
            part = REFERENCE.sub(lambda _: next(values), part)
            text += part if text else re.sub(r"^(?:, | / )", "", part)
        return text

    def body(self):
        for label, conditions, *own in self.lines:
            of_line = parse_conditions(conditions)
            templates = list((self.columns | (own[0] if own else {})).values())[1:]
            cells = [self.cell(template, of_line) for template in templates]
            if any(cell and "{" in template for cell, template in zip(cells, templates)):
                cells = self.bold_best(cells, of_line) if self.best_bold else cells
                yield [label, *(cell or self.missing for cell in cells)]

    def bold_best(self, cells, of_line):
        """Marks the best number of a line. The first number of a cell belongs to its engine."""
        values = {}
        for i, cell in enumerate(cells):
            number = re.search(NUMBER, cell)
            if number:
                values[i] = float(number[0].replace(",", ""))
        if len(values) < 2:
            return cells
        less = is_less_better(matching(self.files, self.where | of_line)[0])
        best = (min if less else max)(values.values())
        return [f"**{cell}**" if values.get(i) == best else cell for i, cell in enumerate(cells)]

    def text(self):
        lines = list(self.body())
        if not lines:
            return self.empty + "\n"
        headings = [heading.partition(" #")[0] for heading in self.columns]
        rows = ["|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in (headings, *lines)]
        return "\n".join([rows[0], "|" + "---|" * len(headings), *rows[1:]]) + "\n"


def write_page(page, name, files):
    """The page with its tables written anew."""
    def replace(found):
        if found[2] not in tables.TABLES:
            raise Untrue(f"{name}: tables.py does not describe the table {found[2]}")
        return found[1] + Table(found[2], tables.TABLES[found[2]], files).text() + found[4]
    if page.count("<!-- table ") != len(MARKED.findall(page)):
        raise Untrue(f"{name}: a table without an end")
    return MARKED.sub(replace, page)


def slug(heading):
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def sections(page):
    """(slug of the heading, text) of each part of a page."""
    place, lines = "", []
    for line in re.sub(r"^```.*?^```$", "", page, flags=re.M | re.S).splitlines():
        heading = re.match(r"#+ (.*)", line)
        if heading:
            yield place, "\n".join(lines)
            place, lines = slug(heading[1]), []
        else:
            lines.append(line)
    yield place, "\n".join(lines)


def prose(text):
    """The text without tables, code, link targets and text between backticks; on one line."""
    text = MARKED.sub("", text)
    text = re.sub(r"^ {4}.*$", "", text, flags=re.M)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"`[^`]*`", "", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r"\s+", " ", text.replace("**", "").replace("+", ""))


def measures(text, with_point):
    """The numbers of a text that are measurements: those with a unit or, if `with_point`, a decimal point."""
    for found in WITH_UNIT.finditer(text):
        yield from (number.rstrip(",") for number in re.findall(NUMBER, found[1]))
    if with_point:
        yield from WITH_POINT.findall(text)


def untruths_of_prose(page, name, rows):
    for heading, text in sections(page):
        place = f"{pathlib.PurePath(name).stem}#{heading}"
        here = [row for row in rows if row["place"] == place]
        in_tables = "".join(table for _, _, table, _ in MARKED.findall(text))
        known = {number.rstrip(",") for number in re.findall(NUMBER, in_tables)}
        known |= {with_commas(row["value"]) for row in here} | set(tables.GOALS.get(place, ()))
        said = prose(text)
        for number in dict.fromkeys(measures(said, with_point=bool(in_tables))):
            if number not in known:
                yield f"{name}, {heading}: {number} is in no table there, and in no row whose place is {place}"
        numbers = {number.rstrip(",") for number in re.findall(NUMBER, said)}
        for row in here:
            row["shown"] = True
            if with_commas(row["value"]) not in numbers:
                yield f"{row['where']}: {with_commas(row['value'])} is not in {name}, {heading}"


def difference(name, old, new):
    for number, (was, is_now) in enumerate(zip(old.splitlines(), new.splitlines()), 1):
        if was != is_now:
            return f"{name}:{number}: differs from the rows\n  page: {was}\n  rows: {is_now}"
    return f"{name}: has more lines or fewer than the rows give"


def main(arguments):
    check = "--check" in arguments
    trees = [argument for argument in arguments if argument != "--check"]
    tree = pathlib.Path(trees[0] if trees else pathlib.Path(__file__).resolve().parent.parent)
    rows = read_rows(tree / "bench/results")
    files = {}
    for row in rows:
        files.setdefault(row["file"], []).append(row)
    wrong = []
    for name in PAGES:
        old = (tree / name).read_text(encoding="utf-8")
        new = write_page(old, name, files)
        if old != new and check:
            wrong.append(difference(name, old, new))
        elif old != new:
            (tree / name).write_text(new, encoding="utf-8")
        wrong += untruths_of_prose(new, name, rows)
    places = {row["place"] for row in rows} - {""}
    known = {f"{pathlib.PurePath(name).stem}#{heading}" for name in PAGES
             for heading, _ in sections((tree / name).read_text(encoding="utf-8"))}
    wrong += [f"bench/results: unknown place {place}" for place in sorted(places - known)]
    return wrong


if __name__ == "__main__":
    try:
        found = main(sys.argv[1:])
    except Untrue as error:
        found = [str(error)]
    if found:
        sys.exit("\n".join(found))
