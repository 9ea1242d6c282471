#include "apps/serve/protocol/endpoints.h"

#include "apps/serve/protocol/answer_fields.h"
#include "apps/serve/protocol/openai_chat.h"
#include "apps/serve/protocol/openai_completions.h"
#include "apps/serve/protocol/openai_models.h"
#include "apps/serve/protocol/responses.h"
#include "apps/serve/protocol/sampler_fields.h"

namespace ibid::serve {

namespace {

template <typename Target>
void append_rules(std::vector<FieldRule>& rules, std::span<const Field<Target>> fields) {
  for (const Field<Target>& field : fields) rules.push_back(field.rule);
}

template <typename Target>
std::vector<FieldRule> prompt_rules(std::span<const Field<Target>> own) {
  std::vector<FieldRule> rules;
  append_rules(rules, own);
  append_rules(rules, sampler_fields());
  append_rules(rules, common_answer_fields());
  return rules;
}

template <typename Target>
std::vector<FieldRule> message_rules(std::span<const Field<Target>> own) {
  std::vector<FieldRule> rules = prompt_rules(own);
  append_rules(rules, chat_answer_fields());
  return rules;
}

constexpr Endpoint kEndpoints[] = {
    {"OpenAI", "GET", "/v1/models", "The models that there are.", nullptr,
     [](const Site& site, const http::ExchangePtr& exchange, const http::PathParts&) { get_models(site, exchange); }},
    {"OpenAI", "GET", "/v1/models/{id}", "One model.", nullptr,
     [](const Site& site, const http::ExchangePtr& exchange, const http::PathParts& parts) {
       get_model(site, exchange, parts.at(0));
     }},
    {"OpenAI", "POST", "/v1/chat/completions", "Answers a conversation, the whole of which is sent each time.",
     [] { return message_rules(chat_fields()); },
     [](const Site& site, const http::ExchangePtr& exchange, const http::PathParts&) {
       post_chat_completions(site, exchange);
     }},
    {"OpenAI", "POST", "/v1/completions", "Goes on with a text.", [] { return prompt_rules(completion_fields()); },
     [](const Site& site, const http::ExchangePtr& exchange, const http::PathParts&) {
       post_completions(site, exchange);
     }},
    {"OpenAI", "POST", "/v1/responses", "Answers items; later requests go on from it by its id.",
     [] { return message_rules(response_fields()); },
     [](const Site& site, const http::ExchangePtr& exchange, const http::PathParts&) {
       post_responses(site, exchange);
     }},
    {"OpenAI", "GET", "/v1/responses/{id}", "A response that is stored.", nullptr,
     [](const Site& site, const http::ExchangePtr& exchange, const http::PathParts& parts) {
       get_response(site, exchange, parts.at(0));
     }},
    {"OpenAI", "DELETE", "/v1/responses/{id}", "Forgets a response.", nullptr,
     [](const Site& site, const http::ExchangePtr& exchange, const http::PathParts& parts) {
       delete_response(site, exchange, parts.at(0));
     }},
    {"OpenAI", "POST", "/v1/embeddings", "501: the models here are for text.", nullptr,
     [](const Site&, const http::ExchangePtr& exchange, const http::PathParts&) {
       respond_fault(*exchange, {.status = 501, .message = "embeddings are not supported", .code = "unsupported"},
                     ErrorStyle::kOpenAi);
     }},
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
