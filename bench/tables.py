"""Definitions of the tables of README.md, docs/benchmarks.md and docs/simulation.md: data for write_tables.py.

A table has `columns`, heading -> cell, the first of which is the line's label (text after ` #` is dropped; it only
makes equal headings distinct), and `lines`, (label, conditions), optionally followed by a dict of heading -> cell that
overrides cells of this line. In a cell

    {engine=ibid; kv=f16}                     is the value of the newest row that fulfils these conditions, those of
                                              the line and those of the table's `where`; the cell's own have priority;
    {engine=ibid; show=peak_percent}          is another field of that row; `digits=3` rounds to significant digits;
    {engine=llama.cpp; pick=best}             is the best of an engine's settings;
    {engine=ibid; kv=f16 : engine=llama.cpp}  is the ratio of two rows, above 1 if the first is better; if the second
                                              matches several settings, its best counts; `decimals=2` shows two.

A condition compares a column of the rows, or `file`, the results file without `.csv`; `*` matches anything. Parts
of a cell (between `, ` and ` / `) without a row are omitted, and so are lines without any row.
"""

FLASH = "{engine=llama.cpp; setting=flash 0} / {engine=llama.cpp; setting=flash 1}"
BESIDE_OTHERS = {
    "": "",
    "ibid F16": "{engine=ibid; kv=f16}",
    "ibid INT8": "{engine=ibid; kv=int8}",
    "llama.cpp, flash off / on": FLASH,
    "OpenVINO": "{engine=OpenVINO GenAI}",
    "to llama.cpp": "{engine=ibid; kv=f16 : engine=llama.cpp}, {engine=ibid; kv=int8 : engine=llama.cpp}",
    "to OpenVINO": "{engine=ibid; kv=f16 : engine=OpenVINO GenAI}, {engine=ibid; kv=int8 : engine=OpenVINO GenAI}",
}
WORK = [
    ("prefill of 8, tokens/s", "what=prefill; at=8"),
    ("prefill of 64, tokens/s", "what=prefill; at=64"),
    ("prefill of 512, tokens/s", "what=prefill; at=512"),
    ("decode at history 0, tokens/s", "what=decode; at=0"),
    ("decode at 1,024, tokens/s", "what=decode; at=1024"),
    ("decode at 4,096, tokens/s", "what=decode; at=4096"),
    ("44 tokens alone, ms", "what=turn; at=0/44"),
    ("44 tokens at depth 1,024, ms", "what=turn; at=1024/44"),
    ("44 tokens at depth 4,096, ms", "what=turn; at=4096/44"),
    ("load, warm, ms", "what=load"),
    ("peak memory, MB", "what=memory"),
]

IBID_TO_LLAMA = "{engine=ibid; what=%s; at=%s : engine=llama.cpp; what=%s; at=%s}"


def formats_line(label, model, prefill=512, **cells):
    return label, f"model={model}", {
        "prefill, tokens/s": f"{prefill}: {{engine=ibid; what=prefill; at={prefill}}}",
        "llama.cpp #2": f"{{engine=llama.cpp; what=prefill; at={prefill}}}",
        "ratio #2": IBID_TO_LLAMA % ("prefill", prefill, "prefill", prefill),
        "prefill #Xeon": f"{{machine=Xeon with AMX, 2 CPUs; engine=ibid to llama.cpp; what=prefill; at={prefill}}}",
        **cells}


def blas_ratio_cell(rows):
    conditions = f"what=linear; at={rows} rows"
    return (f"{{engine=own; {conditions}}} / {{engine=OpenBLAS; {conditions}}} "
            f"({{engine=OpenBLAS to own; {conditions}}})")


def turn_lines(turns):
    return [(str(turn), f"at={turn}") for turn in turns]


TURN = {
    "turn": "",
    "prompt": "{what=conversation prompt}",
    "prefilled": "{what=conversation read}",
    "reuse, ms": "{what=conversation; engine=ibid}",
    "again, ms": "{what=conversation; engine=ibid without reuse}",
    "ratio": "{what=conversation; engine=ibid : what=conversation; engine=ibid without reuse}",
}

PROMISE = {"promise": "", "goal": "", "measured": ""}


def promise(label, goal, measured):
    return label, "", {"goal": goal, "measured": measured}


MEMORY_MODELS = (("Gemma-3-4B", "the keys and values of Gemma-3-4B"),
                 ("Qwen3.5-4B", "the keys, values and states of Qwen3.5-4B"))


