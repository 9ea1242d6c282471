#include "server/protocol/endpoints.h"

#include <algorithm>
#include <string>

#include "server/protocol/answer_fields.h"
#include "server/protocol/anthropic.h"
#include "server/protocol/anthropic_input.h"
#include "server/protocol/embeddings.h"
#include "server/protocol/llama_server.h"
#include "server/protocol/ollama.h"
#include "server/protocol/ollama_input.h"
#include "server/protocol/openai_chat.h"
#include "server/protocol/openai_completions.h"
#include "server/protocol/openai_conversations.h"
#include "server/protocol/openai_models.h"
#include "server/protocol/openapi.h"
#include "server/protocol/request_namespace.h"
#include "server/protocol/responses.h"
#include "server/protocol/sampler_fields.h"

namespace ibid::serve {

namespace {

// A protocol's own row of a field stands for the shared one of that name.
template <typename Target>
void append_rules(std::vector<FieldRule>& rules, std::span<const Field<Target>> fields) {
  for (const Field<Target>& field : fields) {
    const bool is_there = std::any_of(rules.begin(), rules.end(),
                                      [&](const FieldRule& rule) { return rule.name == field.rule.name; });
    if (!is_there) rules.push_back(field.rule);
  }
}

// The rules of a body, from the function that returns its own fields.
template <auto Fields>
std::vector<FieldRule> own_rules() {
  std::vector<FieldRule> rules;
  append_rules(rules, Fields());
  return rules;
}

template <auto Fields>
std::vector<FieldRule> prompt_rules() {
  std::vector<FieldRule> rules = own_rules<Fields>();
  append_rules(rules, sampler_fields());
  append_rules(rules, common_answer_fields());
  return rules;
}

template <auto Fields>
std::vector<FieldRule> message_rules() {
  std::vector<FieldRule> rules = prompt_rules<Fields>();
  append_rules(rules, chat_answer_fields());
  return rules;
}

template <auto Fields>
std::vector<FieldRule> ollama_rules() {
  std::vector<FieldRule> rules = own_rules<Fields>();
  append_rules(rules, ollama_fields());
  append_rules(rules, sampler_fields());
  append_rules(rules, common_answer_fields());
  append_rules(rules, chat_answer_fields());
  return rules;
}

std::vector<FieldRule> ollama_options() {
  std::vector<FieldRule> rules = own_rules<sampler_fields>();
  append_rules(rules, ollama_option_fields());
  return rules;
}

template <auto Handle>
void plain(const Site& site, const http::ExchangePtr& exchange, const http::PathParts&) {
  Handle(site, exchange);
}

// Passes the namespace to a handler of stored things whose request has no body.
template <auto Handle, typename... Ids>
void of_namespace(const Site& site, const http::ExchangePtr& exchange, const Ids&... ids) {
  std::string cache_namespace;
  if (MaybeFault fault = read_namespace(site, exchange->request(), cache_namespace)) {
    return respond_fault(*exchange, *fault, ErrorStyle::kOpenAi);
  }
  // Handlers are few threads, and others' requests wait for them: the disk is waited for elsewhere.
  site.backend->write_behind([=] { Handle(site, exchange, cache_namespace, ids...); });
}

// The same of a request with a body, which names its namespace itself.
template <auto Handle>
void change(const Site& site, const http::ExchangePtr& exchange, const http::PathParts&) {
  site.backend->write_behind([=] { Handle(site, exchange); });
}

template <auto Handle>
void change_with_id(const Site& site, const http::ExchangePtr& exchange, const http::PathParts& parts) {
  site.backend->write_behind([=, id = parts.at(0)] { Handle(site, exchange, id); });
}

template <auto Handle>
void stored_with_id(const Site& site, const http::ExchangePtr& exchange, const http::PathParts& parts) {
  of_namespace<Handle>(site, exchange, parts.at(0));
}

template <auto Handle>
void stored_with_both_ids(const Site& site, const http::ExchangePtr& exchange, const http::PathParts& parts) {
  of_namespace<Handle>(site, exchange, parts.at(0), parts.at(1));
}

template <auto Handle>
void with_id(const Site& site, const http::ExchangePtr& exchange, const http::PathParts& parts) {
  Handle(site, exchange, parts.at(0));
}

constexpr Endpoint kEndpoints[] = {
    {"OpenAI", "GET", "/v1/models", "The models that there are.", nullptr, plain<get_models>},
    {"OpenAI", "GET", "/v1/models/{id}", "One model.", nullptr, with_id<get_model>},
    {"OpenAI", "POST", "/v1/chat/completions", "Answers a conversation, the whole of which is sent each time.",
     message_rules<chat_fields>, plain<post_chat_completions>},
    {"OpenAI", "POST", "/v1/completions", "Goes on with a text.", prompt_rules<completion_fields>,
     plain<post_completions>},
    {"OpenAI", "POST", "/v1/responses", "Answers items; later requests go on from it by its id.",
     message_rules<response_fields>, plain<post_responses>},
    {"OpenAI", "GET", "/v1/responses/{id}", "A response that is stored.", nullptr, stored_with_id<get_response>},
    {"OpenAI", "DELETE", "/v1/responses/{id}", "Forgets a response.", nullptr, stored_with_id<delete_response>},
    {"OpenAI", "GET", "/v1/responses/{id}/input_items", "What was in front of a response's output, as items.", nullptr,
     stored_with_id<get_input_items>},
    {"OpenAI", "POST", "/v1/responses/{id}/cancel", "Always 400: no response is given in the background.", nullptr,
     stored_with_id<cancel_response>},
    {"OpenAI", "POST", "/v1/conversations", "A list of items that responses are added to.",
     own_rules<conversation_fields>, change<post_conversation>},
    {"OpenAI", "GET", "/v1/conversations/{id}", "A conversation, without its items.", nullptr,
     stored_with_id<get_conversation>},
    {"OpenAI", "POST", "/v1/conversations/{id}", "Gives a conversation other metadata.",
     own_rules<conversation_metadata_fields>, change_with_id<update_conversation>},
    {"OpenAI", "DELETE", "/v1/conversations/{id}", "Forgets a conversation and its items.", nullptr,
     stored_with_id<delete_conversation>},
    {"OpenAI", "GET", "/v1/conversations/{id}/items", "The items of a conversation.", nullptr,
     stored_with_id<get_conversation_items>},
    {"OpenAI", "POST", "/v1/conversations/{id}/items", "Adds items to a conversation's end.",
     own_rules<conversation_items_fields>, change_with_id<post_conversation_items>},
    {"OpenAI", "GET", "/v1/conversations/{id}/items/{item_id}", "One item.", nullptr,
     stored_with_both_ids<get_conversation_item>},
    {"OpenAI", "DELETE", "/v1/conversations/{id}/items/{item_id}", "Takes an item out of a conversation.", nullptr,
     stored_with_both_ids<delete_conversation_item>},
    {"OpenAI", "POST", "/v1/embeddings", "A vector of length 1 for each text, of a model that makes them.",
     own_rules<openai_embedding_fields>, plain<post_embeddings>},

    {"Anthropic", "POST", "/v1/messages", "Answers a conversation, the whole of which is sent each time.",
     message_rules<messages_fields>, plain<post_messages>},
    {"Anthropic", "POST", "/v1/messages/count_tokens", "How many tokens such a request has; nothing is computed.",
     message_rules<messages_fields>, plain<post_count_tokens>},

    {"Ollama", "POST", "/api/chat", "Answers a conversation, the whole of which is sent each time.",
     ollama_rules<ollama_chat_fields>, plain<post_ollama_chat>, ollama_options},
    {"Ollama", "POST", "/api/generate", "Answers one message, or goes on with a text (raw).",
     ollama_rules<ollama_generate_fields>, plain<post_ollama_generate>, ollama_options},
    {"Ollama", "POST", "/api/show", "One model.", own_rules<ollama_show_fields>, plain<post_ollama_show>},
    {"Ollama", "GET", "/api/tags", "The models that there are.", nullptr, plain<get_ollama_tags>},
    {"Ollama", "GET", "/api/ps", "The models that are loaded.", nullptr, plain<get_ollama_ps>},
    {"Ollama", "GET", "/api/version", "The version of the server.", nullptr, plain<get_ollama_version>},
    {"Ollama", "POST", "/api/embed", "A vector of length 1 for each text, of a model that makes them.",
     own_rules<ollama_embed_fields>, plain<post_ollama_embed>},
    {"Ollama", "POST", "/api/embeddings", "Its older form: the vector of one text.",
     own_rules<ollama_embeddings_fields>, plain<post_ollama_embeddings>},

    {"llama.cpp", "POST", "/completion", "Goes on with a text.", prompt_rules<llama_fields>,
     plain<post_llama_completion>},
    {"llama.cpp", "POST", "/tokenize", "The token ids of a text.", own_rules<tokenize_fields>,
     plain<post_tokenize>},
    {"llama.cpp", "POST", "/detokenize", "The text of token ids.", own_rules<detokenize_fields>,
     plain<post_detokenize>},
    {"llama.cpp", "POST", "/apply-template", "The prompt that a chat completion would have.",
     message_rules<chat_fields>, plain<post_apply_template>},
    {"llama.cpp", "GET", "/props", "The first model, and what the server is.", nullptr, plain<get_props>},

    {"ibid", "GET", "/openapi.json", "This description.", nullptr, plain<get_openapi>},
};

}  // namespace

std::span<const Endpoint> endpoints() { return kEndpoints; }

void add_endpoints(http::Router& router, const Site& site) {
  for (const Endpoint& endpoint : endpoints()) {
    router.add(endpoint.method, endpoint.pattern,
               [site, handle = endpoint.handle](http::ExchangePtr exchange, const http::PathParts& parts) {
                 handle(site, exchange, parts);
               });
  }
}

}  // namespace ibid::serve
