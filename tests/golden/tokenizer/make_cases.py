#!/usr/bin/env python3
"""Writes <family>.json (a small tokenizer.json) and <family>.jsonl (texts and their tokens) for every family of
pre-tokenizer and for those whose tokens are written as text, with Hugging Face `tokenizers` as the reference.

  pip install tokenizers==0.22.2
  make_cases.py            # writes beside itself; deterministic

The vocabularies are trained on TRAINING below, the texts are made from a fixed seed.
"""

import base64
import json
import os
import random

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
TRAINING = """The quick brown fox doesn't jump over the lazy dog's back,
and we'll see that they've gone. I'm here; you're there.
HTTPServer camelCase iPhone 12345 67890 2024-01-31 3.14159 x == y && z != 0; // a comment
    if (value > 10) { return "yes"; } else { return 'no'; }


Der Fluß fließt über große Steine. Où est passé l'été ? Привет МИР, как дела?
\u4f60\u597d\uff0c\u4e16\u754c\u3002 \u3053\u3093\u306b\u3061\u306f \uc548\ub155\ud558\uc138\uc694
the the the hello hello hello world world and and and in in in er er er 100 100 200 200    \t\t\n\n\n\n
"""
CI = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
PRE = "[^\\r\\n\\p{L}\\p{N}]?"
UP, LOW = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]", "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
WS = "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
LLAMA3 = f"{CI}|{PRE}\\p{{L}}+|\\p{{N}}{{1,3}}| ?[^\\s\\p{{L}}\\p{{N}}]+[\\r\\n]*|{WS}"
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = f"{CI}|{PRE}[\\p{{L}}\\p{{M}}]+|\\p{{N}}| ?[^\\s\\p{{L}}\\p{{M}}\\p{{N}}]+[\\r\\n]*|{WS}"
O200K = (
    f"{PRE}{UP}*{LOW}+{CI}?|{PRE}{UP}+{LOW}*{CI}?|\\p{{N}}{{1,3}}| ?[^\\s\\p{{L}}\\p{{N}}]+[\\r\\n/]*|{WS}"
)
TEKKEN = f"{PRE}{UP}*{LOW}+|{PRE}{UP}+{LOW}*|\\p{{N}}| ?[^\\s\\p{{L}}\\p{{N}}]+[\\r\\n/]*|{WS}"
DEEPSEEK = [
    "\\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
]


def byte_level(use_regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def splits(*patterns):
    parts = [
        {"type": "Split", "pattern": {"Regex": p}, "behavior": "Isolated", "invert": False} for p in patterns
    ]
    return {"type": "Sequence", "pretokenizers": parts + [byte_level(False)]}


SMOLLM = {
    "type": "Sequence",
    "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level(True)],
}
# family: pre_tokenizer, NFC, ignore_merges, BOS and EOS, merges as pairs, bytes the vocabulary lacks
FAMILIES = {
    "gpt2": (byte_level(True), False, False, False, False, b""),
    "smollm": (SMOLLM, False, False, False, False, b"\x01\x02\x7f\xf1"),
    "llama3": (splits(LLAMA3), False, True, True, False, b""),
    "qwen2": (splits(QWEN2), True, False, False, True, b""),
    "qwen35": (splits(QWEN35), True, False, False, True, b""),
    "o200k": (splits(O200K), False, True, False, True, b""),
    "tekken": (splits(TEKKEN), False, True, True, True, b""),
    "deepseek_v3": (splits(*DEEPSEEK), False, False, False, False, b""),
}


MARK = "\u2581"
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
SHOW = {"type": "Replace", "pattern": {"String": MARK}, "content": " "}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}


def sequence(key, *steps):
    return {"type": "Sequence", key: list(steps)}


def metaspace(scheme, split):
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": split}


def decoders(*last):
    return sequence("decoders", SHOW, {"type": "ByteFallback"}, {"type": "Fuse"}, *last)


def normalizers(*steps):
    return sequence("normalizers", *steps)


LLAMA2 = normalizers({"type": "Prepend", "prepend": MARK}, REPLACE)
SPACES = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
# family: normalizer, pre_tokenizer, decoder, flags of the model
PIECES = {
    "llama2": (LLAMA2, None, decoders(STRIP), dict(byte_fallback=True, fuse_unk=True)),
    "gemma": (REPLACE, SPACES, decoders(), dict(byte_fallback=True, fuse_unk=True)),
    "metaspace_first": (None, metaspace("first", False), decoders(STRIP), dict(byte_fallback=True, fuse_unk=True)),
    "metaspace_words": (
        sequence("normalizers", {"type": "NFKC"}, {"type": "Lowercase"}),
        metaspace("always", True),
        metaspace("always", True),
        dict(fuse_unk=False, ignore_merges=True),
    ),
    "words_unknown": (
        sequence("normalizers", {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "NFC"}),
        sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace("always", True)),
        metaspace("always", True),
        dict(fuse_unk=True),
    ),
    "metaspace_digits": (
        None,
        sequence(
            "pretokenizers",
            metaspace("first", True),
            {"type": "Digits", "individual_digits": True},
            {
                "type": "Split",
                "pattern": {"Regex": "\u2581?\\p{L}+"},
                "behavior": "MergedWithNext",
                "invert": True,
            },
        ),
        decoders(STRIP),
        dict(byte_fallback=True, fuse_unk=True),
    ),
}