# llama.cpp's nearest type to INT8 is Q8_0.
def memory_line(label, model, kv):
    ours, theirs = ("f16", "f16") if kv == "F16" else ("int8", "q8_0")
    cells = {"llama.cpp, MiB": f"{{engine=llama.cpp; setting=windows alone; kv={theirs}}}",
             "with `swa_full`, MiB": f"{{engine=llama.cpp; setting=swa_full; kv={theirs}}}",
             "a checkpoint of it, MiB": f"{{engine=llama.cpp; what=memory of a checkpoint; setting=; kv={theirs}}}",
             "16 of them, MiB": f"{{engine=llama.cpp; what=memory of 16 checkpoints; setting=computed; kv={theirs}}}"}
    return f"{label}, {kv}", f"model={model}; kv={ours}", cells


# The length of the prompt is adapted to the model's speed.
def architecture(label, model, prefill):
    return label, f"model={model}", {
        "prefill, tokens/s": f"{prefill}: {{engine=ibid; what=prefill; at={prefill}; digits=3}}",
        "llama.cpp": f"{{engine=llama.cpp; what=prefill; at={prefill}; digits=3}}",
        "ratio": IBID_TO_LLAMA % ("prefill", prefill, "prefill", prefill),
    }


POLICIES = ("round robin", "power of two", "hash", "bounded hash", "exact")


def policy_lines():
    """A line for each policy, without and with a store."""
    return [(policy + with_store, f"setting={policy}{with_store}") for with_store in ("", ", store") for policy in POLICIES]


def by_memory(store_tokens):
    """Cells that replace those of a line with a store."""
    return {f"{name} tokens": f"{{what=memory: cached; at={n}/{store_tokens}}} % "
                              f"({{what=memory: read again; at={n}/{store_tokens}; digits=3}})"
            for name, n in (("32,768", 1 << 15), ("131,072", 1 << 17), ("524,288", 1 << 19))}


def loss_lines():
    return [(f"{n} nodes: {policy}{with_store}", f"at={n}; setting={policy}{with_store}")
            for n in (3, 10) for with_store in ("", ", store") for policy in ("round robin", "hash", "exact")]


# Numbers of the prose that are goals, so no row has them, by the section that has the prose.
GOALS = {"benchmarks#parts-of-a-pass": ("1", "15")}

KNOWN = ("tokens that an earlier request had", "setting=round robin; what=nodes: known")
EVENTS = tuple(f"{late} s late, {lost} % lost"
               for late, lost in ((0, 0), (1, 0), (10, 0), (60, 0), (600, 0), (0, 10), (0, 50), (0, 100)))
STORE_RATES = (1, 2, 5, 10, 20, 50)


