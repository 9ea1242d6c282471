"""make_corpus.py [SHARED]: writes the initial inputs of the fuzz targets to corpus/, beside inputs found by fuzzing.

SHARED is the folder of the reference data: the configurations of its tiny checkpoints are inputs.
"""
import json
import pathlib
import random
import struct
import sys

CORPUS = pathlib.Path(__file__).parent / "corpus"
TEXTS = ["", "a", "Hello world, it's 12345 o'clock.\n\n  next\tline ", "caf\u00e9 e\u0301 \ufb01 \u2160 \u1e9b\u0323",
         "\u4e16\u754c\u3042\u30a2 \uac00\u1100\u1161 \u0e01\u0e33 \u0623\u064e", "\U0001f600\U0001f1e9\U0001f1ea \u200d\ufe0f",
         "<|im_start|>user\n<s> </s> <unk>", "     \r\n\r\n   \u3000\u00a0\u2581\u2581a", "def f(x):\n    return x**2 + 0x1F\n"]
RAW = [b"\xff\xfe\xc3", b"\xf0\x9f\x98", b"\xed\xa0\x80a\xc0\xaf", bytes(range(256))]
BLOCK_BYTES = [4, 2, 2, 8, 1, 2, 4, 8, 1, 1, 1, 1, 36, 36, 18, 20, 22, 24, 34, 84, 110, 144, 176, 210, 54, 66, 50, 56,
               66, 74, 82, 98, 110, 136, 18, 17, 36]


def put(target, name, content):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def texts():
    return [text.encode() for text in TEXTS] + RAW


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, kind, value):
    return string(key) + struct.pack("<I", kind) + value


def array(kind, values):
    return struct.pack("<IQ", kind, len(values)) + b"".join(values)


def gguf(entries, tensors, version=3, alignment=32):
    """tensors: (name, dims innermost first, type, data)."""
    header = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries)) + b"".join(entries)
    data = b""
    for name, dims, kind, content in tensors:
        header += string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
        data += content + bytes(-len(content) % alignment)
    return header + bytes(-len(header) % alignment) + data


def write_gguf():
    all_types = [entry("u8", 0, b"\1"), entry("i16", 3, b"\1\2"), entry("f32", 6, struct.pack("<f", 1e-5)),
                 entry("yes", 7, b"\1"), entry("general.architecture", 8, string("llama")), entry("u64", 10, bytes(8)),
                 entry("f64", 12, struct.pack("<d", 0.5)), entry("tokens", 9, array(8, [string(t) for t in TEXTS[:4]])),
                 entry("scores", 9, array(6, [struct.pack("<f", i) for i in range(3)])),
                 entry("flags", 9, array(7, [b"\0", b"\1"]))]
    tensors = [("token_embd.weight", (32, 2), 8, bytes(68)), ("norm", (5,), 0, bytes(20)), ("scalar", (), 0, bytes(4)),
               ("q4_k", (256, 1), 12, bytes(144)), ("mxfp4", (32,), 39, bytes(17)), ("empty", (0,), 0, b"")]
    put("gguf_header", "all_types", gguf(all_types, tensors))
    put("gguf_header", "version_2", gguf(all_types[:3], tensors[:2], version=2))
    put("gguf_header", "aligned_to_4", gguf([entry("general.alignment", 4, struct.pack("<I", 4))], tensors, alignment=4))
    put("gguf_header", "nothing", gguf([], []))


def write_blocks():
    for number, size in enumerate(BLOCK_BYTES):
        rng = random.Random(number)
        put("blocks", f"type_{number}", bytes([number]) + bytes(rng.randrange(256) for _ in range(size)))
    put("blocks", "mxfp4_scales_255", bytes([35]) + bytes([255]) + bytes(16) + bytes([254]) + bytes(range(16)))


