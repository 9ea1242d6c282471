"""Tests `ibid serve` with the client of PyPI's openai: 20 turns that each send the whole history, edit, regenerate,
streams, tools, response formats, responses, errors. Prints the usage of each turn."""
import sys
import tempfile

from server import Server, expect, package

openai = package("openai")

TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


def ask(client, messages, **more):
    return client.chat.completions.create(model="", messages=messages, max_tokens=12, seed=1, **more)


def cost(answer):
    usage = answer.usage
    return usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens


def twenty_turns(client, server):
    """Each turn prefills only the new message, with the template's text around it."""
    messages = [{"role": "system", "content": "You are brief."}]
    before, read, read_before = 0, 0, server.metric("ibid_prefill_tokens_total")
    for turn in range(20):
        messages.append({"role": "user", "content": f"Question {turn}: what is {turn} and {turn}?"})
        answer = ask(client, messages)
        prompt, cached = cost(answer)
        details = answer.model_extra["ibid"]
        print(f"turn {turn:2}: prompt {prompt:4}, cached {cached:4}, read {prompt - cached:3}", file=sys.stderr)
        expect(details["prefilled"] == prompt - cached, "usage and ibid differ", details)
        expect("lost_prefix" not in details, "a prefix was lost", details)
        expect(turn > 0 or prompt == server.count(messages), "the first prompt has", prompt)
        # The last prompt and answer are cached except the last token, which was only sampled. In idle time it may have
        # been prefilled too, with the template's text after it: "<|im_end|>" and a line break.
        expect(turn == 0 or before - 1 <= cached <= before + 2, "turn", turn, "cached", cached, "of", before)
        read += prompt - cached
        before = prompt + answer.usage.completion_tokens
        messages.append({"role": "assistant", "content": answer.choices[0].message.content})
    counted = server.metric("ibid_prefill_tokens_total") - read_before
    expect(counted == read, "the answers say that", read, "tokens were read, the counter", counted)
    return messages


def changed_history(client, server, messages):
    """Regenerating prefills nothing; after an edit, everything from the edited message on is prefilled."""
    again = ask(client, messages[:-1])
    prompt, cached = cost(again)
    print(f"regenerate: prompt {prompt}, cached {cached}", file=sys.stderr)
    expect(cached == prompt, "regenerate read", prompt - cached)
    changed = [dict(message) for message in messages[:-1]]
    changed[-3] = {"role": "user", "content": "Something else: name a colour."}
    prompt, cached = cost(ask(client, changed[:-2]))
    print(f"edit: prompt {prompt}, cached {cached}", file=sys.stderr)
    # New are the message, its role and the answer's: at most the tokens of a prompt with only this message.
    expect(prompt - cached <= server.count(changed[-3:-2]), "edit read", prompt - cached)


def two_keys(openai):
    """Users of one key share a prefilled system prompt; another key prefills its own."""
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write("one=first-key-0123456789\ntwo=second-key-0123456789\n")
        keys.flush()
        with Server(options=["--api-key-file", keys.name]) as server:
            system = {"role": "system", "content": "You know all about rivers. " * 40}

            def told(key, question):
                client = openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0, timeout=300)
                return cost(ask(client, [system, {"role": "user", "content": question}]))

            first, cached = told("first-key-0123456789", "Which is the longest?")
            expect(cached == 0, "nobody had read it, and", cached, "were cached")
            _, cached = told("first-key-0123456789", "And where is the Rhine?")
            expect(cached >= first - 20, "the same key found", cached, "of", first)
            _, cached = told("second-key-0123456789", "Which is the longest?")
            expect(cached == 0, "another key found", cached)
            try:
                told("no-key-at-all-0123456789", "Which?")
                raise AssertionError("a wrong key was taken")
            except openai.AuthenticationError:
                pass


