#!/usr/bin/env python3
"""A row for each tokenizer: ibid and Hugging Face `tokenizers`, in CPU time of one thread, on the same text.

  pip install tokenizers==0.22.2
  tokenizer_table.py TEXT BENCH_TOKENIZER DIR...     # DIR: contains tokenizer.json; its name is the row's label

ibid encodes the whole TEXT; `tokenizers` its first --rival-bytes, as one text, like a prompt.
"""

import argparse
import json
import os
import subprocess
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
from tokenizers import Tokenizer  # noqa: E402  (reads the variables)


def seconds(n_calls, call):
    least, result = 1e9, None
    for _ in range(n_calls):
        begin = time.process_time()
        result = call()
        least = min(least, time.process_time() - begin)
    return least, result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("bench")
    parser.add_argument("dirs", nargs="+")
    parser.add_argument("--rival-bytes", type=int, default=1_500_000)
    args = parser.parse_args()
    with open(args.text, "rb") as f:
        part = f.read()[:args.rival_bytes].decode("utf-8", errors="ignore")
    print("| vocabulary | load, ms | `tokenizers` | encode, MB/s | `tokenizers` | times | decode, MB/s | `tokenizers` | times "
          "| a message of 240 bytes, us |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for folder in args.dirs:
        row = json.loads(subprocess.run([args.bench, "--row", args.text, folder], check=True, capture_output=True).stdout)
        load, tokenizer = seconds(2, lambda: Tokenizer.from_file(os.path.join(folder, "tokenizer.json")))
        n_bytes = len(part.encode())
        encode, ids = seconds(2, lambda: tokenizer.encode(part, add_special_tokens=False).ids)
        decode, _ = seconds(2, lambda: tokenizer.decode(ids, skip_special_tokens=False))
        encode, decode = n_bytes / encode / 1e6, n_bytes / decode / 1e6
        print(f"| {os.path.basename(os.path.normpath(folder))} | {row['load_ms']:.0f} | {load * 1e3:.0f} | {row['encode_mb_s']:.1f} "
              f"| {encode:.2f} | {row['encode_mb_s'] / encode:.0f} | {row['decode_mb_s']:.0f} | {decode:.1f} "
              f"| {row['decode_mb_s'] / decode:.0f} | {row['append_us']:.1f} |", flush=True)


if __name__ == "__main__":
    main()
