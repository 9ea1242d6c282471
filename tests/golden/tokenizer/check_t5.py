#!/usr/bin/env python3
"""Trains a Unigram vocabulary with SentencePiece on TEXT, writes it as tokenizer.json (the steps that transformers'
converter writes for T5) and as a vocabulary-only GGUF of the model t5 (the keys that llama.cpp's converter writes), and
compares the output of `ibid tokenize` for both with `tokenizers`, and counts differences from SentencePiece.

  pip install tokenizers==0.22.2 sentencepiece protobuf gguf
  check_t5.py TEXT DIR IBID [--random 100000] [--vocab 30000] [--rule nmt_nfkc] [--keep-spaces]
"""

import argparse
import base64
import json
import os
import random
import subprocess

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer

MARK = "\u2581"
PARTS = [" ", "  ", "   ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "\u200b", "\u2028", "a", "the", "The", " world", "HTTPServer",
         "1", "23", "456", ".", ",", "!", "'s", "\u041f\u0440\u0438\u0432\u0435\u0442", "\u4f60\u597d", "\u3053\u3093\u306b", "\uff71\uff9e", "\uff11",
         "\ufb01", "e\u0301", "\u00e9", "\u1e9b\u0323", "\uac00", "\u1100\u1161", "\u0e01\u0e33", "\u0915\u094d\u0937", "\U0001f469\u200d\U0001f680", "\U0001f1e9\U0001f1ea", MARK, "<unk>",
         "</s>", "<pad>", "\u00b2", "\u2460", "\ufdfa", "x", "qz", "\U0001d400"]


def train(args):
    prefix = os.path.join(args.dir, "unigram")
    extra = {"remove_extra_whitespaces": False} if args.keep_spaces else {}
    sentencepiece.SentencePieceTrainer.train(
        input=args.text, model_prefix=prefix, model_type="unigram", vocab_size=args.vocab, num_threads=1, pad_id=0,
        eos_id=1, unk_id=2, bos_id=-1, normalization_rule_name=args.rule, max_sentence_length=8192, minloglevel=2, **extra)
    proto = sentencepiece_model_pb2.ModelProto()
    with open(prefix + ".model", "rb") as f:
        proto.ParseFromString(f.read())
    return proto, sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")


def write_json(proto, path):
    special = [(i, p.piece) for i, p in enumerate(proto.pieces) if p.type in (2, 3)]
    steps = []
    if proto.normalizer_spec.precompiled_charsmap:
        charsmap = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    if proto.normalizer_spec.remove_extra_whitespaces:
        steps += [{"type": "Strip", "strip_left": False, "strip_right": True},
                  {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": MARK}]
    metaspace = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True}
    out = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, t in special],
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": metaspace, "decoder": metaspace, "post_processor": None,
        "model": {"type": "Unigram", "unk_id": 2, "byte_fallback": False, "vocab": [[p.piece, p.score] for p in proto.pieces]},
    }
    with open(path, "w", encoding="utf-8") as f:
        json.dump(out, f, ensure_ascii=False)


def write_gguf(proto, path):
    writer = gguf.GGUFWriter(path, "t5")
    writer.add_tokenizer_model("t5")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([p.piece.encode() for p in proto.pieces])
    writer.add_token_scores([p.score for p in proto.pieces])
    writer.add_token_types([int(p.type) for p in proto.pieces])
    writer.add_add_space_prefix(proto.normalizer_spec.add_dummy_prefix)
    writer.add_remove_extra_whitespaces(proto.normalizer_spec.remove_extra_whitespaces)
    if proto.normalizer_spec.precompiled_charsmap:
        writer.add_precompiled_charsmap(proto.normalizer_spec.precompiled_charsmap)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(2)
    writer.add_pad_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(True)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def random_texts(n, lines):
    rng = random.Random(11)
    for _ in range(n):
        text = ""
        for _ in range(rng.randrange(1, 9)):
            kind = rng.random()
            if kind < 0.6:
                text += rng.choice(PARTS)
            elif kind < 0.9:
                line = rng.choice(lines)
                at = rng.randrange(len(line))
                text += line[at:at + rng.randrange(1, 40)]
            else:
                text += chr(rng.choice([rng.randrange(1, 0x250), rng.randrange(0x250, 0xD800), rng.randrange(0xE000, 0x1FFFF)]))
        yield text


def ibid(program, model, texts, special):
    lines = "".join(json.dumps({"text": t, "add_special": False, "parse_special": special}) + "\n" for t in texts)
    out = subprocess.run([program, "tokenize", model, "--jsonl"], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line)["ids"] for line in out.stdout.splitlines()]


def differences(name, texts, got, wanted):
    wrong = [i for i in range(len(texts)) if got[i] != wanted[i]]
    print(f"{name}: {len(texts)} texts, {len(wrong)} differ")
    for i in wrong[:5]:
        print("  ", ascii(texts[i]), got[i], wanted[i])
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("dir")
    parser.add_argument("ibid")
    parser.add_argument("--random", type=int, default=100_000)
    parser.add_argument("--vocab", type=int, default=30_000)
    parser.add_argument("--rule", default="nmt_nfkc")
    parser.add_argument("--keep-spaces", action="store_true")
    args = parser.parse_args()
    folder = os.path.join(args.dir, "json")
    os.makedirs(folder, exist_ok=True)
    proto, sp = train(args)
    write_json(proto, os.path.join(folder, "tokenizer.json"))
    write_gguf(proto, os.path.join(args.dir, "t5.gguf"))
    with open(args.text, encoding="utf-8") as f:
        lines = [line for line in f.read().split("\n") if line]
    texts = list(random_texts(args.random, lines))
    of_json = ibid(args.ibid, folder, texts, True)
    of_gguf = ibid(args.ibid, os.path.join(args.dir, "t5.gguf"), texts, True)
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    failed = differences("tokenizer.json here and in tokenizers", texts, of_json,
                         [tokenizer.encode(t, add_special_tokens=False).ids for t in texts])
    failed += differences("GGUF and tokenizer.json here", texts, of_gguf, of_json)
    # SentencePiece does not recognise control tokens in a text.
    control = [p.piece for p in proto.pieces if p.type in (2, 3)]
    plain = [i for i, t in enumerate(texts) if not any(c in t for c in control)]
    differences("GGUF here and SentencePiece (its table is applied otherwise there)", [texts[i] for i in plain],
                [of_gguf[i] for i in plain], [sp.encode(texts[i]) for i in plain])
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
