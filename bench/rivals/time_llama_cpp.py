#!/usr/bin/env python3
"""Times llama.cpp through its C API, with the work and the JSON lines of `ibid bench --json`.

  time_llama_cpp.py MODEL.gguf --libraries DIR [--threads 2] [--rounds 5] [--kv f16|f32|q8_0|q4_0] [--flash 0,1]
                    [--what load,prefill,decode,turns] [--lengths 8,64,512] [--depths 0,1024,4096] [--repeat-rows]

DIR contains libllama, libggml and the CPU variants; README.md lists the packages with them. Without --flash both
settings are timed; comparisons use the better one.

With --repeat-rows a history beyond 512 tokens is not computed: the keys and values of the first 512 are repeated. The
time of the following tokens is the same, since it does not depend on the numbers, and 16,384 tokens take less than a
second instead of half an hour of prefill.
"""
import argparse
import ctypes
import json
import os
import statistics
import struct
import time

from llama_cpp_py_sync import _cffi_bindings

GGML_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 8}
BATCH = 512
DECODE_TOKENS = 48
TURN_TOKENS = 44
LEAST_SECONDS = 0.2  # minimum total of the samples of one figure
MOST_SAMPLES = 50


def numbers(text):
    return [int(n) for n in text.split(",")]


def spread_ids(n):
    """Tokens spread over the vocabulary, so that no engine profits from a repeated one."""
    return [1000 + i * 7919 % 30000 for i in range(n)]


