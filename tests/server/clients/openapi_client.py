"""Tests `ibid serve` with PyPI's schemathesis: requests that are valid by its /openapi.json, and invalid ones.

    IBID_PROGRAM=build/release/apps/ibid IBID_SERVE_MODEL=tiny.gguf python3 tests/server/clients/openapi_client.py

Each endpoint gets --examples of each kind. A finding is a 500, a response that takes longer than PATIENCE_S, a status
or body that is not in the description, a valid request that is refused for a reason that is not in REASONS, and an
invalid one that is accepted. Bodies are generated from the description, at random (--seed), so the quality of the
model does not matter: a tiny one is enough. The exit status is 1 if there was a finding; each kind of finding is
printed once, with the request.
"""
import argparse
import collections
import json
import random
import re
import sys
import time

from server import Server, package, talking_model

schemathesis = package("schemathesis")
hypothesis = package("hypothesis")
jsonschema = package("jsonschema_rs")  # dependencies of schemathesis
requests = package("requests")

PATIENCE_S = 20
MAX_TOKENS = 4  # of answers whose request has no limit

# A valid body for each endpoint, to which generated fields are added.
USER = [{"role": "user", "content": "hi"}]
SOUND = {
    "/v1/chat/completions": {"messages": USER, "max_tokens": MAX_TOKENS},
    "/v1/completions": {"prompt": "once", "max_tokens": MAX_TOKENS},
    "/v1/responses": {"input": "hi", "max_output_tokens": MAX_TOKENS},
    "/v1/messages": {"messages": USER, "max_tokens": MAX_TOKENS},
    "/v1/messages/count_tokens": {"messages": USER},
    "/api/chat": {"messages": USER, "options": {"num_predict": MAX_TOKENS}},
    "/api/generate": {"prompt": "hi", "options": {"num_predict": MAX_TOKENS}},
    "/completion": {"prompt": "once", "n_predict": MAX_TOKENS},
    "/completions": {"prompt": "once", "n_predict": MAX_TOKENS},
    "/infill": {"input_prefix": "once", "input_suffix": "end", "n_predict": MAX_TOKENS},
    "/apply-template": {"messages": USER},
}
# Valid reasons to refuse a request that matches the schema, which a schema cannot express. Patterns of the message.
REASONS = [
    r"the last message must not be from the assistant|^(messages|input): must not be empty|no message awaits an answer",
    r"needs (logprobs to be true|log-probabilities)|cannot be combined with (logprobs|a response format or tools)",
    r"are files of the server, which|^(LoRA adapters are|reranking is) not supported",  # never, whatever the request
    r"the results of the tools are missing|a second answer after an answer|^continue_final_message: |^add_generation_prompt: ",
    r"tool_calls\[\d+\]\.\w+\.(name|arguments): ",  # only those of assistants are read
    r"conflicts with another response format field",
    r"tool_choice: (names a function that is not in tools|is \"required\", but the request has no tools)",
    r"^[\w.]+: (gbnf|schema|regex|choices?)\b|^(guided_|structured_outputs\.)(json|choice): must be a",  # grammars and schemas
    r"is out of vocabulary: the model has",
    r"max_tokens: is missing",  # of /v1/messages; optional in count_tokens, which has the same fields
    r"send fewer or shorter messages|prompt is too long",  # the context is full
    r"has no tokens for filling in the middle|needs a prompt that is a string",  # of suffix and /infill
    r"cannot make embeddings",  # nor does this model
    r"^keep_alive: must be a number of seconds",  # the schema does not define the format of durations
    r"Cannot cancel a synchronous response: background responses",  # always the response of /cancel
]


