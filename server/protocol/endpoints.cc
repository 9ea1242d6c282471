#include "server/protocol/endpoints.h"

#include <algorithm>

#include "server/protocol/call.h"
#include "server/protocol/handlers.h"
#include "server/protocol/openai_conversations.h"

namespace ibid::serve {

namespace {

// Returns the rules of the fields that the function `Fields` returns.
template <auto Fields>
std::vector<FieldRule> own_rules() {
  return rules_of(Fields());
}

template <auto Handle>
void plain(const Site& site, const http::ExchangePtr& exchange, const http::PathParts&) {
  Handle(site, exchange);
}

template <auto Handle>
void with_id(const Site& site, const http::ExchangePtr& exchange, const http::PathParts& parts) {
  Handle(site, exchange, parts.at(0));
}

// A handler of stored objects whose request has no body: passes the namespace to `Handle`.
template <auto Handle>
void stored_with_id(const Site& site, const http::ExchangePtr& exchange, const http::PathParts& parts) {
  Handle(site, exchange, read_namespace(site, exchange->request()), parts.at(0));
}

template <auto Handle>
void stored_with_both_ids(const Site& site, const http::ExchangePtr& exchange, const http::PathParts& parts) {
  Handle(site, exchange, read_namespace(site, exchange->request()), parts.at(0), parts.at(1));
}

// A handler of changes: runs `Handle` on the writing thread, because it waits for the disk and handler threads are few.
template <auto Handle>
void change(const Site& site, const http::ExchangePtr& exchange, const http::PathParts& parts) {
  site.backend->write_behind([=] { answer_or_refuse(*exchange, [&] { Handle(site, exchange, parts); }); });
}

void refuse_ollama_blob(const Site& site, const http::ExchangePtr& exchange, const http::PathParts&) {
  refuse_ollama_change(site, exchange);
}

constexpr Endpoint kEndpoints[] = {
    {"OpenAI", "GET", "/v1/models", "Lists the models.", nullptr, plain<get_models>},
    {"OpenAI", "GET", "/v1/models/{id}", "Describes a model.", nullptr, with_id<get_model>},
    {"OpenAI", "POST", "/v1/chat/completions", "Answers a conversation; each request contains the whole conversation.",
     chat_rules, plain<post_chat_completions>},
    {"OpenAI", "POST", "/v1/chat/completions/input_tokens",
     "Counts the prompt tokens of a chat completion without computing an answer.", chat_rules,
     plain<post_chat_input_tokens>},
    {"OpenAI", "POST", "/v1/completions", "Continues a text.", completion_rules, plain<post_completions>},
    {"OpenAI", "POST", "/v1/responses", "Answers items; later requests can continue the response by its id.",
     response_rules, plain<post_responses>},
    {"OpenAI", "POST", "/v1/responses/input_tokens",
     "Counts the prompt tokens of a response without computing an answer.", response_rules,
     plain<post_response_input_tokens>},
    {"OpenAI", "GET", "/v1/responses/{id}", "Returns a stored response.", nullptr, stored_with_id<get_response>},
    {"OpenAI", "DELETE", "/v1/responses/{id}", "Deletes a stored response.", nullptr,
     change<stored_with_id<delete_response>>},
    {"OpenAI", "GET", "/v1/responses/{id}/input_items", "Lists the items before a response's output.", nullptr,
     stored_with_id<get_input_items>},
    {"OpenAI", "POST", "/v1/responses/{id}/cancel", "Always 400: background responses are not supported.", nullptr,
     stored_with_id<cancel_response>},
    {"OpenAI", "POST", "/v1/conversations", "Creates a conversation: a list of items to which responses are appended.",
     own_rules<conversation_fields>, change<plain<post_conversation>>},
    {"OpenAI", "GET", "/v1/conversations/{id}", "Returns a conversation without its items.", nullptr,
     stored_with_id<get_conversation>},
    {"OpenAI", "POST", "/v1/conversations/{id}", "Replaces the metadata of a conversation.",
     own_rules<conversation_metadata_fields>, change<with_id<update_conversation>>},
    {"OpenAI", "DELETE", "/v1/conversations/{id}", "Deletes a conversation and its items.", nullptr,
     change<stored_with_id<delete_conversation>>},
    {"OpenAI", "GET", "/v1/conversations/{id}/items", "Lists the items of a conversation.", nullptr,
     stored_with_id<get_conversation_items>},
    {"OpenAI", "POST", "/v1/conversations/{id}/items", "Appends items to a conversation.",
     own_rules<conversation_items_fields>, change<with_id<post_conversation_items>>},
    {"OpenAI", "GET", "/v1/conversations/{id}/items/{item_id}", "Returns an item.", nullptr,
     stored_with_both_ids<get_conversation_item>},
    {"OpenAI", "DELETE", "/v1/conversations/{id}/items/{item_id}", "Removes an item from a conversation.", nullptr,
     change<stored_with_both_ids<delete_conversation_item>>},
    {"OpenAI", "POST", "/v1/embeddings",
     "Returns a unit-length embedding of each text; needs a model that makes embeddings.", embedding_rules,
     plain<post_embeddings>},

    {"Anthropic", "POST", "/v1/messages", "Answers a conversation; each request contains the whole conversation.",
     messages_rules, plain<post_messages>},
    {"Anthropic", "POST", "/v1/messages/count_tokens",
     "Counts the prompt tokens of a message without computing an answer.", messages_rules, plain<post_count_tokens>},

    {"Ollama", "POST", "/api/chat", "Answers a conversation; each request contains the whole conversation.",
     ollama_chat_rules, plain<post_ollama_chat>, ollama_option_rules},
    {"Ollama", "POST", "/api/generate", "Answers one message, or continues a text (raw).", ollama_generate_rules,
     plain<post_ollama_generate>, ollama_option_rules},
    {"Ollama", "POST", "/api/show", "Describes a model.", ollama_show_rules, plain<post_ollama_show>},
    {"Ollama", "GET", "/api/tags", "Lists the models.", nullptr, plain<get_ollama_tags>},
    {"Ollama", "GET", "/api/ps", "Lists the loaded models.", nullptr, plain<get_ollama_ps>},
    {"Ollama", "GET", "/api/version", "Returns the version of Ollama whose protocol the server speaks.", nullptr,
     plain<get_ollama_version>},
    {"Ollama", "POST", "/api/pull", "Confirms a model that is served; other models are refused with status 400.",
     ollama_pull_rules, plain<post_ollama_pull>},
    {"Ollama", "POST", "/api/push", "Always 400: models are files of the server.", nullptr,
     plain<refuse_ollama_change>},
    {"Ollama", "POST", "/api/create", "Always 400: models are files of the server.", nullptr,
     plain<refuse_ollama_change>},
    {"Ollama", "POST", "/api/copy", "Always 400: models are files of the server.", nullptr,
     plain<refuse_ollama_change>},
    {"Ollama", "DELETE", "/api/delete", "Always 400: models are files of the server.", nullptr,
     plain<refuse_ollama_change>},
    {"Ollama", "POST", "/api/blobs/{digest}", "Always 400: models are files of the server.", nullptr,
     refuse_ollama_blob},
    {"Ollama", "POST", "/api/embed",
     "Returns a unit-length embedding of each text; needs a model that makes embeddings.", ollama_embed_rules,
     plain<post_ollama_embed>},
    {"Ollama", "POST", "/api/embeddings", "The older form of /api/embed: the embedding of one text.",
     ollama_embeddings_rules, plain<post_ollama_embeddings>},

    {"llama.cpp", "POST", "/completion", "Continues a text.", llama_completion_rules, plain<post_llama_completion>},
    {"llama.cpp", "POST", "/completions",
     "Continues a text, as /completion if the body names no model, else as /v1/completions.", bare_completion_rules,
     plain<post_bare_completions>},
    {"llama.cpp", "POST", "/infill", "Fills in the text between two others.", infill_rules, plain<post_infill>},
    {"llama.cpp", "POST", "/tokenize", "Converts a text to token ids.", tokenize_rules, plain<post_tokenize>},
    {"llama.cpp", "POST", "/detokenize", "Converts token ids to text.", detokenize_rules, plain<post_detokenize>},
    {"llama.cpp", "POST", "/apply-template", "Returns the prompt of a chat completion without answering it.",
     chat_rules, plain<post_apply_template>},
    {"llama.cpp", "GET", "/props", "Describes the first model and the server.", nullptr, plain<get_props>},
    {"llama.cpp", "GET", "/slots",
     "Lists the slots: one for each answer that can be computed at a time, without its text.", nullptr,
     plain<get_slots>},
    {"llama.cpp", "GET", "/lora-adapters", "Always an empty list: adapters are not supported.", nullptr,
     plain<get_lora_adapters>},
    {"llama.cpp", "POST", "/lora-adapters", "Always 400: adapters are not supported.", nullptr, plain<refuse_lora>},
    {"llama.cpp", "POST", "/rerank", "Always 400: reranking is not supported.", nullptr, plain<refuse_rerank>},
    {"llama.cpp", "POST", "/v1/rerank", "Always 400: reranking is not supported.", nullptr, plain<refuse_rerank>},

    {"Routers", "POST", "/v1/chat/completions/render",
     "Returns the tokens of a chat completion's prompt without answering it.", chat_rules, plain<post_chat_render>},
    {"Routers", "POST", "/v1/completions/render", "Returns the tokens of each prompt of a completion, as a list.",
     completion_rules, plain<post_completion_render>},
    {"Routers", "GET", "/load", "Returns the number of requests that are computed or wait.", nullptr, plain<get_load>},
    {"Routers", "GET", "/v1/loads", "The load in SGLang's form.", nullptr, plain<get_loads>},
    {"Routers", "GET", "/model_info", "Describes the first model.", nullptr, plain<get_model_info>},
    {"Routers", "GET", "/server_info", "Describes the first model and the server.", nullptr, plain<get_server_info>},

    {"ibid", "GET", "/openapi.json", "Returns the OpenAPI description of this server.", nullptr, plain<get_openapi>},
};

}  // namespace

std::span<const Endpoint> endpoints() { return kEndpoints; }

void add_endpoints(http::Router& router, const Site& site) {
  constexpr std::string_view kPrefix = "/v1";
  const auto has_own = [](std::string_view pattern) {
    return std::ranges::any_of(kEndpoints, [&](const Endpoint& endpoint) { return endpoint.pattern == pattern; });
  };
  for (const Endpoint& endpoint : endpoints()) {
    const http::Handler handler = [site, handle = endpoint.handle](const http::ExchangePtr& exchange,
                                                                   const http::PathParts& parts) {
      answer_or_refuse(*exchange, [&] { handle(site, exchange, parts); });
    };
    router.add(endpoint.method, endpoint.pattern, handler);
    if (endpoint.protocol != "OpenAI") continue;
    const std::string_view without_prefix = endpoint.pattern.substr(kPrefix.size());
    if (!has_own(without_prefix)) router.add(endpoint.method, without_prefix, handler);
  }
}

}  // namespace ibid::serve
