"""Tests `ibid serve` with the client of PyPI's ollama: turns, streams, response formats, models, errors."""
import sys

from server import Server, expect, package

ollama = package("ollama")


def turns(client, model):
    messages, before = [], 0
    for turn in range(5):
        messages.append({"role": "user", "content": f"Question {turn}: name a number."})
        answer = client.chat(model=model, messages=messages, options={"num_predict": 10, "temperature": 0.5, "seed": 1})
        print(f"turn {turn}: prompt {answer.prompt_eval_count}, said {answer.eval_count}", file=sys.stderr)
        expect(answer.done and answer.prompt_eval_count >= before, answer)
        expect(answer.done_reason in ("stop", "length") and answer.total_duration > 0, answer)
        before = answer.prompt_eval_count
        messages.append({"role": "assistant", "content": answer.message.content})


def streams(client, model):
    parts = list(client.chat(model=model, messages=[{"role": "user", "content": "Say hello."}], stream=True,
                             options={"num_predict": 8}))
    expect(parts[-1].done and not parts[0].done, parts[-1])
    expect("".join(part.message.content for part in parts), "no text")
    parts = list(client.generate(model=model, prompt="Say hello.", stream=True, options={"num_predict": 8}))
    expect("".join(part.response for part in parts) and parts[-1].eval_count > 0, parts[-1])
    raw = client.generate(model=model, prompt="One, two,", raw=True, options={"num_predict": 4, "temperature": 0})
    expect(raw.response, raw)


def models(client, model):
    expect(any(each.model == model for each in client.list().models), client.list())
    expect(client.show(model).modelinfo is not None, client.show(model))
    expect(client.ps().models, client.ps())


def errors(client, model):
    try:
        client.chat(model=model, messages=[{"role": "user", "content": "x"}], options={"temperature": -1})
        raise AssertionError("a temperature below 0 was taken")
    except ollama.ResponseError as error:
        expect(error.status_code == 400 and "temperature" in error.error, error)
    answer = client.chat(model="no-such-model", messages=[{"role": "user", "content": "x"}], options={"num_predict": 1})
    expect(answer.model == model, "the only model answers", answer)
    try:
        client.show("no-such-model:70b")
        client.push("no-such-model")
        raise AssertionError("a model was pushed")
    except ollama.ResponseError as error:
        expect(error.status_code == 400, error)
    expect(client.pull(model).status == "success", "a served model is there")


def main():
    with Server() as server:
        client = ollama.Client(host=server.url, timeout=300)
        model = client.list().models[0].model
        for test in (turns, streams, models, errors):
            test(client, model)
            print(test.__name__, "ok", file=sys.stderr)


if __name__ == "__main__":
    main()