def conversations(client):
    """A stored conversation receives inputs and outputs, and each turn prefills only one message."""
    made = client.conversations.create(metadata={"about": "colours"})
    first = client.responses.create(model="", input="Name a colour.", conversation=made.id, max_output_tokens=8)
    second = client.responses.create(model="", input="Another.", conversation=made.id, max_output_tokens=8)
    cached, asked = second.usage.input_tokens_details.cached_tokens, first.usage
    expect(cached >= asked.input_tokens + asked.output_tokens - 1, "cached", cached, "of", asked)
    written = second.usage.input_tokens_details.cache_write_tokens
    expect(cached + written == second.usage.input_tokens, "written", written, "of", second.usage)
    items = client.conversations.items.list(made.id, order="asc").data
    expect([item.role for item in items] == ["user", "assistant", "user", "assistant"], items)
    expect(items[1].content[0].text == first.output_text, items[1], first.output_text)
    inputs = client.responses.input_items.list(second.id, order="asc").data
    expect([item.id for item in inputs] == [item.id for item in items[:3]], inputs)
    expect(client.conversations.update(made.id, metadata={"about": "x"}).metadata == {"about": "x"}, "metadata")
    client.conversations.items.delete(items[0].id, conversation_id=made.id)
    expect(client.conversations.delete(made.id).deleted, "deleted")


def streams(client):
    messages = [{"role": "user", "content": "Say hello."}]
    whole = ask(client, messages, temperature=0)
    text, reason, usage, roles = "", None, None, []
    for chunk in ask(client, messages, temperature=0, stream=True, stream_options={"include_usage": True}):
        if chunk.usage:
            usage = chunk.usage
            expect(chunk.choices == [], "the chunk with the usage has choices")
        for choice in chunk.choices:
            roles.append(choice.delta.role)
            text += choice.delta.content or ""
            reason = choice.finish_reason or reason
    expect(text == whole.choices[0].message.content, "streamed", text, "whole", whole.choices[0].message.content)
    expect(roles[0] == "assistant" and reason == whole.choices[0].finish_reason, roles, reason)
    expect(usage.prompt_tokens == whole.usage.prompt_tokens, usage)
    with client.chat.completions.stream(model="", messages=messages, max_tokens=200, temperature=0) as stream:
        for _ in stream:
            pass
        expect(stream.get_final_completion().choices[0].message.content, "the helper has no text")


def samplers(client):
    messages = [{"role": "user", "content": "Count to five."}]
    answer = ask(client, messages, n=2, logprobs=True, top_logprobs=3, stop=["4"], logit_bias={"5": -100},
                 frequency_penalty=0.1, presence_penalty=0.1, top_p=0.9, temperature=0.8, user="x",
                 extra_body={"top_k": 20, "min_p": 0.01, "dry_multiplier": 0.5, "repeat_penalty": 1.05})
    expect(len(answer.choices) == 2, "two answers")
    for choice in answer.choices:
        expect(choice.logprobs.content and len(choice.logprobs.content[0].top_logprobs) == 3, "logprobs")
        expect("4" not in choice.message.content, choice.message.content)
    completion = client.completions.create(model="", prompt="One, two,", max_tokens=4, echo=True)
    expect(completion.choices[0].text.startswith("One, two,"), completion.choices[0].text)


def responses(client):
    first = client.responses.create(model="", input="Name a colour.", instructions="Be brief.", max_output_tokens=8)
    expect(first.output_text and first.usage.input_tokens > 0, first)
    second = client.responses.create(model="", input="Another.", previous_response_id=first.id, max_output_tokens=8)
    expect(second.previous_response_id == first.id, second)
    names, text = [], ""
    with client.responses.stream(model="", input="And one more.", previous_response_id=first.id,
                                 max_output_tokens=8) as stream:
        for event in stream:
            names.append(event.type)
            if event.type == "response.output_text.delta":
                text += event.delta
    # Not get_final_response(): the client accepts only response.completed, and this answer may be truncated.
    final = event.response
    expect(names[0] == "response.created" and names[-1] in ("response.completed", "response.incomplete"), names)
    expect(final.output_text == text, final.output_text, text)
    expect(client.responses.retrieve(first.id).output_text == first.output_text, "retrieve")
    client.responses.delete(first.id)
    try:
        client.responses.retrieve(first.id)
        raise AssertionError("a deleted response is there")
    except openai.NotFoundError:
        pass