def write_texts():
    for number, text in enumerate(texts()):
        put("unicode", f"text_{number}", text)
        put("json", f"text_{number}", json.dumps({"weight_map": {"a": text.decode("latin-1")}, "n": [1.5, -2, None]}))
    for family in range(17):
        put("pretokenizer", f"family_{family}", bytes([family, 20]) + TEXTS[2].encode() + TEXTS[4].encode())
    for family in range(18):
        put("encode", f"family_{family}", bytes([family, 0, 3, 1, 9, 2, 5]) + texts()[family % 13] + b" caf\xc3\xa9")
    put("json", "index", '{"metadata": {"total_size": 12}, "weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}')
    put("json", "python_floats", '{"a": [0.0, Infinity, -Infinity ,\n NaN], "NaN, Infinity": {"__float__": "NaN"}, "b":NaN}')
    put("json", "numbers", "[0, -0.0, 1e308, 18446744073709551615, -9223372036854775808, 0.1, \"\\u00e9\\ud83d\\ude00\"]")
    for number, value in enumerate([0.0, -0.0, 0.1, 1e16, 1e-5, 5e-324, 1.7976931348623157e308, float("inf"), float("nan")]):
        put("numbers", f"float_{number}", struct.pack("<d", value) + bytes([number, 3, 10]) + b" 1_000.5e3 ")
    put("numbers", "hexadecimal", bytes(10) + bytes([16]) + b"-7fffffffffffffff")


def write_charsmap():
    def double_array(rules):
        """A trie for a few single bytes: unit 0's children are at 256 ^ label."""
        units, text = [0] * 1024, b""
        units[0] = 256 << 10
        for number, (label, to) in enumerate(sorted(rules.items())):
            node, leaf = 256 ^ label, 512 + 256 * 0 + number * 2
            units[node] = label | ((node ^ leaf) << 10) | (1 << 8)
            units[leaf] = (1 << 31) | len(text)
            text += to + b"\0"
        data = struct.pack(f"<{len(units)}I", *units)
        return struct.pack("<I", len(data)) + data + text
    put("charsmap", "two_rules", b"\x04aab " + double_array({0x61: b"A", 0x62: b""}))
    put("charsmap", "tiny", b"\x02ab" + struct.pack("<I", 16) + struct.pack("<4I", 1 << 10, 0x61, 1 << 31, 0) + b"x\0")


def write_vocabularies():
    for model in range(5):
        for pre in (0, 3, 6):
            rng = random.Random(model * 100 + pre)
            head = bytes([model, pre, 1, 1, 2, 255, 0, 1, 1, model % 4 if model < 4 else 3])
            put("gguf_vocabulary", f"model_{model}_{pre}", head + bytes(rng.randrange(160) for _ in range(120)))


def tokenizer(model, **more):
    whole = {"version": "1.0", "added_tokens": [{"id": 0, "content": "<unk>", "special": True},
                                                {"id": 1, "content": "<s>", "special": True, "rstrip": True},
                                                {"id": 2, "content": "</s>", "special": False, "lstrip": True}],
             "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": model}
    return json.dumps(whole | more, ensure_ascii=False)


