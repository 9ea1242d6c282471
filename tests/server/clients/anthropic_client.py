"""Tests `ibid serve` with the client of PyPI's anthropic: turns, streams, counting, errors."""
import sys

from server import Server, expect, package

anthropic = package("anthropic")


def turns(client):
    messages, before = [], 0
    for turn in range(5):
        messages.append({"role": "user", "content": [{"type": "text", "text": f"Question {turn}: name a number."}]})
        answer = client.messages.create(model="", max_tokens=10, system="You are brief.", messages=messages)
        usage = answer.usage
        total = usage.input_tokens + usage.cache_read_input_tokens
        print(f"turn {turn}: read {usage.input_tokens}, cached {usage.cache_read_input_tokens}", file=sys.stderr)
        expect(usage.cache_read_input_tokens >= before - 1, "cached", usage)
        expect(answer._request_id, "the header request-id")
        before = total + usage.output_tokens
        messages.append({"role": "assistant", "content": [block.model_dump(include={"type", "text"})
                                                          for block in answer.content]})
        expect(answer.stop_reason in ("end_turn", "max_tokens"), answer)


def streams(client):
    names = []
    with client.messages.stream(model="", max_tokens=10, messages=[{"role": "user", "content": "Say hello."}]) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    expect(final.content[0].text == text, final.content, text)
    expect(final.usage.output_tokens > 0, final.usage)
    for event in client.messages.create(model="", max_tokens=4, stream=True, messages=[{"role": "user", "content": "x"}]):
        names.append(event.type)
    expect(names[0] == "message_start" and names[-1] == "message_stop", names)


def counting(client):
    message = [{"role": "user", "content": "How many?"}]
    counted = client.messages.count_tokens(model="", messages=message).input_tokens
    usage = client.messages.create(model="", max_tokens=1, messages=message).usage
    expect(counted == usage.input_tokens + usage.cache_read_input_tokens, counted, usage)


def errors(client):
    try:
        client.messages.create(model="", max_tokens=5, extra_body={"temperature": -1},
                               messages=[{"role": "user", "content": "x"}])
        raise AssertionError("a temperature below 0 was taken")
    except anthropic.BadRequestError as error:
        expect(error.body["error"]["type"] == "invalid_request_error", error.body)
        expect("temperature" in error.body["error"]["message"], error.body)
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
    try:
        client.messages.create(model="", max_tokens=5, messages=[{"role": "user", "content": [image]}])
        raise AssertionError("an image was taken")
    except anthropic.BadRequestError:
        pass
    named = client.messages.create(model="no-such-model", max_tokens=5, messages=[{"role": "user", "content": "x"}])
    expect(named.ibid["ignored"][0]["field"] == "model", named.ibid)


def main():
    with Server() as server:
        client = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=300)
        expect(client.models.list().data, "no models")
        for test in (turns, streams, counting, errors):
            test(client)
            print(test.__name__, "ok", file=sys.stderr)


if __name__ == "__main__":
    main()
