#!/usr/bin/env python3
"""Times the second turn of a chat whose template drops the thinking of the first answer, with llama.cpp.

  second_turn_llama_cpp.py MODEL.gguf --libraries DIR [--threads 2] [--histories 4096,16384] [--kv f16] [--flash 1]

The first turn prefills a prompt of the given length and decodes 200 tokens of thinking and 100 of an answer. The second
prompt is the first one, the answer without its thinking, and 44 new tokens: 144 tokens differ. Three ways to continue:

  cut         removes all positions after the first prompt from llama.cpp's memory; if it refuses, because a recurrent
              state cannot be cut, prefills the whole prompt again
  checkpoint  restores a copy of the recurrent state at the end of the first prompt, as llama-server does
  nothing     prefills the whole prompt again

A JSON line for each: tokens prefilled, milliseconds up to the next token's logits, bytes of the copy.
"""
import argparse
import json
import os
import time

from time_llama_cpp import Library, Sequence, numbers, spread_ids

THINKING, REPLY, NEW = 200, 100, 44
PARTIAL_ONLY = 1  # LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY: state that cannot be cut, without the KV of attention


class Turns(Sequence):
    def say(self, n):
        """Appends n tokens one by one, as an answer is decoded."""
        for i in range(n):
            self.feed([3000 + 97 * i])

    def forget_behind(self, n):
        """Removes the positions after `n`; returns whether the memory could."""
        done = self.lib.llama_memory_seq_rm(self.lib.llama_get_memory(self.context), 0, n, -1)
        if done:
            self.length = n
        return done

    def forget_all(self):
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        self.length = 0

    def copy_of_state(self):
        size = self.lib.llama_state_seq_get_size_ext(self.context, 0, PARTIAL_ONLY)
        buffer = self.ffi.new("uint8_t[]", size)
        written = self.lib.llama_state_seq_get_data_ext(self.context, buffer, size, 0, PARTIAL_ONLY)
        return buffer, written

    def put_back(self, copy, n):
        buffer, size = copy
        if self.lib.llama_state_seq_set_data_ext(self.context, buffer, size, 0, PARTIAL_ONLY) != size:
            raise SystemExit("llama_state_seq_set_data_ext failed")
        return self.forget_behind(n)


def second_turn(turns, history, way):
    """(tokens prefilled, ms, bytes of the copy) of the second turn."""
    prompt = spread_ids(history)
    turns.forget_all()
    turns.feed(prompt)
    copy = turns.copy_of_state() if way == "checkpoint" else (None, 0)
    turns.say(THINKING + REPLY)
    rest = [3000 + 97 * i for i in range(THINKING, THINKING + REPLY)] + [5000 + 31 * i for i in range(NEW)]
    start = time.perf_counter()
    kept = {"cut": lambda: turns.forget_behind(history), "nothing": lambda: False,
            "checkpoint": lambda: turns.put_back(copy, history)}[way]()
    if not kept:
        turns.forget_all()
    read = (prompt if not kept else []) + rest
    turns.feed(read)
    return len(read), (time.perf_counter() - start) * 1e3, copy[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--libraries", default=os.environ.get("LLAMA_BIN"), help="default: $LLAMA_BIN")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--histories", type=numbers, default=[4096, 16384])
    parser.add_argument("--ways", default="cut,checkpoint,nothing")
    parser.add_argument("--kv", default="f16")
    parser.add_argument("--flash", type=int, default=1)
    options = parser.parse_args()
    library = Library(os.path.realpath(options.libraries))
    model = library.load(options.model)
    for history in options.histories:
        turns = Turns(library, model, history + 1024, options.threads, options.flash, options.kv)
        for way in options.ways.split(","):
            read, ms, size = second_turn(turns, history, way)
            print(json.dumps({"engine": "llama.cpp", "model": os.path.basename(options.model), "kv": options.kv,
                              "what": "second turn", "history": history, "way": way, "n_read": read, "ttft_ms": ms,
                              "copy_bytes": size}), flush=True)
        turns.close()


if __name__ == "__main__":
    main()