def write_tokenizers():
    bytes_to_text = {b: chr(b) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174 else None for b in range(256)}
    hidden = iter(range(256, 512))
    alphabet = [bytes_to_text[b] or chr(next(hidden)) for b in range(256)]
    specials = {"<unk>": 0, "<s>": 1, "</s>": 2}
    vocab = specials | {c: i + 3 for i, c in enumerate(alphabet)} | {"ab": 259, "\u0120a": 260, "\u0120ab": 261}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    put("tokenizer_json", "byte_level", tokenizer(
        {"type": "BPE", "vocab": vocab, "merges": ["a b", "\u0120 a", "\u0120 ab"]}, pre_tokenizer=level, decoder=level,
        normalizer={"type": "NFC"}))
    pieces = specials | {f"<0x{b:02X}>": b + 3 for b in range(256)} | {"\u2581": 259, "a": 260, "b": 261, "\u2581a": 262}
    put("tokenizer_json", "pieces", tokenizer(
        {"type": "BPE", "vocab": pieces, "merges": [["\u2581", "a"]], "byte_fallback": True, "unk_token": "<unk>",
         "fuse_unk": True},
        normalizer={"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
                                                        {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
        decoder={"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                                                  {"type": "ByteFallback"}, {"type": "Fuse"},
                                                  {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        post_processor={"type": "TemplateProcessing",
                        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                        "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}))
    scored = [["<unk>", 0.0], ["<s>", 0.0], ["</s>", 0.0], ["\u2581", -1.5], ["a", -2.0], ["\u2581a", -2.5], ["caf", -3]]
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    put("tokenizer_json", "unigram", tokenizer({"type": "Unigram", "unk_id": 0, "vocab": scored, "byte_fallback": False},
                                               pre_tokenizer=metaspace, decoder=metaspace,
                                               normalizer={"type": "Sequence", "normalizers": [{"type": "NFKC"}]}))


def write_files():
    calm = random.Random(1)
    for number in range(6):
        quiet = bytes(calm.randrange(200) for _ in range(90))
        put("gguf_split", f"parts_{number}", bytes([number % 4, 1 + number % 3, number % 2]) + quiet)
    for method in range(7):
        for group in (2, 3):
            quiet = bytes(calm.randrange(180) for _ in range(160))
            put("safetensors_directory", f"method_{method}_{group}", bytes([method, 1, method % 3, group]) + quiet)
    header = '{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},' \
             '"b":{"dtype":"F16","shape":[],"data_offsets":[8,10]},"c":{"dtype":"U8","shape":[0],"data_offsets":[10,10]}}  '
    put("safetensors_header", "three", b"\x0a" + header.encode())
    put("safetensors_header", "whole_file", struct.pack("<Q", len(header)) + header.encode() + bytes(10))
    put("kv_page", "sound", bytes([1, 70, 5]))
    put("kv_page", "changed", bytes([1, 3, 5, 8, 0, 1, 2, 40, 1, 2, 3]))
    put("kv_page", "raw", b"\0ibidKV\r\n" + struct.pack("<IIQ", 1, 0x01020304, 152) + bytes(64) +
        struct.pack("<QIIQQQ", 0, 3, 1, 8, 160, 0) + bytes(40))


def write_sessions():
    session = {"model": "m.gguf", "variables": {"tools": [{"a": 1.5}]}, "now": "2026-01-31T12:00:00", "when_full": "error",
               "repair_when_idle": True, "messages": [{"role": "user", "content": "hi"},
                                                      {"role": "assistant", "content": "\u00e9"}],
               "pinned": [0], "replies": [{"message": 1, "ids": [5, 6, 2147483647], "end_of_turn": 2}],
               "usage": {"n_prompt": 3, "n_cached": 0, "n_decoded": 2}, "n_ids": 8}
    put("session", "sound", json.dumps(session))
    put("session", "losses", json.dumps(session | {"pinned": [7], "when_full": "sometimes", "usage": [], "replies": [{}]}))
    put("session", "older", json.dumps({"messages": session["messages"], "name_space": "x"}))


TEMPLATES = [
    "{{ bos_token }}{% for m in messages %}{{ '<|' + m.role + '|>\\n' + (m.content|string)|trim + eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}",
    "{%- for message in messages -%}{%- if loop.last and message['role'] == 'user' -%}[{{ message.content }}]"
    "{%- elif message.tool_calls is defined -%}{{ message.tool_calls|tojson(indent=2) }}{%- else -%}"
    "{{ message.content.split('</think>')[-1].lstrip('\\n') }}{%- endif -%}{%- endfor -%}",
    "{% macro show(x, n=2) %}{{ caller() if caller else x * n }}{% endmacro %}{% set ns = namespace(i=0) %}"
    "{% for m in messages|selectattr('role', 'equalto', 'user') %}{% set ns.i = ns.i + 1 %}{{ show(m.role) }}{{ ns.i }}"
    "{% else %}none{% endfor %}{% call show(1) %}called{% endcall %}",
    "{{ '%5.2f|%-4s|%x' % (3.14159, 'a', 255) }}{{ '{:>8,.1f} {0!r}'.format(12345.678) }}{{ messages[::-1]|length }}"
    "{{ messages|map(attribute='role')|join(', ')|upper|title|replace('U', 'v') }}{{ range(1, 9, 2)|list }}",
    "{{ strftime_now('%Y-%m-%d %H') }}{{ raise_exception('no') if messages|length > 4 else {'a': [1, 2.5, none]}|items|list }}",
    "{% filter indent(2) %}{% set x %}a\nb{% endset %}{{ x }}{% endfilter %}{{ ['b', 'a']|sort|first ~ 1 // 2 ** 3 % 5 }}"
    "{{ 'a' in 'abc' and not false is none }}{# comment #}{% raw %}{{ raw }}{% endraw %}",
    "{% for k, v in {'a': 1}.items() recursive %}{{ loop.index0 }}{{ loop.previtem }}{% if loop.first %}{% continue %}"
    "{% endif %}{{ loop(v) }}{% endfor %}{{ messages[-1].content|groupby('type') }}",
]


def write_requests():
    head = b"POST /v1/models/a%20b?q=1 HTTP/1.1\r\nHost: localhost\r\n"
    requests = {
        "plain": b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n",
        "old": b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "length": head + b"Content-Length: 5\r\n\r\nhelloGET",
        "chunks": head + b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\na\r\n\r\n1\r\nb\r\n0\r\nX: y\r\n\r\nrest",
        "both": head + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "absolute": b"GET http://a.example:80/v1/sessions/1/x/2 HTTP/1.1\r\nHost: b\r\n\r\n",
        "asterisk": b"OPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
        "preflight": b"OPTIONS /locked HTTP/1.1\r\nHost: localhost\r\nOrigin: http://b.example\r\n"
                     b"Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization, x-a\r\n"
                     b"Access-Control-Request-Private-Network: true\r\n\r\n",
        "key": b"POST /locked HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer fuzzing-key\r\n\r\n",
        "expect": head + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
        "compressed": head + b"Content-Encoding: gzip\r\n\r\n",
        "tls": b"\x16\x03\x01\x02\x00\x01",
        "path": b"GET /%00%ff%zz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "newlines": b"\r\n\r\nGET /health HTTP/1.1\nHost: localhost\n\n\r\n\r\n",
    }
    for name, request in requests.items():
        for cut in (0, 20, len(request) - 2):
            put("http_request", f"{name}_{cut}", bytes([cut % 256]) + request)


# The first byte selects the size of the pieces, the second is the size of the room (tests/fuzz/resp.cc).
RESP_ANSWERS = {
    "simple": b"+OK\r\n-ERR no\r\n:7\r\n$3\r\nabc\r\n$-1\r\n*-1\r\n*2\r\n$1\r\na\r\n:1\r\n",
    "version_3": b"_\r\n#t\r\n#f\r\n,1.5\r\n(123\r\n=7\r\ntxt:abc\r\n!5\r\nERR x\r\n~1\r\n+a\r\n%1\r\n+k\r\n:1\r\n",
    "pushes": b">2\r\n+message\r\n+x\r\n|1\r\n+ttl\r\n:9\r\n$2\r\nab\r\n",
    "nested": b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
    "lengths": b"$9223372036854775807\r\n",
    "elements": b"%4611686018427387904\r\n",
    "negative": b"$-2\r\n",
    "long_line": b"+" + b"a" * 100,
    "long_value": b"$200\r\n" + bytes(range(200)) + b"\r\n+OK\r\n",
    "http": b"HTTP/1.1 400 Bad Request\r\n\r\n",
}


def write_resp():
    for number, (name, answer) in enumerate(RESP_ANSWERS.items()):
        put("resp", name, bytes([3 * number % 16, 0]) + answer)
        put("resp", name + "_room", bytes([5 * number % 16, 250]) + answer)


def write_templates():
    for number, template in enumerate(TEMPLATES):
        put("chat_template", f"template_{number}", template)


# The first byte selects the reply format and, plus N_FORMATS, that calls are streamed; the second how the text is split
# (tests/fuzz/reply.cc).
N_FORMATS = 18
REPLIES = [
    (0, 'Hm <tool_call>\n{"name": "f", "arguments": {"s": "a\\n", "n": [1.5, null, true]}}\n</tool_call>\n<tool_call>{"name": "x"}'),
    (0, '<think>\nHm.\n</think>\n\n<response>{"a": 1}</response> <tool_call>'),
    (1, '<|tool_call|>[{"name": "f", "arguments": {}}, {"name": "g", "arguments": {"s": 1}}] end'),
    (2, '[TOOL_CALLS] [{"name": "g", "arguments": "{}", "id": "abcdefghi"}]'),
    (3, '<|python_tag|>{"name": "f", "parameters": {"s": "x"}}; {"name": "g", "parameters": {}}'),
    (4, 'a<function=f>{"n": 1e5}</function><function=g></function>'),
    (5, '<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"s": "\u00fc"}'
        '<|tool_call_end|><|tool_calls_section_end|>'),
    (6, '<tool_call>\n<function=f>\n<parameter=s>\n</parameter> x\n</parameter>\n<parameter=n>\nTrue\n</parameter>\n</function>\n</tool_call>'),
    (8, '<|tool_call>call:f{n:-1,s:<|"|>a}b<|"|>,o:{k:[None,true]}}<tool_call|>'),
    (9, "[<|tool_call>call:f(n=1, s='a\\'b')<tool_call|>, <|tool_call>call:g()<tool_call|>"),
    (11, '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.f '
         '<|constrain|>json<|message|>{"n": 1}<|call|><|start|>assistant<|channel|>final<|message|>So.'),
    (11, '<|message|>Right<|end|>>\n'),
    (6, '<tool_call>\n<function=f>\n{"s":  " a  b "}\n</function>\n</tool_call>'),
    (7, '<tool_call>\n<function=f>\n[<o>[<k>1[</k>[<item>a[</item>[</o></function></tool_call><|end|>'),
    (10, "<|tool_call_start|>[f(s='a', n=1), g()]<|tool_call_end|> x"),
    (12, 'f\n<tool_call>{"name": "f", "arguments": {}}</tool_call>'),
    (13, '<|START_ACTION|>[\n    {"tool_name": "f", "parameters": {"n": 1}},\n    {"tool_name": "g", "parameters": {}}\n]<|END_ACTION|>'),
    (14, '<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>f<\uff5ctool\u2581sep\uff5c>{"n": 1}'
         '<\uff5ctool\u2581call\u2581end\uff5c><\uff5ctool\u2581calls\u2581end\uff5c>'),
    (15, 'functools[{"name": "f", "arguments": {"s": "x"}}, {"name": "g", "arguments": {}}]'),
    (16, '[THINK]a[/THINK]<|calls|>\n<invoke name="f">\n<parameter name="s" string="true">1</parameter>\n'
         '<parameter name="n" string="false">1</parameter>\n</invoke>\n</|calls|>'),
    (17, '[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{"n": 1}[TOOL_CALLS]g[ARGS]{}'),
]


def write_replies():
    for number, (form, text) in enumerate(REPLIES):
        put("reply", f"reply_{number}", bytes([form, 3 * number]) + text.encode())
        put("reply", f"streamed_{number}", bytes([form + N_FORMATS, 3 * number + 1]) + text.encode())
    put("reply", "plain", bytes([2 * N_FORMATS, 2]) + b" <think>\na </think> {} <tool_call> ")


def write_configs(shared):
    for folder in sorted((shared / "reference" / "tiny").iterdir()):
        if (folder / "config.json").exists():
            config = json.loads((folder / "config.json").read_text())
            for key in ("transformers_version", "torch_dtype", "dtype", "architectures", "use_cache", "initializer_range"):
                config.pop(key, None)
            put("config_row", folder.name, json.dumps(config, separators=(",", ":")))


def write_gguf_configs():
    """The same numbers under the keys of GGUF."""
    usual = {"block_count": 2, "embedding_length": 64, "feed_forward_length": 96, "attention.head_count": 4,
             "attention.head_count_kv": 2, "context_length": 256, "vocab_size": 16, "rope.freq_base": 10000.0,
             "attention.layer_norm_rms_epsilon": 1e-5}
    more = {"llama": {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
            "llama4": {}, "qwen3moe": {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32},
            "gemma3": {"attention.sliding_window": 16, "attention.key_length": 32, "attention.value_length": 32},
            "gpt-oss": {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32,
                        "attention.sliding_window": 8, "rope.scaling.type": "yarn", "rope.scaling.factor": 32.0,
                        "rope.scaling.original_context_length": 64},
            "deepseek2": {"attention.q_lora_rank": 24, "attention.kv_lora_rank": 16, "attention.key_length": 24,
                          "attention.value_length": 16, "rope.dimension_count": 8, "expert_count": 4,
                          "expert_used_count": 2, "expert_feed_forward_length": 32, "leading_dense_block_count": 1,
                          "expert_shared_count": 1, "expert_weights_scale": 2.5, "expert_gating_func": 2}}
    for name, keys in more.items():
        config = {"general.architecture": name} | {f"{name}.{key}": value for key, value in (usual | keys).items()}
        put("config_row", f"gguf_{name}", json.dumps(config, separators=(",", ":")))


def write_grammars():
    schemas = [{"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-c]+$", "maxLength": 9},
                                                 "b": {"$ref": "#/$defs/n"}}, "required": ["a"],
                "additionalProperties": {"type": "array", "prefixItems": [{"const": 1.5}], "minItems": 1, "maxItems": 3},
                "$defs": {"n": {"type": "number", "minimum": -1.25, "exclusiveMaximum": 1000, "multipleOf": 0.05}}},
               {"oneOf": [{"type": "string", "format": "date-time"}, {"enum": [None, 1, {"k": [True]}]}]},
               {"type": "object", "patternProperties": {"^x": {"format": "ipv6"}}, "minProperties": 1, "maxProperties": 3,
                "propertyNames": {"maxLength": 4}},
               {"allOf": [{"anyOf": [{"minLength": 2}, {"type": "integer"}]}, {"maximum": 7}, {"$ref": "#/allOf/1"}]}]
    grammars = ['root ::= ("a" | [^b-d\\x41] b{2,3})* # c\nb ::= "x"? | "\\u00e9"+ .',
                'root ::= "(" root ")" root | ""', 'root ::= a "b"\na ::= root | "c"',
                'root ::= <[1]> "a" (!<think> | b)*\nb ::= <think> [0-9]+ | !<[2]>']
    patterns = ["^(?:[A-Z]\\w{2,7}|\\d+(?<x>a|b)*?)$", "a{1,1000}(b{3,}c?)+", "[^\\s\\p{L}-]\\u{1F600}.", "(a*)*(?=b)"]
    for i, text in enumerate([json.dumps(schema, separators=(",", ":")) for schema in schemas]):
        put("schema", f"schema_{i}", chr(i) + text)
    for i, text in enumerate(grammars):
        put("gbnf", f"gbnf_{i}", chr(i) + text)
    for i, text in enumerate(patterns):
        put("regex", f"regex_{i}", chr(i) + text)


def write_request_bodies():
    """One request for each path through the protocols of the server: a URL path in the first line, then the body."""
    hi = [{"role": "user", "content": "hi"}]
    function = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}
    tools = [{"type": "function", "function": function}]
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}
    samplers = {"temperature": 0.5, "top_p": 0.9, "top_k": 4, "min_p": 0.1, "typical_p": 0.9, "seed": -1,
                "repeat_penalty": 1.1, "repeat_last_n": -1, "frequency_penalty": -1, "presence_penalty": 1,
                "dry_multiplier": 0.8, "dry_sequence_breakers": ["a"], "xtc_probability": 0.5, "stop": ["END"],
                "logit_bias": {"5": -100}}
    bodies = {
        "chat": ("/v1/chat/completions", {"messages": hi, "stream": True, "stream_options": {"include_usage": True}, "n": 2}),
        "chat_samplers": ("/v1/chat/completions", {"messages": hi, "logprobs": True, "top_logprobs": 3} | samplers),
        "chat_tools": ("/v1/chat/completions", {"tools": tools, "tool_choice": {"type": "function", "function": {"name": "f"}},
            "messages": hi + [{"role": "assistant", "content": None, "tool_calls": [call]},
                              {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "3"}]}]}),
        "chat_form": ("/v1/chat/completions", {"messages": hi, "reasoning_effort": "low", "response_format":
            {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}}),
        "chat_forms": ("/apply-template", {"messages": hi, "structured_outputs": {"choice": ["a", "b"]},
            "truncate": "middle", "cache_salt": "s", "chat_template_kwargs": {"x": [1]}}),
        "completion": ("/v1/completions", {"prompt": "once", "echo": True, "stream": True}),
        "completion_ids": ("/v1/completions", {"prompt": [[1, 2, 3]], "logprobs": 2}),
        "response": ("/v1/responses", {"input": "hi", "instructions": "brief", "stream": True, "reasoning": {"effort": "low"},
            "text": {"format": {"type": "json_schema", "name": "x", "schema": {}}}}),
        "response_items": ("/v1/responses", {"tools": [{"type": "function"} | function], "input": hi + [
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hmm"}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "3"}]}),
        "messages": ("/v1/messages", {"max_tokens": 4, "messages": hi, "system": [{"type": "text", "text": "s"}],
            "stream": True, "thinking": {"type": "enabled", "budget_tokens": 1024}}),
        "messages_tools": ("/v1/messages", {"max_tokens": 4, "tools": [{"name": "f", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "any"}, "messages": hi + [
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "hmm", "signature": ""},
                                                  {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "3"}]}]}),
        "count_tokens": ("/v1/messages/count_tokens", {"messages": hi}),
        "ollama_chat": ("/api/chat", {"messages": hi, "format": "json", "think": "low", "keep_alive": "5m",
            "options": {"num_predict": -1, "num_ctx": 4096} | samplers}),
        "ollama_generate": ("/api/generate", {"prompt": "hi", "system": "s", "raw": False, "stream": False}),
        "ollama_show": ("/api/show", {"model": "tiny"}),
        "llama": ("/completion", {"prompt": "once", "n_predict": 4, "n_probs": 2, "grammar": "root ::= \"a\""}),
        "tokenize": ("/tokenize", {"content": "a <|im_end|>", "with_pieces": True}),
        "detokenize": ("/detokenize", {"tokens": [1, 2, 3]}),
        "embeddings": ("/v1/embeddings", {"input": "x"}),
    }
    for name, (path, body) in bodies.items():
        put("request_bodies", name, path + "\n" + json.dumps(body, separators=(",", ":")))


if __name__ == "__main__":
    write_request_bodies()
    write_grammars()
    write_gguf()
    write_blocks()
    write_texts()
    write_charsmap()
    write_vocabularies()
    write_tokenizers()
    write_templates()
    write_replies()
    write_files()
    write_gguf_configs()
    write_sessions()
    write_requests()
    write_resp()
    if len(sys.argv) > 1:
        write_configs(pathlib.Path(sys.argv[1]))
