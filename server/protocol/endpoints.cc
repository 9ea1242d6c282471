#include "server/protocol/endpoints.h"

#include "server/protocol/call.h"
#include "server/protocol/handlers.h"
#include "server/protocol/openai_conversations.h"

namespace ibid::serve {

namespace {

// The rules of a body, from a function that returns its fields.
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

// Passes the namespace to handlers of stored objects whose request has no body.
template <auto Handle>
void stored_with_id(const Site& site, const http::ExchangePtr& exchange, const http::PathParts& parts) {
  Handle(site, exchange, read_namespace(site, exchange->request()), parts.at(0));
}

template <auto Handle>
void stored_with_both_ids(const Site& site, const http::ExchangePtr& exchange, const http::PathParts& parts) {
  Handle(site, exchange, read_namespace(site, exchange->request()), parts.at(0), parts.at(1));
}

// Runs handlers of changes on the writing thread, because they wait for the disk and handler threads are few.
template <auto Handle>
void change(const Site& site, const http::ExchangePtr& exchange, const http::PathParts& parts) {
  site.backend->write_behind([=] { answer_or_refuse(*exchange, [&] { Handle(site, exchange, parts); }); });
}

constexpr Endpoint kEndpoints[] = {
    {"OpenAI", "GET", "/v1/models", "The models that there are.", nullptr, plain<get_models>},
    {"OpenAI", "GET", "/v1/models/{id}", "One model.", nullptr, with_id<get_model>},
    {"OpenAI", "POST", "/v1/chat/completions", "Answers a conversation, the whole of which is sent each time.",
     chat_rules, plain<post_chat_completions>},
    {"OpenAI", "POST", "/v1/completions", "Goes on with a text.", completion_rules, plain<post_completions>},
    {"OpenAI", "POST", "/v1/responses", "Answers items; later requests go on from it by its id.", response_rules,
     plain<post_responses>},
    {"OpenAI", "GET", "/v1/responses/{id}", "A response that is stored.", nullptr, stored_with_id<get_response>},
    {"OpenAI", "DELETE", "/v1/responses/{id}", "Forgets a response.", nullptr, change<stored_with_id<delete_response>>},
    {"OpenAI", "GET", "/v1/responses/{id}/input_items", "What was in front of a response's output, as items.", nullptr,
     stored_with_id<get_input_items>},
    {"OpenAI", "POST", "/v1/responses/{id}/cancel", "Always 400: no response is given in the background.", nullptr,
     stored_with_id<cancel_response>},
    {"OpenAI", "POST", "/v1/conversations", "A list of items that responses are added to.",
     own_rules<conversation_fields>, change<plain<post_conversation>>},
    {"OpenAI", "GET", "/v1/conversations/{id}", "A conversation, without its items.", nullptr,
     stored_with_id<get_conversation>},
    {"OpenAI", "POST", "/v1/conversations/{id}", "Gives a conversation other metadata.",
     own_rules<conversation_metadata_fields>, change<with_id<update_conversation>>},
    {"OpenAI", "DELETE", "/v1/conversations/{id}", "Forgets a conversation and its items.", nullptr,
     change<stored_with_id<delete_conversation>>},
    {"OpenAI", "GET", "/v1/conversations/{id}/items", "The items of a conversation.", nullptr,
     stored_with_id<get_conversation_items>},
    {"OpenAI", "POST", "/v1/conversations/{id}/items", "Adds items to a conversation's end.",
     own_rules<conversation_items_fields>, change<with_id<post_conversation_items>>},
    {"OpenAI", "GET", "/v1/conversations/{id}/items/{item_id}", "One item.", nullptr,
     stored_with_both_ids<get_conversation_item>},
    {"OpenAI", "DELETE", "/v1/conversations/{id}/items/{item_id}", "Takes an item out of a conversation.", nullptr,
     change<stored_with_both_ids<delete_conversation_item>>},
    {"OpenAI", "POST", "/v1/embeddings", "A vector of length 1 for each text, of a model that makes them.",
     embedding_rules, plain<post_embeddings>},

    {"Anthropic", "POST", "/v1/messages", "Answers a conversation, the whole of which is sent each time.",
     messages_rules, plain<post_messages>},
    {"Anthropic", "POST", "/v1/messages/count_tokens", "How many tokens such a request has; nothing is computed.",
     messages_rules, plain<post_count_tokens>},

    {"Ollama", "POST", "/api/chat", "Answers a conversation, the whole of which is sent each time.", ollama_chat_rules,
     plain<post_ollama_chat>, ollama_option_rules},
    {"Ollama", "POST", "/api/generate", "Answers one message, or goes on with a text (raw).", ollama_generate_rules,
     plain<post_ollama_generate>, ollama_option_rules},
    {"Ollama", "POST", "/api/show", "One model.", ollama_show_rules, plain<post_ollama_show>},
    {"Ollama", "GET", "/api/tags", "The models that there are.", nullptr, plain<get_ollama_tags>},
    {"Ollama", "GET", "/api/ps", "The models that are loaded.", nullptr, plain<get_ollama_ps>},
    {"Ollama", "GET", "/api/version", "The version of the server.", nullptr, plain<get_ollama_version>},
    {"Ollama", "POST", "/api/embed", "A vector of length 1 for each text, of a model that makes them.",
     ollama_embed_rules, plain<post_ollama_embed>},
    {"Ollama", "POST", "/api/embeddings", "Its older form: the vector of one text.", ollama_embeddings_rules,
     plain<post_ollama_embeddings>},

    {"llama.cpp", "POST", "/completion", "Goes on with a text.", llama_completion_rules, plain<post_llama_completion>},
    {"llama.cpp", "POST", "/tokenize", "The token ids of a text.", tokenize_rules, plain<post_tokenize>},
    {"llama.cpp", "POST", "/detokenize", "The text of token ids.", detokenize_rules, plain<post_detokenize>},
    {"llama.cpp", "POST", "/apply-template", "The prompt that a chat completion would have.", chat_rules,
     plain<post_apply_template>},
    {"llama.cpp", "GET", "/props", "The first model, and what the server is.", nullptr, plain<get_props>},

    {"ibid", "GET", "/openapi.json", "This description.", nullptr, plain<get_openapi>},
};

}  // namespace

std::span<const Endpoint> endpoints() { return kEndpoints; }

void add_endpoints(http::Router& router, const Site& site) {
  for (const Endpoint& endpoint : endpoints()) {
    router.add(endpoint.method, endpoint.pattern,
               [site, handle = endpoint.handle](const http::ExchangePtr& exchange, const http::PathParts& parts) {
                 answer_or_refuse(*exchange, [&] { handle(site, exchange, parts); });
               });
  }
}

}  // namespace ibid::serve
