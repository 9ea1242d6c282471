#!/usr/bin/env python3
"""Times OpenVINO GenAI on the same GGUF, with the JSON lines of `ibid bench --json`.

  time_openvino.py MODEL.gguf [--threads 2] [--rounds 5] [--kv u8|f16|f32] [--what prefill,decode,turns]
                   [--lengths 8,64,512] [--depths 0,1024,4096]

Uses its paged pipeline with prefix caching, its way of caching conversations. It has no call that only prefills, so
a prefill or a turn is a call of generate() for one token, including sampling and detokenising, and decode is the time
that it reports per token after the first. Its loader changes the weights: comparable in speed, not in quality.
"""
import argparse
import json
import os
import statistics
import time

DECODE_TOKENS = 48
TURN_TOKENS = 44


def numbers(text):
    return [int(n) for n in text.split(",")]


def spread_ids(n, salt=0):
    """Tokens spread over the vocabulary; another salt gives other tokens from the first one on, so that no prefix is
    found in the cache."""
    return [1000 + (salt * 613 + i * 7919) % 30000 for i in range(n)]


class Pipeline:
    def __init__(self, path, threads, kv):
        # openvino is imported here, because it takes seconds and argument errors are reported before.
        import openvino
        import openvino_genai as genai
        self.openvino, self.genai = openvino, genai
        scheduler = genai.SchedulerConfig()
        scheduler.enable_prefix_caching = True
        scheduler.cache_size = 1  # GB
        properties = {"INFERENCE_NUM_THREADS": threads, "scheduler_config": scheduler}
        if kv:
            properties["KV_CACHE_PRECISION"] = kv
        self.pipeline = genai.LLMPipeline(path, "CPU", **properties)

    def generate(self, ids, n_tokens):
        """Seconds of the call, and milliseconds per token after the first."""
        import numpy
        config = self.genai.GenerationConfig()
        config.max_new_tokens = config.min_new_tokens = n_tokens
        config.do_sample, config.ignore_eos, config.apply_chat_template = False, True, False
        tensor = self.openvino.Tensor(numpy.array([ids], numpy.int64))
        inputs = self.genai.TokenizedInputs(tensor, self.openvino.Tensor(numpy.ones((1, len(ids)), numpy.int64)))
        start = time.perf_counter()
        result = self.pipeline.generate(inputs, config)
        seconds = time.perf_counter() - start
        return seconds, result.perf_metrics.get_tpot().mean if n_tokens > 1 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kv", default="", choices=["", "u8", "f16", "f32"], help="default: its own choice")
    parser.add_argument("--what", default="prefill,decode,turns")
    parser.add_argument("--lengths", type=numbers, default=[8, 16, 32, 63, 64, 65, 128, 512])
    parser.add_argument("--depths", type=numbers, default=[0, 1024, 4096])
    options = parser.parse_args()
    what = options.what.split(",")
    salt = iter(range(1, 1_000_000))

    def emit(**fields):
        shared = {"engine": "OpenVINO GenAI", "model": os.path.basename(options.model), "threads": options.threads,
                  "kv": options.kv or "own choice"}
        print(json.dumps({**shared, **fields}), flush=True)

    start = time.perf_counter()
    pipeline = Pipeline(options.model, options.threads, options.kv)
    emit(what="load", ms=(time.perf_counter() - start) * 1e3, version=pipeline.genai.__version__)
    pipeline.generate(spread_ids(16), 8)

    for n in options.lengths if "prefill" in what else []:
        seconds = [pipeline.generate(spread_ids(n, next(salt)), 1)[0] for _ in range(options.rounds + 1)]
        emit(what="prefill", n=n, tps=n / statistics.median(seconds[1:]))
    for depth in sorted(options.depths):
        history = spread_ids(depth)
        if depth > 0 and {"decode", "turns"} & set(what):
            pipeline.generate(history, 1)
        if "decode" in what:
            times = [pipeline.generate(history + [1234 + r], DECODE_TOKENS + 1)[1] for r in range(options.rounds + 1)]
            emit(what="decode", depth=depth, tps=1e3 / statistics.median(times[1:]))
        if "turns" in what:
            times = [pipeline.generate(history + spread_ids(TURN_TOKENS, next(salt)), 1)[0]
                     for _ in range(options.rounds + 1)]
            emit(what="turn", history=depth, n=TURN_TOKENS, ttft_ms=statistics.median(times[1:]) * 1e3)
    with open("/proc/self/status", encoding="ascii") as status:
        fields = dict(line.split(":", 1) for line in status)
    emit(what="memory", peak_mb=int(fields["VmHWM"].split()[0]) * 1024 / 1e6)


if __name__ == "__main__":
    main()