def response_logprobs(client):
    """The tokens of each delta are its text, and together they are those of the finished text."""
    asked = {"model": "", "input": "Name a colour.", "max_output_tokens": 8, "temperature": 0, "top_logprobs": 2,
             "include": ["message.output_text.logprobs"]}
    said, tokens, done = "", [], None
    for event in client.responses.create(stream=True, **asked):
        if event.type == "response.output_text.delta":
            said += event.delta
            tokens += event.logprobs
            expect(event.logprobs and len(event.logprobs[0].top_logprobs) == 2, event)
        elif event.type == "response.output_text.done":
            done = event
    expect(said and "".join(token.token for token in tokens) == said, said, tokens)
    pairs = [(token.token, token.logprob) for token in tokens]
    expect([(token.token, token.logprob) for token in done.logprobs] == pairs, done)
    whole = client.responses.create(**asked)
    found = whole.output[0].content[0].logprobs
    expect([(token.token, token.logprob) for token in found] == pairs, found, pairs)


def ignored_end(client):
    answer = client.chat.completions.create(model="", messages=[{"role": "user", "content": "Say yes."}], max_tokens=60,
                                            temperature=0, extra_body={"ignore_eos": True})
    expect(answer.usage.completion_tokens == 60 and answer.choices[0].finish_reason == "length", answer)


def forms_and_tools(client):
    import json
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 10}}, "required": ["city"],
              "additionalProperties": False}
    answer = client.chat.completions.create(
        model="", messages=[{"role": "user", "content": "A city?"}], max_tokens=60, temperature=0,
        response_format={"type": "json_schema", "json_schema": {"name": "c", "schema": schema, "strict": True}})
    expect("city" in json.loads(answer.choices[0].message.content), answer.choices[0].message.content)
    answer = ask(client, [{"role": "user", "content": "The weather in Paris?"}], tools=[TOOL], tool_choice="auto")
    print("tools:", answer.choices[0].finish_reason, file=sys.stderr)


def errors(client):
    messages = [{"role": "user", "content": "x"}]
    wrong = [({"temperature": -1}, "temperature"), ({"n": 99}, "n"), ({"extra_body": {"mirostat": 2}}, "mirostat")]
    for fields, param in wrong:
        try:
            client.chat.completions.create(model="", messages=messages, **fields)
            raise AssertionError(f"{fields} was taken")
        except openai.BadRequestError as error:
            expect(error.param == param and error.type == "invalid_request_error", error.body)
    named = client.chat.completions.create(model="no-such-model", messages=messages, max_tokens=1)
    expect(named.ibid["ignored"][0]["field"] == "model", named.ibid)
    try:
        client.chat.completions.create(model="", messages=[{"role": "user", "content": "word " * 9000}])
        raise AssertionError("a prompt larger than the context was taken")
    except openai.BadRequestError as error:
        expect(error.code == "context_length_exceeded", error.body)
        print("context:", error.message, file=sys.stderr)


def main():
    with Server() as server:
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=300)
        expect(len(client.models.list().data) >= 1, "no models")
        expect(client.models.retrieve(client.models.list().data[0].id).object == "model", "retrieve")
        messages = twenty_turns(client, server)
        changed_history(client, server, messages)
        for test in (streams, samplers, responses, conversations, response_logprobs, ignored_end, forms_and_tools,
                     errors):
            test(client)
            print(test.__name__, "ok", file=sys.stderr)
    two_keys(openai)


if __name__ == "__main__":
    main()