TABLES = {
    # README.md
    "summary": {
        "best_bold": True,
        "missing": "not measured",
        "where": "file=smollm2; machine=AMD EPYC, 2 CPUs; model=SmolLM2-135M-Instruct*Q4_1*",
        "columns": {
            "": "",
            "ibid": "{engine=ibid; kv=int8}",
            "ibid `--kv f16`": "{engine=ibid; kv=f16}",
            "llama.cpp": "{engine=llama.cpp; pick=best}",
            "OpenVINO": "{engine=OpenVINO GenAI}",
        },
        "lines": [
            ("prefill of 512 tokens, tokens/s", "what=prefill; at=512"),
            ("decode, tokens/s", "what=decode; at=0"),
            ("decode at depth 4,096 tokens", "what=decode; at=4096"),
            ("second turn: 44 tokens at depth 1,024, ms", "what=turn; at=1024/44"),
            ("44 tokens at depth 4,096, ms", "what=turn; at=4096/44"),
            ("load, ms", "what=load"),
            ("peak memory, MB", "what=memory"),
        ],
    },
    "turns-in-short": {
        "where": "file=turns",
        "columns": {
            "turn": "",
            "prompt, tokens": "{what=conversation prompt}",
            "prefilled": "{what=conversation read}",
            "first token, ms": TURN["reuse, ms"],
            "cold prefill of the same prompt, ms": TURN["again, ms"],
            "ratio": TURN["ratio"],
        },
        "lines": turn_lines([1, 2, 5, 10]),
    },
    # docs/benchmarks.md
    "beside-others-epyc": {
        "losses_bold": True,
        "where": "file=smollm2; machine=AMD EPYC, 2 CPUs; model=SmolLM2-135M-Instruct*Q4_1*",
        "columns": BESIDE_OTHERS | {
            "of the peak, F16, INT8":
                "{engine=ibid; kv=f16; show=peak_percent}, {engine=ibid; kv=int8; show=peak_percent} %"},
        "lines": WORK,
    },
    "beside-others-amx": {
        "losses_bold": True,
        "where": "file=smollm2; machine=Xeon with AMX, 2 CPUs; model=SmolLM2-135M-Instruct*Q4_1*",
        "columns": BESIDE_OTHERS,
        "lines": WORK,
    },
    "architectures": {
        "losses_bold": True,
        "where": "file=architectures",
        "empty": "Not measured yet.",
        "columns": {
            "": "",
            "prefill, tokens/s": "",
            "llama.cpp": "",
            "ratio": "",
            "decode, tokens/s": "{engine=ibid; what=decode; at=0; digits=3}",
            "llama.cpp #2": "{engine=llama.cpp; what=decode; at=0; digits=3}",
            "ratio #2": IBID_TO_LLAMA % ("decode", 0, "decode", 0),
            "of the memory's rate": "{engine=ibid; what=decode; at=0; show=peak_percent; digits=2} %",
            "load, ms, ibid / llama.cpp":
                "{engine=ibid; what=load; digits=3} / {engine=llama.cpp; what=load; digits=3}",
            "peak memory, MB, ibid / llama.cpp":
                "{engine=ibid; what=memory; digits=4} / {engine=llama.cpp; what=memory; digits=4}",
        },
        "lines": [
            architecture("Qwen3-0.6B", "Qwen3-0.6B*", 512),
            architecture("Gemma3-1B", "Gemma3-1B*", 512),
            architecture("Qwen3-4B", "Qwen3-4B*", 128),
            architecture("Gemma3-4B", "Gemma3-4B*", 128),
            architecture("Qwen3-30B-A3B, 12 layers", "Qwen3-30B-A3B*", 64),
            architecture("gpt-oss-20b, 8 layers", "gpt-oss-20b*", 64),
        ],
    },
    "formats": {
        "losses_bold": True,
        "where": "file=formats; machine=AMD EPYC, 2 CPUs",
        "columns": {
            "": "",
            "decode, tokens/s": "{engine=ibid; what=decode}",
            "llama.cpp": "{engine=llama.cpp; what=decode}",
            "ratio": "{engine=ibid; what=decode : engine=llama.cpp; what=decode}",
            "of the floor": "{engine=ibid; what=decode; show=peak_percent} %",
            "prefill, tokens/s": "",
            "llama.cpp #2": "",
            "ratio #2": "",
            "Xeon: decode": "{machine=Xeon with AMX, 2 CPUs; engine=ibid to llama.cpp; what=decode}",
            "prefill #Xeon": "",
        },
        "lines": [
            formats_line("SmolLM2 Q4_0", "SmolLM2-135M Q4_0"),
            formats_line("SmolLM2 Q8_0", "SmolLM2-135M Q8_0"),
            formats_line("SmolLM2 F16", "SmolLM2-135M F16"),
            formats_line("Qwen2.5-0.5B's sizes, Q4_0", "Qwen2.5-0.5B's sizes Q4_0"),
            formats_line("Qwen2.5-0.5B's sizes, Q4_K_M", "Qwen2.5-0.5B's sizes Q4_K_M", **{
                "prefill, tokens/s": "512: {engine=ibid; what=prefill; at=512; setting=} "
                                     "(again: {engine=ibid; what=prefill; at=512; setting=again})",
                "ratio #2": "{engine=ibid; what=prefill; at=512; setting= : engine=llama.cpp; what=prefill; at=512}"}),
            formats_line("Gemma-3-270M's sizes, Q4_K_M", "Gemma-3-270M's sizes Q4_K_M"),
            formats_line("7B Q4_K_M", "7B Q4_K_M", 64),
        ],
    },
    "avx": {
        "where": "file=avx",
        "columns": {
            "": "",
            "avx2": "{engine=ibid; setting=avx2, lower run} to {engine=ibid; setting=avx2, higher run} "
                    "{engine=ibid; setting=avx2, higher run; show=unit}",
            "avxvnni": "{engine=ibid; setting=avxvnni, lower run} to {engine=ibid; setting=avxvnni, higher run} "
                       "{engine=ibid; setting=avxvnni, higher run; show=unit}",
            "ratio": "{engine=avxvnni to avx2}",
        },
        "lines": [
            ("Q4_1, 1 row", "model=SmolLM2-135M Q4_1; at=1 row"),
            ("Q4_1, 128 rows", "model=SmolLM2-135M Q4_1; at=128 rows"),
            ("Q8_0, 1 row", "model=SmolLM2-135M Q8_0; at=1 row"),
            ("Q8_0, 128 rows", "model=SmolLM2-135M Q8_0; at=128 rows"),
        ],
    },
    "serve": {
        "where": "file=serve",
        "columns": {
            "": "",
            "ibid": "{engine=ibid}",
            "llama-cpp-python": "{engine=llama-cpp-python}",
            "ratio": "",
        },
        "lines": [
            (label, f"what={what}",
             {"ratio": "{engine=ibid; what=%s : engine=llama-cpp-python; what=%s}" % (what, what)} if is_rate else {})
            for label, what, is_rate in (
                ("first token, median, ms", "serve_first", True),
                ("first token, p90, ms", "serve_first_p90", True),
                ("first token, p99, ms", "serve_first_p99", True),
                ("first token of later rounds, median, ms", "serve_later", True),
                ("first token of later rounds, p99, ms", "serve_later_p99", True),
                ("time per token, median, ms", "serve_token", True),
                ("time per token, p99, ms", "serve_token_p99", True),
                ("all users, tokens/s", "serve_rate", True),
                ("prompt tokens, as the server says", "serve_prompt", False),
                ("of them cached", "serve_cached", False),
                ("failed requests", "serve_failed", False))
        ],
    },
    "server-crowd": {
        "where": "file=server-crowd",
        "columns": {"": "", "median": "", "p99": "", "longest": "", "aim": ""},
        "lines": [
            (label, "", {
                "median": "{engine=ibid; %s; what=%s_p50}" % (which, what),
                "p99": "{engine=ibid; %s; what=%s_p99}" % (which, what),
                "longest": "{engine=ibid; %s; what=%s_longest}" % (which, what),
                "aim": aim})
            for label, which, what, aim in (
                ("`GET /health`, idle server", "setting=alone", "health", "50"),
                ("`GET /health`, 256 streams of a tiny model", "setting=in the crowd", "health", "50"),
                ("`POST /echo`, idle server", "setting=alone", "crowd", ""),
                ("`POST /echo`, 2,000 slow clients of another program", "setting=elsewhere", "crowd", ""),
                ("`POST /echo`, 2,000 slow clients, connections for all", "setting=in the crowd", "crowd", ""),
                ("`POST /echo`, 2,000 slow clients, connections for half", "setting=twice the places", "crowd", ""),
                ("`GET /health`, idle server, in the same run", "setting=alone", "crowd_health", ""),
                ("`GET /health`, 2,000 slow clients of another program", "setting=elsewhere", "crowd_health", ""),
                ("`GET /health`, 2,000 slow clients, connections for all", "setting=in the crowd", "crowd_health", ""),
                ("`GET /health`, 2,000 slow clients, connections for half", "setting=twice the places",
                 "crowd_health", ""),
                ("a client disconnects during decoding, tiny model", "model=tiny", "left_decode", "100"),
                ("a client disconnects during prefill, tiny model", "model=tiny", "left_prefill", "100"),
                ("a client disconnects during decoding, SmolLM2-135M", "model=SmolLM2*", "left_decode", "100"),
                ("a client disconnects during prefill, SmolLM2-135M", "model=SmolLM2*", "left_prefill", "100"))
        ],
    },
    "openblas-avx2": {
        "where": "file=openblas",
        "columns": {"weights, outputs x columns": "", "32 rows: own / OpenBLAS": blas_ratio_cell(32),
                    "128 rows": blas_ratio_cell(128), "512 rows": blas_ratio_cell(512)},
        "lines": [(shape, f"setting=AVX2, {shape}")
                  for shape in ("F16, 3072 x 576", "F16, 4096 x 4096", "F32, 3072 x 576", "F32, 4096 x 4096")],
    },
    "quality": {
        "where": "file=quality",
        "columns": {"mode, keys and values": "", "mean KL, nat": "{what=mean KL}",
                    "top-1 agreement": "{what=top-1 agreement} %"},
        "lines": [
            ("reference, F32", "setting=reference; kv=f32",
             {"mean KL, nat": "{what=mean KL} (largest difference of a logit {what=largest difference of a logit})"}),
            ("exact, F32", "setting=exact; kv=f32"),
            ("exact, F16", "setting=exact; kv=f16"),
            ("exact, INT8", "setting=exact; kv=int8"),
            ("exact, k8v4", "setting=exact; kv=k8v4"),
            ("exact, int4", "setting=exact; kv=int4"),
        ],
    },
    "second-turn": {
        "losses_bold": True,
        "where": "file=second-turn; machine=AMD EPYC, 2 CPUs",
        "columns": {"history": "", "ibid prefills": "{engine=ibid; setting=; what=second turn read}",
                    "ms": "{engine=ibid; setting=; what=second turn; digits=3}",
                    "cold prefill, ms": "{engine=ibid; setting=read again; what=second turn; digits=3}",
                    "llama.cpp prefills": "{engine=llama.cpp; setting=cut; what=second turn read}",
                    "ms #2": "{engine=llama.cpp; setting=cut; what=second turn; digits=3}",
                    "ratio": "{engine=ibid; setting=; what=second turn : engine=llama.cpp; setting=cut; what=second turn}",
                    "llama.cpp with a checkpoint prefills":
                        "{engine=llama.cpp; setting=checkpoint; what=second turn read}",
                    "ms #3": "{engine=llama.cpp; setting=checkpoint; what=second turn; digits=3}",
                    "ratio #3":
                        "{engine=ibid; setting=; what=second turn : engine=llama.cpp; setting=checkpoint; what=second turn}"},
        "lines": [(f"{n:,}", f"at={n}") for n in (4096, 16384)],
    },
    "kv-types": {
        "where": "file=kv-types; machine=AMD EPYC, 2 CPUs",
        "missing": "not measured",
        "columns": {"keys and values": "",
                    "bytes of keys and values per token": "{what=bytes of a token}",
                    "decode at depth 4,096, tokens/s": "{what=decode; at=4096; digits=3; pick=best}",
                    "44 tokens at depth 4,096, ms": "{what=turn; at=4096/44; digits=3; pick=best}",
                    "decode at depth 16,384": "{what=decode; at=16384; digits=3; pick=best}",
                    "44 tokens at depth 16,384, ms": "{what=turn; at=16384/44; digits=3; pick=best}"},
        "lines": [(f"ibid {label}", f"engine=ibid; kv={kv}")
                  for label, kv in (("F16", "f16"), ("INT8", "int8"), ("k8v4", "k8v4"), ("int4", "int4"))] +
                 [(f"llama.cpp {label}", f"engine=llama.cpp; kv={kv}")
                  for label, kv in (("F16", "f16"), ("Q8_0", "q8_0"), ("Q4_0", "q4_0"))],
    },
    "kv-types-avx512": {
        "where": "file=kv-types; machine=AMD EPYC, 2 CPUs; what=attention",
        "columns": {"attention": "", "INT8, ms": "{kv=int8; setting=}", "k8v4, ms": "{kv=k8v4; setting=}",
                    "k8v4 before": "{kv=k8v4; setting=row by row}", "int4, ms": "{kv=int4; setting=}",
                    "int4 before": "{kv=int4; setting=row by row}"},
        "lines": [(f"{model}, {label}", f"model={model}; at={at}")
                  for model in ("SmolLM2-135M", "32 heads, 8 KV heads of 128, 4 layers")
                  for label, at in (("44 rows behind 4,096", "4096/44"), ("1 row behind 4,095", "4095/1"),
                                    ("1 row behind 16,383", "16383/1"))],
    },
    "kv-types-avx2": {
        "where": "file=kv-types; machine=AMD EPYC without AVX-512, 2 CPUs; what=attention; at=4096/44; setting=",
        "columns": {"shape": "", "INT8, ms": "{kv=int8}", "k8v4, ms": "{kv=k8v4}", "int4, ms": "{kv=int4}"},
        "lines": [(model, f"model={model}") for model in ("SmolLM2-135M", "32 heads, 8 KV heads of 128, 4 layers")],
    },
    "memory": {
        "where": "file=memory; at=32768; what=memory of a sequence",
        "columns": {"keys and values": "",
                    "all positions in all layers, MiB": "{engine=ibid; setting=all layers, computed}",
                    "ibid, MiB": "{engine=ibid; setting=least}",
                    "of all": "{engine=ibid; setting=least; what=share of all layers} %",
                    "of it states, MiB": "{engine=ibid; setting=least; what=memory of states}",
                    "llama.cpp, MiB": "",
                    "with `swa_full`, MiB": "",
                    "a checkpoint of it, MiB": "",
                    "16 of them, MiB": ""},
        "lines": [memory_line(model, of, kv) for model, of in MEMORY_MODELS for kv in ("F16", "INT8")],
    },
    "kept-states": {
        "where": "file=memory; at=32768; engine=ibid; setting=engine",
        "columns": {"keys and values": "", "budget, MiB": "{what=budget}", "states": "{what=kept states}",
                    "states, MiB": "{what=memory of kept states}", "of the budget": "{what=share of the budget} %"},
        "lines": [("F16", "kv=f16"), ("INT8", "kv=int8")],
    },
    "parts": {
        "where": "file=parts",
        "columns": {"": "",
                    "AVX2: prefill of 512": "{machine=AMD EPYC without AVX-512, 2 CPUs; at=prefill of 512} %",
                    "decode": "{machine=AMD EPYC without AVX-512, 2 CPUs; at=decode} %",
                    "AVX-512: prefill of 512": "{machine=AMD EPYC, 2 CPUs; at=prefill of 512} %",
                    "decode #2": "{machine=AMD EPYC, 2 CPUs; at=decode} %"},
        "lines": [
            ("transform, SmolLM2-135M's sizes Q4_1", "what=transform; model=SmolLM2*"),
            ("transform, Qwen3-0.6B's sizes Q4_K_M, 7 layers", "what=transform; model=Qwen3-0.6B*"),
            ("transform, Qwen3.5-0.8B's sizes Q4_K_M", "what=transform; model=Qwen3.5-0.8B*"),
            ("states, Qwen3.5-0.8B's sizes Q4_K_M", "what=states"),
            ("convolutions, the same", "what=convolution"),
            ("norms, gates and copies of all layers, the same", "what=what recurrent layers may share"),
        ],
    },
    "perplexity": {
        "where": "file=quality; what=perplexity, 18 texts",
        "columns": {"keys and values": "", "perplexity against float weights": "+{at=mean} % ({at=standard error})"},
        "lines": [
            ("F32", "kv=f32", {"perplexity against float weights":
                               "+{at=mean} % (standard error {at=standard error})"}),
            ("F16", "kv=f16"),
            ("INT8", "kv=int8"),
        ],
    },
    "turns": {
        "where": "file=turns",
        "columns": TURN | {
            "rendered, B": "{what=conversation rendered}",
            "compared, B": "{what=conversation compared}",
            "tokenised, B": "{what=conversation tokenised}",
            "KV copied, B": "{what=conversation copied}",
        },
        "lines": turn_lines(range(1, 11)),
    },
    "turn-curve": {
        "where": "file=turn-curve",
        "columns": {
            "history": "",
            "reuse": "{setting=reuse}",
            "cold prefill": "{setting=read again}",
            "ratio": "{setting=reuse : setting=read again}",
            "from disk": "{setting=from disk}",
            "to reuse": "{setting=reuse; decimals=2 : setting=from disk}",
            "bare pass": "{setting=bare pass}",
        },
        "lines": [(f"{n:,}", f"at={n}") for n in (0, 250, 500, 1000, 2000, 4000, 8000)],
    },
    "constraints": {
        "where": "file=constraints",
        "columns": {
            "": "",
            "first answer": "{what=rate to unconstrained; at=first} %",
            "later answers": "{what=rate to unconstrained; at=second} %",
            "masks of the first, mean / p99, µs": "{what=mean mask; at=first} / {what=p99 mask; at=first}",
            "of later ones": "{what=mean mask; at=second} / {what=p99 mask; at=second}",
        },
        "lines": [(name, f"setting={name}") for name in (
            "any JSON object", "a person", "a list of persons", "40 properties", "500 properties",
            "a list of short strings", "a sentence as a regular expression", "a GBNF of arithmetic",
            "8 answers at once")],
    },
    "sessions": {
        "where": "file=sessions",
        "columns": PROMISE,
        "lines": [
            promise("append-only chat, 100 turns, 8,099 tokens", "at most 1 token a turn computed again",
                    "{what=tokens computed again; at=chat}; {what=ids with keys and values} % of the tokens had keys "
                    "and values; the next turn feeds the last one of a turn"),
            promise("counters of 200 turns, second hundred to first", "no counter grows",
                    "at most +{what=growth of counters} % (pages)"),
            promise("system message of 3,000 tokens, 50 sessions", "prefilled once, in memory once",
                    "{what=tokens read again} of {what=tokens asked} tokens prefilled again; "
                    "{what=pages; setting=together} pages, {what=memory; setting=together} MiB (without "
                    "sharing: {what=pages; setting=apart} pages, {what=memory; setting=apart} MiB)"),
            promise("resumed at 4,000 tokens, files in the system's cache",
                    "at most 2 times a warm turn; 20 times as fast as a cold prefill",
                    "{what=resume; setting=cached} ms to {what=warm turn; setting=cached} ms: "
                    "**{what=resume to warm; setting=cached} times** ({what=resume to warm; setting=cached, 3 rounds} "
                    "in a run of three rounds); {what=reading again to resume; setting=cached} times; same bits"),
            promise("resumed at 4,000 tokens, files from the device", "as above",
                    "{what=resume; setting=device} ms to {what=warm turn; setting=device} ms: "
                    "**{what=resume to warm; setting=device} times** ({what=resume to warm; setting=device, picture} "
                    "in the picture of that day); **{what=reading again to resume; setting=device} times**; same bits"),
            promise("resumed with INT8 keys and values: system's cache / device", "as above",
                    "**{what=resume to warm; setting=cached, int8} times**; "
                    "{what=reading again to resume; setting=cached, int8} times / "
                    "**{what=resume to warm; setting=device, int8} times**; "
                    "{what=reading again to resume; setting=device, int8} times; same bits"),
            promise("warm hit of 4,000 tokens", "at most one page copied; 0.5 ms",
                    "{what=warm hit} us; {what=bytes copied; at=hit} bytes, {what=bytes copied; at=first write} before "
                    "the first write"),
            promise("bytes of keys and values per token", "F32 46,080, F16 23,040, INT8 at most 12,300",
                    "{what=bytes of a token; kv=f32}, {what=bytes of a token; kv=f16}, "
                    "{what=bytes of a token; kv=int8}"),
            promise("a session decodes during a prefill of 4,000 tokens: gap between its tokens",
                    "40 ms and a step of 3.5 ms",
                    "median {what=gap; at=median}, p95 {what=gap; at=p95}, "
                    "**longest {what=gap; at=longest} ms of {what=gap; at=longest of all}**"),
            promise("the rate of that prefill", "70 % of the rate of a prefill alone",
                    "{what=reading beside a session} %"),
            promise("a prefill is cancelled: alone / while a session decodes", "one layer / 43.0 ms",
                    "median {what=cancel; setting=alone; at=median}, longest "
                    "{what=cancel; setting=alone; at=longest} ms / median {what=cancel; setting=beside; at=median}, longest "
                    "{what=cancel; setting=beside; at=longest} ms"),
            promise("8 sessions decode together", "", "{what=8 sessions to 1} times the tokens of one"),
            promise("INT8 to F32 keys and values, mean KL over 512 positions "
                    "(`apps_test --gtest_filter='*Int8KeysAndValues*'`)", "0.0003 nat",
                    "{what=mean KL, INT8 to F32; setting=float activations} with float activations; with int8 "
                    "activations, whose roundings change with the rows, "
                    "{what=mean KL, INT8 to F32; setting=int8 activations}"),
        ],
    },
    "company": {
        "where": "file=company",
        "columns": {
            "new rows of each": "",
            "shape": "{engine=ibid; kv=f16; setting=apart; show=model}",
            "F16 apart, ms": "{engine=ibid; kv=f16; setting=apart}",
            "F16 once, ms": "{engine=ibid; kv=f16; setting=once}",
            "ratio": "{engine=ibid; kv=f16; setting=once; decimals=2 : engine=ibid; kv=f16; setting=apart}",
            "INT8 apart, ms": "{engine=ibid; kv=int8; setting=apart}",
            "INT8 once, ms": "{engine=ibid; kv=int8; setting=once}",
            "ratio #2": "{engine=ibid; kv=int8; setting=once; decimals=2 : engine=ibid; kv=int8; setting=apart}",
        },
        "lines": [(str(n), f"at={n}; model={shape}")
                  for shape in ("SmolLM2-135M", "32 heads, 8 KV heads of 128, 4 layers") for n in (1, 8)],
    },
    "store-branching": {
        "where": "file=store; what=tokens reused; engine=ibid",
        "columns": {"budget, tokens": "", "LRU": "{setting=branching, LRU} %",
                    "default": "{setting=branching, default} %", "declared": "{setting=branching, declared} %"},
        "lines": [(f"{n:,}", f"at={n}") for n in (25000, 50000, 100000, 200000, 400000)],
    },
    "store-conversations": {
        "where": "file=store; what=tokens reused; engine=ibid",
        "columns": {"budget, tokens": "",
                    "trace, LRU": "{setting=trace, LRU} %", "trace, default": "{setting=trace, default} %",
                    "conversations, LRU": "{setting=conversations, LRU} %",
                    "conversations, default": "{setting=conversations, default} %"},
        "lines": [(f"{n:,}", f"at={n}") for n in (500000, 1000000, 2000000, 4000000, 8000000, 16000000)],
    },
    "simulation-nodes": {
        "where": "file=simulation; model=conversation; what=nodes: cached",
        "columns": {"policy": "", **{f"{n:,} node{'s' * (n > 1)}": f"{{at={n}; digits=3}} %" for n in (1, 10, 100, 1000)}},
        "lines": [KNOWN, *policy_lines()],
    },
    "simulation-nodes-synthetic": {
        "where": "file=simulation; model=synthetic; what=nodes: cached",
        "columns": {"policy": "", **{f"{n:,} node{'s' * (n > 1)}": f"{{at={n}; digits=3}} %" for n in (1, 10, 100, 1000)}},
        "lines": [KNOWN, *policy_lines()],
    },
    "simulation-times": {
        "where": "file=simulation; model=conversation; at=100",
        "columns": {"policy": "",
                    "cached": "{what=nodes: cached; digits=3} %",
                    "prefilled again, tokens per request": "{what=nodes: read again}",
                    "first token, median, s": "{what=nodes: first token, median; digits=3}",
                    "p95, s": "{what=nodes: first token, p95; digits=3}",
                    "busiest node, of the mean": "{what=nodes: busiest node; digits=3}"},
        "lines": policy_lines(),
    },
    "simulation-memory": {
        "where": "file=simulation; model=conversation",
        "columns": {"policy": "", **by_memory(0)},
        "lines": [(label, conditions, by_memory(1 << 18) if "store" in label else {})
                  for label, conditions in policy_lines()],
    },
    "simulation-store-size": {
        "where": "file=simulation; setting=round robin, store; what=memory: cached",
        "columns": {"store, tokens for each node": "",
                    "conversation": "{model=conversation} %", "synthetic": "{model=synthetic} %"},
        "lines": [(f"{n:,}", f"at={1 << 17}/{n}") for n in (1 << 15, 1 << 16, 1 << 17, 1 << 18, 1 << 20)],
    },
    "simulation-loss": {
        "where": "file=simulation; model=conversation",
        "columns": {"": "",
                    "cached in the minute after": "{what=loss: cached in the minute after; digits=3} %",
                    "without the loss": "{what=loss: cached in that minute without loss; digits=3} %",
                    "prefilled again because of it, thousand tokens": "{what=loss: read again for the loss; digits=3}",
                    "requests sent again": "{what=loss: requests sent again; digits=2}"},
        "lines": loss_lines(),
    },
    "simulation-events": {
        "where": "file=simulation; setting=exact",
        "columns": {"events": "",
                    **{f"{model}: {heading}": f"{{model={model}; what=events: {what}; digits={digits}}}{unit}"
                       for model in ("conversation", "synthetic")
                       for heading, what, digits, unit in (("cached", "cached", 3, " %"),
                                                           ("falsely claimed", "falsely claimed", 2, " %"),
                                                           ("answered", "answered", 3, " %"))}},
        "lines": [(at, f"at={at}") for at in EVENTS],
    },
    "simulation-store": {
        "where": "file=simulation; model=conversation; at=100",
        "columns": {"policy": "",
                    **{f"{way}, {heading}": f"{{what=nodes: {way}, {which}; digits=3}}"
                       for way in ("fetched", "stored") for heading, which in (("mean", "mean"),
                                                                               ("busiest 10 s", "busiest"))}},
        "lines": policy_lines()[len(POLICIES):],
    },
    "simulation-store-rate": {
        "where": "file=simulation; model=conversation",
        "columns": {"MB/s for each node": "",
                    **{f"{policy}: {heading}": f"{{setting={policy}, store; what=store: {what}; digits=3}}{unit}"
                       for policy in ("round robin", "exact")
                       for heading, what, unit in (("cached", "cached", " %"), ("first token, p95", "first token, p95", " s"))}},
        "lines": [(str(rate), f"at={rate}") for rate in STORE_RATES],
    },
    "simulation-trace": {
        "where": "file=simulation; what=nodes: cached",
        "columns": {"policy": "",
                    **{f"{workload}, {n} nodes: {name}": f"{{model={workload}{suffix}; at={n}; digits=3}} %"
                       for workload in ("conversation", "synthetic") for n in (10, 100)
                       for name, suffix in (("generated", ""), ("trace", "_trace"))}},
        "lines": [KNOWN, *policy_lines()],
    },
    "simulation-trace-times": {
        "where": "file=simulation; at=100",
        "columns": {"policy": "",
                    **{f"{heading}: {name}": f"{{model={model}; what=nodes: first token, {what}; digits=3}} s"
                       for heading, what in (("median", "median"), ("p95", "p95"))
                       for name, model in (("generated", "conversation"), ("trace", "conversation_trace"))}},
        "lines": policy_lines(),
    },
}
