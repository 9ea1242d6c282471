"""make_http_api.py OPENAPI.json OUT.md [--check]: generates docs/http_api.md from the server's /openapi.json, which
write_openapi (tests/server/protocol) writes to a file. --check only compares."""
import json
import pathlib
import sys

HEAD = """# The HTTP endpoints
Written by `server/protocol/make_http_api.py` from the OpenAPI description that the server has at `/openapi.json`. That
is made of the tables that the parsers read by (`server/protocol/endpoints.h`). A test compares this page with it.

Fields that are not named here are ignored. null is the same as absent. A value of a wrong kind or out of its range is
an error 400 that names the field.

"""
MANNERS = """## What all of them have in common

- The messages of a request are the whole conversation each time. What was read before is not read again, whoever sends
  it within one API key: `cached_tokens` says how much that was, `ibid.prefilled` how much was read now.
- With `--namespace-by-user` each user of an API key has a namespace of its own: conversations and stored
  responses of another user are neither found (404), continued nor deleted. A request names its user by `user`
  in the body (`/v1/messages`: `metadata.user_id`) or in the query, or by the header `x-user-id`: that is how a GET or
  DELETE, which has no body, says whose it is (`GET /v1/responses/resp_1?user=anna`). A request without a user belongs
  to the key itself, and one that names two users is an error 400.
- Every answer has an object `ibid`: `prefilled`, `cached`, `from_disk`, `read_again` (tokens), `ttft_ms`, `total_ms`,
  `seed` (gives the same answer again), `finish_reason` in our own words, `lost_prefix` where something had to be read
  again (`tokens`, `message`, `byte`, `token`, `cause`), `left_out` where a full context took messages away.
- `finish_reason` is `length` for an answer that was cut because it repeated itself (`stop_repetition`).
- In a stream, log-probabilities come with the chunk of their tokens; those of llama.cpp's completion, whole with the last one.
- Images, sound, videos and files are refused: the models read text.
- A context that is too small is an error 400 with both numbers, before anything is computed; `truncate` says otherwise.
- `reasoning_tokens` counts the tokens of the reasoning's text.

Errors are in the form of the protocol that the path belongs to. OpenAI and llama.cpp:
`{"error": {"message", "type", "param", "code"}}`. Anthropic: `{"type": "error", "error": {"type", "message"}}`. Ollama:
`{"error": "..."}`. An error in the middle of a stream is its last event.

| status | meaning |
|---|---|
"""


def kind(api, schema):
    """A short description of a schema."""
    schema = resolved(api, schema)
    if "anyOf" in schema and "type" not in schema:
        return kind(api, schema["anyOf"][0])
    if "oneOf" in schema:
        return " or ".join(dict.fromkeys(kind(api, one) for one in schema["oneOf"]))
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    names = schema.get("type", "any")
    text = " or ".join(names) if isinstance(names, list) else names
    if text == "array":
        text = "list"
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        if least < -1e9:  # the limits of a type: print both exactly
            text += f", {least} to {most}"
        else:
            text += f", {least:g} to {most:g}" if most < 1e9 else f", at least {least:g}"
    return text


def resolved(api, value):
    while "$ref" in value:
        place = api
        for part in value["$ref"].removeprefix("#/").split("/"):
            place = place[part]
        value = place
    return value


def rows(api, schema, prefix=""):
    required = schema.get("required", [])
    for name, field in schema["properties"].items():
        field = resolved(api, field)
        if field.get("x-ignored"):
            yield name, "any", "ignored", field.get("description", "")
            continue
        about = field.get("description", "")
        yield prefix + name, kind(api, field), "required" if name in required else "yes", about
        if "x-refused" in field:
            yield from rows(api, field, name + ".")
    for name, about in schema.get("x-refused", {}).items():
        yield prefix + name, "", "no: 400", about


def answers(api):
    """Rows of the fields that are always present in whole responses, by endpoint."""
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            schema = resolved(api, operation["responses"]["200"]["content"].get("application/json", {"schema": {}})["schema"])
            if "required" in schema:
                yield f"| `{method.upper()} {path}` | {', '.join(f'`{name}`' for name in schema['required'])} |\n"


def page(api):
    out = [HEAD]
    out.append(MANNERS)
    out.append("| 200 | The answer. |\n")
    for status, response in api["components"]["responses"].items():
        if status.isdigit():  # other protocols have the same errors in their own form
            out.append(f"| {status} | {response['description']} |\n")
    protocol = None
    seen = {}
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            if operation["tags"][0] != protocol:
                protocol = operation["tags"][0]
                out.append(f"\n## {protocol}\n")
            out.append(f"\n### {method.upper()} {path}\n{operation['summary']}\n")
            query = [one for one in operation.get("parameters", []) if one["in"] == "query"]
            if query:
                words = ", ".join(f"`{one['name']}` ({kind(api, one['schema'])})" for one in query)
                out.append(f"\nThe query may have {words}.\n")
            if "requestBody" not in operation:
                continue
            table = list(rows(api, operation["requestBody"]["content"]["application/json"]["schema"]))
            same = [row for row in table if row in seen]
            if len(same) > 12:  # omits fields that the first table lists
                table = [row for row in table if row not in seen]
                out.append(f"\nBesides these it has {len(same)} fields of `/v1/chat/completions`, as they stand there.\n")
            elif path == "/v1/chat/completions":
                seen = dict.fromkeys(table)
            if table:
                out.append("\n| field | kind | supported | what it does |\n|---|---|---|---|\n")
                out += [f"| `{name}` | {what} | {standing} | {about} |\n" for name, what, standing, about in table]
    out.append("\n## What is always there in an answer\n\n| endpoint | fields |\n|---|---|\n")
    out += list(answers(api))
    out.append("\n| field | what is always in it |\n|---|---|\n")
    for name, shown in (("usage", "usage"), ("timings", "timings"), ("ibid", "ibid_details")):
        out.append(f"| `{name}` | {', '.join(f'`{one}`' for one in api['components']['schemas'][shown]['required'])} |\n")
    return "".join(out)


def main():
    source, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    text = page(json.loads(source.read_text(encoding="utf-8")))
    if "--check" in sys.argv:
        if target.read_text(encoding="utf-8") != text:
            sys.exit(f"{target} is not what {source} says: run make_http_api.py without --check")
    else:
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