def repeat_rows(saved, n):
    """Extends the state of a sequence of m positions (llama_state_seq_get_data) to n positions by repeating its rows.

    Format: magic, 0, streams (1), m; m times position, 1, sequence id; values transposed?, layers; keys of each layer:
    type, bytes of a row (64 bits), rows; values of each layer: the same, or if transposed type, bytes of a number,
    numbers of a row, then for each number those of all positions.
    """
    at = 0

    def take(form):
        nonlocal at
        fields = struct.unpack_from("<" + form, saved, at)
        at += struct.calcsize("<" + form)
        return fields

    def rows(size, m):
        nonlocal at
        block = saved[at:at + size * m]
        at += size * m
        return (block * -(-n // m))[:size * n]

    *head, streams, m = take("4I")
    if streams != 1:
        raise SystemExit(f"llama.cpp's state has {streams} streams, not one")
    out = [struct.pack("<4I", *head, streams, n)]
    cells = [take("3I") for _ in range(m)]
    if cells != [(j, 1, 0) for j in range(m)]:
        raise SystemExit("llama.cpp's state has an unknown layout")
    out += [struct.pack("<3I", j, 1, 0) for j in range(n)]
    transposed, n_layers = take("2I")
    out.append(struct.pack("<2I", transposed, n_layers))
    for part in range(2 * n_layers):
        if part < n_layers or not transposed:
            kind, size = take("iQ")
            out += [struct.pack("<iQ", kind, size), rows(size, m)]
        else:
            kind, size, width = take("iII")
            out += [struct.pack("<iII", kind, size, width), *(rows(size, m) for _ in range(width))]
    if at != len(saved):
        raise SystemExit("llama.cpp's state has unexpected data after its rows")
    return b"".join(out)


class Library:
    def __init__(self, folder):
        self.ffi = _cffi_bindings.get_ffi()

        def path_of(prefix):
            return os.path.join(folder, next(name for name in sorted(os.listdir(folder)) if name.startswith(prefix)))

        # Load the registry of backends, then every CPU variant that this machine can run, then the engine.
        ctypes.CDLL(path_of("libggml-base."), ctypes.RTLD_GLOBAL)
        ggml = ctypes.CDLL(path_of("libggml."), ctypes.RTLD_GLOBAL)
        ggml.ggml_backend_load_all_from_path(folder.encode())
        self.lib = self.ffi.dlopen(path_of("libllama."))
        self.quiet = self.ffi.callback("void(enum ggml_log_level, char*, void*)", lambda *_: None)
        self.lib.llama_log_set(self.quiet, self.ffi.NULL)
        self.lib.llama_backend_init()

    def load(self, path):
        model = self.lib.llama_model_load_from_file(path.encode(), self.lib.llama_model_default_params())
        if model == self.ffi.NULL:
            raise SystemExit(f"{path}: llama.cpp does not load it")
        return model

    def system(self):
        return self.ffi.string(self.lib.llama_print_system_info()).decode()


class Sequence:
    """One sequence in its own context."""

    def __init__(self, library, model, capacity, threads, flash, kv, repeats_rows=False):
        self.lib, self.ffi, self.repeats_rows = library.lib, library.ffi, repeats_rows
        params = self.lib.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = capacity, BATCH, BATCH
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = flash
        params.type_k = params.type_v = GGML_TYPES[kv]
        self.context = self.lib.llama_init_from_model(model, params)
        if self.context == self.ffi.NULL:
            raise SystemExit(f"llama.cpp makes no context with keys and values in {kv} and flash {flash}")
        self.vocab_size = self.lib.llama_vocab_n_tokens(self.lib.llama_model_get_vocab(model))
        self.batch = self.lib.llama_batch_init(BATCH, 0, 1)
        self.length = 0

    def close(self):
        self.lib.llama_batch_free(self.batch)
        self.lib.llama_free(self.context)

    def feed(self, ids):
        """Appends tokens; the logits after the last one are computed when it returns."""
        for first in range(0, len(ids), BATCH):
            part = ids[first:first + BATCH]
            batch = self.batch
            batch.n_tokens = len(part)
            for j, token in enumerate(part):
                batch.token[j], batch.pos[j] = token % self.vocab_size, self.length + j
                batch.n_seq_id[j], batch.seq_id[j][0] = 1, 0
                batch.logits[j] = first + j == len(ids) - 1
            if self.lib.llama_decode(self.context, batch) != 0:
                raise SystemExit("llama_decode failed")
            self.length += len(part)
        self.lib.llama_synchronize(self.context)

    def prefill_to(self, n):
        """Makes the sequence hold n positions, of spread_ids(n)."""
        if self.length < n:
            if self.repeats_rows and self.length < BATCH < n:
                self.prefill_to(BATCH)
            if self.repeats_rows and BATCH <= self.length:
                self.fill(n)
            else:
                self.feed(spread_ids(n)[self.length:])
        elif not self.lib.llama_memory_seq_rm(self.lib.llama_get_memory(self.context), 0, n, -1):
            raise SystemExit("llama_memory_seq_rm failed")
        self.length = n

    def fill(self, n):
        """Makes the sequence hold n positions, by repeating its rows."""
        size = self.lib.llama_state_seq_get_size(self.context, 0)
        buffer = self.ffi.new("uint8_t[]", size)
        if self.lib.llama_state_seq_get_data(self.context, buffer, size, 0) != size:
            raise SystemExit("llama_state_seq_get_data failed")
        state = repeat_rows(bytes(self.ffi.buffer(buffer, size)), n)
        if self.lib.llama_state_seq_set_data(self.context, state, len(state), 0) != len(state):
            raise SystemExit("llama_state_seq_set_data failed")

    def sample(self, depth, ids, one_by_one, rounds):
        """Seconds of appending tokens after `depth` positions; the first time is a warm-up."""
        samples = []
        while len(samples) < rounds + 1 or (sum(samples[1:]) < LEAST_SECONDS and len(samples) <= MOST_SAMPLES):
            self.prefill_to(depth)
            if one_by_one:
                self.feed([1234 + len(samples)])
            start = time.perf_counter()
            for part in [[token] for token in ids] if one_by_one else [ids]:
                self.feed(part)
            samples.append(time.perf_counter() - start)
        self.prefill_to(depth)
        return samples[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--libraries", default=os.environ.get("LLAMA_BIN"), help="default: $LLAMA_BIN")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kv", default="f16", choices=GGML_TYPES)
    parser.add_argument("--flash", type=numbers, default=[0, 1], help="0, 1 or both")
    parser.add_argument("--what", default="prefill,decode,turns")
    parser.add_argument("--lengths", type=numbers, default=[8, 16, 32, 63, 64, 65, 128, 512])
    parser.add_argument("--depths", type=numbers, default=[0, 1024, 4096])
    parser.add_argument("--repeat-rows", action="store_true", help="a history is not computed but repeated")
    options = parser.parse_args()
    if not options.libraries:
        parser.error("--libraries or $LLAMA_BIN must name the folder of the shared libraries")
    library = Library(os.path.realpath(options.libraries))
    what = options.what.split(",")

    def emit(**fields):
        shared = {"engine": "llama.cpp", "model": os.path.basename(options.model), "threads": options.threads,
                  "kv": options.kv}
        print(json.dumps({**shared, **fields}), flush=True)

    start = time.perf_counter()
    model = library.load(options.model)
    emit(what="load", ms=(time.perf_counter() - start) * 1e3, system=library.system())

    for flash in options.flash if {"prefill", "decode", "turns"} & set(what) else []:
        deepest = max(options.depths) if {"decode", "turns"} & set(what) else 0
        capacity = max(deepest + 64, max(options.lengths)) + 64
        sequence = Sequence(library, model, capacity, options.threads, flash, options.kv, options.repeat_rows)
        for n in options.lengths if "prefill" in what else []:
            seconds = sequence.sample(0, spread_ids(n), False, options.rounds)
            emit(flash=flash, what="prefill", n=n, tps=n / statistics.median(seconds))
        for depth in sorted(options.depths):
            if "decode" in what:
                ids = [2000 + 97 * i for i in range(DECODE_TOKENS)]
                seconds = sequence.sample(depth, ids, True, options.rounds)
                emit(flash=flash, what="decode", depth=depth, tps=DECODE_TOKENS / statistics.median(seconds))
            if "turns" in what:
                seconds = sequence.sample(depth, spread_ids(TURN_TOKENS), False, options.rounds)
                emit(flash=flash, what="turn", history=depth, n=TURN_TOKENS, ttft_ms=statistics.median(seconds) * 1e3)
        sequence.close()
    with open("/proc/self/status", encoding="ascii") as status:
        fields = dict(line.split(":", 1) for line in status)
    emit(what="memory", peak_mb=int(fields["VmHWM"].split()[0]) * 1024 / 1e6)


if __name__ == "__main__":
    main()