NEW = ["metaspace_digits"]  # after the others, so that their texts stay unchanged

CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
HAN = "&&[^\\p{Han}]]"
KIMI_UP, KIMI_LOW = UP[:-1] + HAN, LOW[:-1] + HAN


def steps(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def cut(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


# family: pre_tokenizer of several steps; the rest as in FAMILIES
STAGED = {
    "falcon": (
        steps(
            {"type": "Punctuation", "behavior": "Contiguous"},
            byte_level(True),
            {"type": "Digits", "individual_digits": False},
            cut("[0-9][0-9][0-9]"),
        ),
        *FAMILIES["gpt2"][1:],
    ),
    "deepseek_coder": (
        steps(
            *map(cut, ("[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK)),
            {"type": "Digits", "individual_digits": True},
            byte_level(False),
        ),
        *FAMILIES["gpt2"][1:],
    ),
    "kimi_k2": (
        splits(
            f"[\\p{{Han}}]+|{PRE}{KIMI_UP}*{KIMI_LOW}+{CI}?|{PRE}{KIMI_UP}+{KIMI_LOW}*{CI}?|\\p{{N}}{{1,3}}"
            f"| ?[^\\s\\p{{L}}\\p{{N}}]+[\\r\\n]*|{WS}"
        ),
        *FAMILIES["gpt2"][1:],
    ),
    # Not a published tokenizer: nested steps of several families.
    "mixed_steps": (
        steps({"type": "Punctuation", "behavior": "Isolated"}, cut("\\p{N}{1,3}"), cut(LLAMA3), byte_level(False)),
        *FAMILIES["gpt2"][1:],
    ),
}


def split(pattern, behavior, invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


# Parts of tokenizer.json that few or no published chat models use: pre_tokenizer, normalizer; the rest as above.
CL100K = (
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+"
    "|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s"
)
ACCENTS = [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Replace", "pattern": {"Regex": "[\\t ]+"}, "content": " "}]
OTHERS = {
    "cl100k_removed": (steps(split(CL100K, "Removed", True), byte_level(False)), None),
    "right_digits": (steps(split("\\d{1,3}(?=(?:\\d{3})*\\b)", "Isolated"), cut(O200K), byte_level(False)), None),
    "behaviors": (
        steps(
            split("[,.!?]", "MergedWithPrevious"),
            split("\n", "MergedWithNext", kind="String"),
            {"type": "Punctuation", "behavior": "Contiguous"},
            split("\\p{Lu}?\\p{Ll}+", "Contiguous", True),
            {"type": "CharDelimiterSplit", "delimiter": "-"},
            byte_level(True),
        ),
        None,
    ),
    "words_alone": (steps({"type": "BertPreTokenizer"}, {"type": "Whitespace"}, byte_level(False)), {"type": "NFD"}),
    "prefix_accents": ({**byte_level(True), "add_prefix_space": True}, normalizers(*ACCENTS)),
}


def added_tokens():
    """Plain added tokens, and every combination of the flags."""
    out = [
        dict(content=c, special=s)
        for c, s in [
            ("<|bos|>", True),
            ("<|im_start|>", True),
            ("<|im_end|>", True),
            ("<think>", False),
            ("<|im_end|><|x|>", True),
            ("|><|", False),
            ("\n\n\n", False),
            ("ab", False),
            ("abc", False),
            ("bcd", False),
        ]
    ]
    for special in (True, False):
        for bits in range(1, 16):
            flags = {
                k: bool(bits >> i & 1)
                for i, k in enumerate(("lstrip", "rstrip", "single_word", "normalized"))
            }
            name = ("S" if special else "n") + "".join(k[0].upper() for k, v in flags.items() if v)
            out.append(
                dict(content=f"w{name}w" if flags["single_word"] else f"<{name}>", special=special, **flags)
            )
    out.append(dict(content="\u00c9x", special=False, normalized=True))
    out.append(dict(content="e\u0301t\u00e9", special=False, normalized=True))
    return out


def train(lacking):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tok.train_from_iterator(
        [TRAINING] * 3, trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet, show_progress=False)
    )
    model = json.loads(tok.to_str())["model"]
    shown = {b: c for b, c in ((b, byte_char(b)) for b in lacking)}
    gone = [t for t in model["vocab"] if any(c in t for c in shown.values())]
    kept = sorted((t for t in model["vocab"] if t not in gone), key=model["vocab"].get)
    vocab = {t: i for i, t in enumerate(kept)}
    merges = [m for m in model["merges"] if all(x in vocab for x in (*m, "".join(m)))]
    return vocab, merges


def byte_char(b):
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return chr(b) if b in printable else chr(256 + sum(1 for x in range(b) if x not in printable))


def tokenizer_json(family):
    pre, nfc, ignore_merges, template, pairs, lacking = {
        **FAMILIES,
        **STAGED,
        **{name: (other[0], *FAMILIES["gpt2"][1:]) for name, other in OTHERS.items()},
    }[family]
    vocab, merges = train(lacking)
    if ignore_merges:  # a token that no merge produces
        vocab[" unreachable".replace(" ", "\u0120")] = len(vocab)
    added = []
    for i, a in enumerate(added_tokens()):
        added.append(
            {
                "id": len(vocab) + i,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                **a,
            }
        )
    post = None
    if template:
        ids = {a["content"]: a["id"] for a in added}
        special = lambda t: {"SpecialToken": {"id": t, "type_id": 0}}
        post = {
            "type": "TemplateProcessing",
            "single": [special("<|bos|>"), {"Sequence": {"id": "A", "type_id": 0}}, special("<|im_end|>")],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {
                t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in ("<|bos|>", "<|im_end|>")
            },
        }
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": ignore_merges,
        "vocab": vocab,
        "merges": merges if pairs else [" ".join(m) for m in merges],
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "NFC"} if nfc else OTHERS[family][1] if family in OTHERS else None,
        "pre_tokenizer": pre,
        "post_processor": post,
        "decoder": byte_level(True),
        "model": model,
    }


def piece_json(family):
    """Merges of characters. metaspace_first lacks the tokens of two bytes, so unknown text is written partly in bytes,
    partly as the unknown token."""
    normalizer, pre, decoder, flags = PIECES[family]
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    training = [TRAINING.replace(" ", MARK) + "  " + TRAINING] * 3
    tok.train_from_iterator(training, trainers.BpeTrainer(vocab_size=420, show_progress=False))
    trained = json.loads(tok.to_str())["model"]
    bytes_ = [f"<0x{b:02X}>" for b in range(256) if family != "metaspace_first" or b not in (0xC3, 0xE4)]
    tokens = ["<unk>"] + (bytes_ if flags.get("byte_fallback") else [])
    tokens += [t for t in sorted(trained["vocab"], key=trained["vocab"].get) if t not in "\u0434\u00df"]
    vocab = {t: i for i, t in enumerate(tokens)}
    merges = [m for m in trained["merges"] if all(x in vocab for x in (*m, "".join(m)))]
    # A run of line feeds and a byte token take part in merges, unlike in any published vocabulary.
    extra = [["\n", "\n"], [MARK, MARK], [MARK + MARK, MARK + MARK]]
    extra += [["<0x00>", "a"]] if family == "llama2" else []
    for left, right in extra:
        if left in vocab and right in vocab and left + right not in vocab:
            vocab[left + right] = len(vocab)
            merges.append([left, right])
    if flags.get("ignore_merges"):
        vocab[MARK + "unreachable"] = len(vocab)
    flag_names = ("lstrip", "rstrip", "single_word", "normalized")
    added = [dict(dict.fromkeys(flag_names, False), **a) for a in [dict(content="<unk>", special=True), *added_tokens()]]
    for a in added:
        a["id"] = vocab.get(a["content"], None)
    for i, a in enumerate(a for a in added if a["id"] is None):
        a["id"] = len(vocab) + i
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": normalizer,
        "pre_tokenizer": pre,
        "post_processor": None,
        "decoder": decoder,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            **flags,
            "vocab": vocab,
            "merges": merges,
        },
    }


def unigram_json():
    """Invented scores: a longer token costs more than one character, and less than all of its characters. The table of
    SentencePiece rewrites the ligature fi, a full-width letter, e with an acute mark, and the tabulator."""
    js = piece_json("metaspace_words")
    rng = random.Random(77)
    tokens = sorted(js["model"]["vocab"], key=js["model"]["vocab"].get)
    vocab = [[t, 0.0 if t == "<unk>" else round(-4.0 * (len(t) + 4) ** 0.5 - rng.random(), 4)] for t in tokens]
    js["model"] = {"type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": False}
    table = charsmap({"\ufb01": "fi", "\uff21": "a", "e\u0301": "\u00e9", "\t": " ", "\u00a0": " "})
    precompiled = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}
    collapse = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": MARK}
    js["normalizer"] = normalizers(precompiled, collapse)
    return js


