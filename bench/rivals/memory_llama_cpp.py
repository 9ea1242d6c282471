#!/usr/bin/env python3
"""Memory of the keys, values and recurrent states of one sequence in llama.cpp.

  memory_llama_cpp.py MODEL.gguf --libraries DIR [--positions 32768] [--kv f16,q8_0] [--checkpoints 16]

llama.cpp allocates the memory of all positions when a context is created, and logs its size, so nothing has to be
computed. Models with windows are measured with the cache that holds only the windows (swa_full off) and with the one
that can be cut anywhere (on). A JSON line for each, with the MiB of the log.

A checkpoint is the part of a sequence that llama-server copies to resume from: state that cannot be cut, windows or
recurrent states. Its size is measured after 2,048 positions, more than the windows of these models; the bytes of
several checkpoints are that size times their number.
"""
import argparse
import json
import os
import re

from second_turn_llama_cpp import PARTIAL_ONLY
from time_llama_cpp import Library, Sequence, spread_ids

READ = 2048
BUFFER = re.compile(r"(KV|RS) buffer size = +([\d.]+) MiB")


def set_swa_full(ffi, params, wanted):
    """Sets the flag at its offset in the library, which may have one more field before the flags than the bindings.
    They are found by their defaults: embeddings, offload_kqv, no_perf, op_offload, swa_full, kv_unified.
    """
    memory = ffi.buffer(ffi.addressof(params))
    at = bytes(memory).find(bytes([0, 1, 1, 1, 1, 0]))
    if at < 0:
        raise SystemExit("unknown layout of llama_context_params")
    memory[at + 4] = bytes([wanted])


class Memory(Sequence):
    """A Sequence whose context has the full cache of windows or not."""

    def __init__(self, library, model, positions, kv, swa_full):
        lib = library.lib

        class Library:
            def __getattr__(self, name):
                return getattr(lib, name)

            def llama_init_from_model(self, model, params):
                set_swa_full(library.ffi, params, swa_full)
                return lib.llama_init_from_model(model, params)

        library = type("OtherLibrary", (), {"lib": Library(), "ffi": library.ffi})()
        super().__init__(library, model, positions, 2, 1, kv)

    def checkpoint_bytes(self):
        self.feed(spread_ids(READ))
        return self.lib.llama_state_seq_get_size_ext(self.context, 0, PARTIAL_ONLY)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--libraries", default=os.environ.get("LLAMA_BIN"), help="default: $LLAMA_BIN")
    parser.add_argument("--positions", type=int, default=32768)
    parser.add_argument("--kv", default="f16,q8_0")
    parser.add_argument("--checkpoints", type=int, default=16)
    options = parser.parse_args()
    library = Library(os.path.realpath(options.libraries))
    model = library.load(options.model)
    lines = []
    listen = library.ffi.callback("void(enum ggml_log_level, char*, void*)",
                                  lambda _level, text, _data: lines.append(library.ffi.string(text).decode()))
    library.lib.llama_log_set(listen, library.ffi.NULL)
    has_windows = library.lib.llama_model_n_swa(model) != 0
    for kv in options.kv.split(","):
        for swa_full in (False, True) if has_windows else (False,):
            lines.clear()
            memory = Memory(library, model, options.positions, kv, swa_full)
            buffers = BUFFER.findall("".join(lines))
            size = 0 if swa_full else memory.checkpoint_bytes()
            memory.close()
            print(json.dumps({"engine": "llama.cpp", "model": os.path.basename(options.model), "kv": kv,
                              "what": "memory of a sequence", "positions": options.positions, "swa_full": swa_full,
                              "kv_mib": [float(mib) for kind, mib in buffers if kind == "KV"],
                              "state_mib": [float(mib) for kind, mib in buffers if kind == "RS"],
                              "checkpoint_bytes": size, "checkpoints_bytes": size * options.checkpoints}), flush=True)


if __name__ == "__main__":
    main()