def without_nulls(value):
    """Removes null members, which count as absent; the schemas express that only for top-level fields."""
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def bodies(operation, mode, n, seed):
    """n bodies that are valid or invalid by the schema (`mode`); None: no body."""
    made = []

    @hypothesis.seed(seed)
    @hypothesis.settings(max_examples=n, deadline=None, database=None, phases=[hypothesis.Phase.generate],
                         suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def collect(case):
        made.append(case.body if isinstance(case.body, (dict, list, str, int, float, bool, bytes)) else None)

    collect()
    return made


def few_fields(body, path, rng):
    """Adds some fields of a generated body to a valid one: whole bodies have so many fields that the same one is
    always refused first."""
    sound = dict(SOUND.get(path, {}))
    if not isinstance(body, dict) or not sound:
        return body
    names = rng.sample(sorted(body), min(len(body), rng.randint(1, 4)))
    return {**sound, **{name: body[name] for name in names}}


def message_of(text):
    try:
        error = json.loads(text)["error"]
        return error if isinstance(error, str) else error["message"]
    except (ValueError, KeyError, TypeError):
        return text


class Run:
    def __init__(self, server, n_examples, seed):
        self.url, self.n_examples, self.rng = server.url, n_examples, random.Random(seed)
        self.seed = seed
        self.session = requests.Session()
        self.api = self.session.get(server.url + "/openapi.json", timeout=PATIENCE_S).json()
        self.counts = collections.Counter()
        self.findings = {}
        self.ids = ["none"]  # of existing responses and conversations

    def find(self, kind, label, request, answer):
        self.findings.setdefault((kind, label, re.sub(r"\d+", "#", answer)[:80]), (request, answer))

    def schema_of(self, operation):
        """The schema of the body, or None."""
        described = self.api["paths"][operation.path][operation.method].get("requestBody")
        if described is None:
            return None
        return {**described["content"]["application/json"]["schema"], "components": self.api["components"]}

    def send(self, operation, body, is_valid):
        path, label = operation.path, operation.label
        url = self.url + re.sub(r"\{\w+\}", lambda _: self.rng.choice(self.ids[-8:]), path)
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        shown = repr(data)[:600]
        begin = time.monotonic()
        try:
            answer = self.session.request(operation.method.upper(), url, data=data, timeout=PATIENCE_S,
                                          headers={"Content-Type": "application/json"})
        except requests.RequestException as error:
            return self.find("no answer", label, shown, repr(error))
        took, status, text = time.monotonic() - begin, answer.status_code, answer.text
        self.counts[status] += 1
        if took > PATIENCE_S:  # a running stream has no timeout
            self.find("slow", label, shown, f"{took:.1f} s")
        response = self.api["paths"][operation.path][operation.method]["responses"].get(str(status))
        if response is None:
            return self.find("a status that is not in the file", label, shown, f"{status} {text}")
        if "$ref" in response:
            response = self.api["components"]["responses"][response["$ref"].rpartition("/")[2]]
        kind = answer.headers.get("Content-Type", "").partition(";")[0]
        if kind not in response["content"]:
            return self.find("a type that is not in the file", label, shown, f"{status} {kind} {text}")
        if status >= 500:
            self.find("server error", label, shown, f"{status} {text}")
        if kind == "application/json":
            schema = {**response["content"][kind]["schema"], "components": self.api["components"]}
            if not jsonschema.is_valid(schema, json.loads(text)):
                self.find("an answer that the file does not describe", label, shown, f"{status} {text}")
        if status == 400 and is_valid and not any(re.search(reason, message_of(text)) for reason in REASONS):
            self.find("valid, and refused", label, shown, message_of(text))
        if status < 400 and not is_valid:
            self.find("invalid, and taken", label, shown, text[:200])
        if status == 200:
            self.check_answer(label, shown, answer)

    def check_answer(self, label, shown, answer):
        kind = answer.headers.get("Content-Type", "")
        if kind.startswith("text/plain"):
            return
        try:
            if kind.startswith("text/event-stream"):
                events = [line[6:] for line in answer.text.split("\n") if line.startswith("data: ")]
                parts = [json.loads(event) for event in events if event != "[DONE]"]
                broken = [part for part in parts if "error" in part and part["error"]]
            elif kind.startswith("application/x-ndjson"):
                parts = [json.loads(line) for line in answer.text.split("\n") if line]
                broken = [part for part in parts if "error" in part]
            else:
                parts, broken = [json.loads(answer.text)], []
        except ValueError as error:
            return self.find("an answer that is no JSON", label, shown, f"{error}: {answer.text[:300]}")
        if not parts:
            self.find("an answer without a part", label, shown, answer.text)
        for part in broken:
            self.find("an error in a stream", label, shown, json.dumps(part))
        if len(parts) == 1 and isinstance(parts[0], dict) and parts[0].get("object") in (
                "response", "conversation"):
            self.ids.append(parts[0]["id"])

    def endpoint(self, operation):
        schema = self.schema_of(operation)
        for mode in schemathesis.GenerationMode:
            is_valid = mode is schemathesis.GenerationMode.POSITIVE
            if schema is None:
                if is_valid:
                    for _ in range(3):
                        self.send(operation, None, True)
                continue
            needs_body = self.api["paths"][operation.path][operation.method]["requestBody"].get("required", False)
            for body in bodies(operation, mode, self.n_examples, self.seed):
                if body is None and not is_valid and not needs_body:
                    continue
                if is_valid:
                    body = few_fields(body, operation.path, self.rng)
                if isinstance(body, dict) and operation.path in SOUND:
                    for name in ("max_tokens", "max_output_tokens", "n_predict", "options"):
                        if name in SOUND[operation.path]:
                            body.setdefault(name, SOUND[operation.path][name])
                if not is_valid and not isinstance(body, bytes) and jsonschema.is_valid(schema, without_nulls(body)):
                    continue
                self.send(operation, body, is_valid)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=20, help="bodies of each kind for each endpoint")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="a part of the endpoints' names")
    arguments = parser.parse_args()
    with talking_model() as model, Server(model, context=2048) as server:
        run = Run(server, arguments.examples, arguments.seed)
        for found in schemathesis.openapi.from_url(server.url + "/openapi.json").get_all_operations():
            operation = found.ok()
            if arguments.only in operation.label:
                run.endpoint(operation)
        if server.process.poll() is not None:
            sys.exit("the server has ended")
    print(f"{sum(run.counts.values())} requests:", dict(sorted(run.counts.items())), file=sys.stderr)
    for (kind, label, _), (request, answer) in sorted(run.findings.items()):
        print(f"\n{kind}: {label}\n  {request}\n  {answer[:400]}", file=sys.stderr)
    sys.exit(1 if run.findings else 0)


if __name__ == "__main__":
    main()