def charsmap(rules):
    """The double array of the rules, and their texts."""
    texts, trie = b"", {}
    for key, value in rules.items():
        node = trie
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[None] = len(texts)
        texts += value.encode() + b"\0"
    units = {0: 0}

    def place(at, node):
        labels = [byte or 0 for byte in node]
        base = next(b for b in range(1, 1 << 20) if all(b ^ at ^ label not in units for label in labels))
        for byte, child in node.items():
            units[at ^ base ^ (byte or 0)] = 0x80000000 | child if byte is None else byte
        units[at] |= base << 10 | (1 << 8 if None in node else 0)
        for byte, child in node.items():
            if byte is not None:
                place(at ^ base ^ byte, child)

    place(0, trie)
    array = b"".join(units.get(i, 0).to_bytes(4, "little") for i in range(max(units) + 1))
    return len(array).to_bytes(4, "little") + array + texts


def texts(rng, added):
    marks = (
        "\u0300\u0301\u0308\u0323\u0327\u0338\u0345\u05b4\u093c\u0f71\u1dc4\u20d0\u3099\u1161\u11a8\U0001e4ec"
    )
    bases = "aeiouAEcsK\u017f\u00c5\uac00\uac01\u1100\u03a9\u6211\u0927\u212b\u0344\ufb1d"
    words = [
        "hello",
        " world",
        " the",
        " unreachable",
        "HTTPServer",
        "camelCase",
        "\u041f\u0440\u0438\u0432\u0435\u0442\u041c\u0438\u0440",
        "\u01c5abc",
        "\u00aab",
        "\U0001f600",
        "\U0001f469\u200d\U0001f469",
        "\u0001",
        "\ufeff",
        "\ue000",
        "\u0e44\u0e17\u0e22",
        "\u4e00\u30fb\u30a2\u3041\u309b",
        "\u3002",
        "\U00010d50",
        "\u1c89",
    ]

    def some(chars, most):
        return "".join(rng.choice(chars) for _ in range(rng.randrange(1, most)))

    def part():
        k = rng.randrange(11)
        if k == 0:
            c = rng.choice(
                (rng.randrange(0x80), rng.randrange(0x3000), rng.randrange(0x10000), rng.randrange(0x110000))
            )
            return "\uffff" if 0xD800 <= c < 0xE000 else chr(c)
        if k == 1:
            return rng.choice(added)
        if k == 2:
            a = rng.choice(added)
            return a[: rng.randrange(1, len(a) + 1)]
        if k == 3:
            return some(" \t\n\r\u00a0\u3000\u2028\u0085\u180e  ", 6)
        if k == 4:
            return rng.choice(bases) + some(marks, 4)
        if k == 5:
            return rng.choice(
                ["'s", "'S", "'\u017f", "'ll", "'LL", "'re", "'VE", "'d", "'m", "'", "'l", "'r"]
            )
        if k == 6:
            return some("0123456789\u00b2\u00bd\u0663", 7)
        if k == 7:
            return some("!?.,/-_#$+=<>|`~^()[]{}\"'\\:;@&*%", 5)
        if k == 8:
            return some(words, 3)
        return rng.choice([" ", " a", "the", "and", "\n", "\n\n", "  ", "ab", "in"])

    return ["".join(part() for _ in range(rng.randrange(1, 9))) for _ in range(160)] + [
        "",
        " ",
        "\n",
        "a" * 300,
        " " * 100,
        "=" * 100,
    ]


def main():
    for number, family in enumerate([*FAMILIES, *(p for p in PIECES if p not in NEW), *STAGED, "unigram", *OTHERS, *NEW]):
        js = unigram_json() if family == "unigram" else (piece_json if family in PIECES else tokenizer_json)(family)
        path = os.path.join(HERE, family)
        with open(path + ".json", "w", encoding="utf-8") as f:
            json.dump(js, f, ensure_ascii=True, separators=(",", ":"))
            f.write("\n")
        tok = Tokenizer.from_file(path + ".json")
        rng = random.Random(1000 + number)
        with open(path + ".jsonl", "w", encoding="utf-8") as f:
            for text in texts(rng, [a["content"] for a in js["added_tokens"]]):
                case = {"text": text, "parse_special": rng.random() < 0.6, "add_special": rng.random() < 0.2}
                tok.encode_special_tokens = not case["parse_special"]
                case["ids"] = tok.encode(text, add_special_tokens=case["add_special"]).ids
                case["decoded"] = tok.decode(case["ids"], skip_special_tokens=False)
                f.write(json.dumps(case, ensure_ascii=True, separators=(",", ":")) + "\n")
        print(family, len(js["model"]["vocab"]))


if __name__ == "__main__":
    main()
