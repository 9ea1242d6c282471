"""Tests that PyPI's langchain-openai, langchain-anthropic and litellm recognise the error of a full context, after which
they shorten the conversation or use another model."""
import os
import sys

from server import Server, package

LONG = "word " * 3000


def langchain(url):
    error = package("langchain_core.exceptions").ContextOverflowError
    models = [package("langchain_openai").ChatOpenAI(base_url=url + "/v1", api_key="x", model="m", max_retries=0),
              package("langchain_anthropic").ChatAnthropic(base_url=url, api_key="x", model="m", max_retries=0)]
    for model in models:
        try:
            model.invoke(LONG)
        except error:
            continue
        raise AssertionError(f"{type(model).__name__} did not recognise the error")


def litellm(url):
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches a list of prices
    client = package("litellm")
    for model, base in (("openai/m", url + "/v1"), ("hosted_vllm/m", url + "/v1"), ("anthropic/m", url)):
        try:
            client.completion(model=model, api_base=base, api_key="x", messages=[{"role": "user", "content": LONG}])
        except client.ContextWindowExceededError:
            continue
        raise AssertionError(f"{model} did not recognise the error")


def main():
    with Server(context=1024) as server:
        for test in (langchain, litellm):
            test(server.url)
            print(test.__name__, "ok", file=sys.stderr)


if __name__ == "__main__":
    main()
