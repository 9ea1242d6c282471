"""Tests embeddings of `ibid serve` with the client of PyPI's openai and a tiny random model: one text and several,
tokens, base64, dimensions, errors. IBID_WRITE_EMBEDDING_MODEL: the program that writes the model."""
import base64
import math
import os
import struct
import subprocess
import sys
import tempfile

from server import Server, expect, package, skip

openai = package("openai")


def length(vector):
    return math.sqrt(sum(number * number for number in vector))


def vectors(client):
    """The client requests base64 by default, and numbers if told to."""
    texts = ["one text", "another", "and a third one, which is longer than both"]
    many = client.embeddings.create(model="embed", input=texts)
    expect([each.index for each in many.data] == [0, 1, 2], many.data)
    expect(many.object == "list" and many.model == "embed", many.model)
    # A token of this model is a byte, and one is appended to each text.
    expect(many.usage.prompt_tokens == many.usage.total_tokens == sum(map(len, texts)) + 3, many.usage)
    for text, each in zip(texts, many.data):
        one = client.embeddings.create(model="embed", input=text, encoding_format="float").data[0].embedding
        expect(len(one) == 128 and abs(length(one) - 1) < 1e-6, len(one), length(one))
        expect([struct.pack("<f", number) for number in one] == [struct.pack("<f", number) for number in each.embedding],
               "the same text, alone and beside others, in numbers and in base64")
    raw = client.embeddings.create(model="embed", input=texts[0], encoding_format="base64").data[0].embedding
    expect(list(struct.unpack("<128f", base64.b64decode(raw))) == list(many.data[0].embedding), "base64")


def ids(client, server):
    status, tokens = server.post("/tokenize", {"content": "one text", "add_special": True, "model": "embed"})
    expect(status == 200 and len(tokens["tokens"]) == 9, tokens)
    by_text = client.embeddings.create(model="embed", input="one text").data[0].embedding
    expect(client.embeddings.create(model="embed", input=tokens["tokens"]).data[0].embedding == by_text, "ids")
    both = client.embeddings.create(model="embed", input=[tokens["tokens"], [1, 2]])
    expect(both.data[0].embedding == by_text and len(both.data) == 2, "lists of ids")


def dimensions(client):
    whole = client.embeddings.create(model="embed", input="one text").data[0].embedding
    part = client.embeddings.create(model="embed", input="one text", dimensions=16).data[0].embedding
    expect(len(part) == 16 and abs(length(part) - 1) < 1e-6, part)
    factor = length(whole[:16])
    expect(all(abs(a * factor - b) < 1e-6 for a, b in zip(part, whole)), "other numbers")


def errors(client):
    bad = [({"input": ""}, "input"), ({"input": []}, "input"), ({"input": ["a", ""]}, "input[1]"),
           ({"input": ["a"] * 2049}, "input"), ({"input": "a", "dimensions": 129}, None),
           ({"input": "a" * 5000}, None), ({"input": [[1, 259]]}, None)]
    for fields, param in bad:
        try:
            client.embeddings.create(model="embed", **fields)
            raise AssertionError(f"{str(fields)[:60]} was taken")
        except openai.BadRequestError as error:
            expect(error.param == param, error.param, error)
    try:
        client.chat.completions.create(model="embed", messages=[{"role": "user", "content": "x"}])
        raise AssertionError("a model of embeddings answered")
    except openai.BadRequestError as error:
        expect("makes embeddings only, no answers" in error.message, error)


def main():
    program = os.environ.get("IBID_WRITE_EMBEDDING_MODEL") or skip("IBID_WRITE_EMBEDDING_MODEL is not set")
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/embed.gguf"
        subprocess.run([program, path], check=True)
        with Server(path) as server:
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
            vectors(client)
            ids(client, server)
            dimensions(client)
            errors(client)
            print("embeddings ok", file=sys.stderr)


if __name__ == "__main__":
    main()
