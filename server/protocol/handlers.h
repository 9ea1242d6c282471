// The handlers of all endpoints, and the rules of their bodies, for the list in endpoints.cc. Handlers throw Fault. A
// handler for stored objects receives the namespace of the request (read_namespace()).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "server/protocol/field.h"
#include "server/protocol/site.h"

namespace ibid::serve {

// In models.cc, openai_chat.cc, openai_completions.cc, responses.cc: endpoints of OpenAI. Those for models are also
// Anthropic's.
void get_models(const Site& site, const http::ExchangePtr& exchange);
void get_model(const Site& site, const http::ExchangePtr& exchange, const std::string& name);
std::vector<FieldRule> chat_rules();
void post_chat_completions(const Site& site, const http::ExchangePtr& exchange);
void post_chat_input_tokens(const Site& site, const http::ExchangePtr& exchange);
void post_chat_render(const Site& site, const http::ExchangePtr& exchange);
std::vector<FieldRule> completion_rules();
void post_completions(const Site& site, const http::ExchangePtr& exchange);
void post_completion_render(const Site& site, const http::ExchangePtr& exchange);
std::vector<FieldRule> response_rules();
void post_responses(const Site& site, const http::ExchangePtr& exchange);
void post_response_input_tokens(const Site& site, const http::ExchangePtr& exchange);
void get_response(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                  const std::string& id);
void delete_response(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                     const std::string& id);
void get_input_items(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                     const std::string& id);
void cancel_response(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                     const std::string& id);

// In embeddings.cc: the endpoint of OpenAI and the two of Ollama.
std::vector<FieldRule> embedding_rules();
void post_embeddings(const Site& site, const http::ExchangePtr& exchange);
std::vector<FieldRule> ollama_embed_rules();
void post_ollama_embed(const Site& site, const http::ExchangePtr& exchange);
std::vector<FieldRule> ollama_embeddings_rules();
void post_ollama_embeddings(const Site& site, const http::ExchangePtr& exchange);
// Appends a vector as "[0.25,-1]", with the shortest numbers that parse as the same floats.
void append_numbers(std::string& out, std::span<const float> vector);
// Appends the bytes of the floats, little-endian, as base64 (RFC 4648) in quotes.
void append_base64(std::string& out, std::span<const float> vector);

// In anthropic.cc: POST /v1/messages and /v1/messages/count_tokens, which have the same fields.
std::vector<FieldRule> messages_rules();
void post_messages(const Site& site, const http::ExchangePtr& exchange);
void post_count_tokens(const Site& site, const http::ExchangePtr& exchange);

// In ollama.cc.
std::vector<FieldRule> ollama_chat_rules();
void post_ollama_chat(const Site& site, const http::ExchangePtr& exchange);
std::vector<FieldRule> ollama_generate_rules();
void post_ollama_generate(const Site& site, const http::ExchangePtr& exchange);
std::vector<FieldRule> ollama_option_rules();  // fields of "options" in /api/chat and /api/generate
std::vector<FieldRule> ollama_show_rules();
void post_ollama_show(const Site& site, const http::ExchangePtr& exchange);
void get_ollama_tags(const Site& site, const http::ExchangePtr& exchange);
void get_ollama_ps(const Site& site, const http::ExchangePtr& exchange);
void get_ollama_version(const Site& site, const http::ExchangePtr& exchange);
std::vector<FieldRule> ollama_pull_rules();
void post_ollama_pull(const Site& site, const http::ExchangePtr& exchange);
void refuse_ollama_change(const Site& site, const http::ExchangePtr& exchange);

// In llama.cc: the endpoints of llama.cpp's server that OpenAI does not have. /apply-template takes a chat completions
// request and returns its prompt.
std::vector<FieldRule> llama_completion_rules();
void post_llama_completion(const Site& site, const http::ExchangePtr& exchange);
std::vector<FieldRule> bare_completion_rules();
void post_bare_completions(const Site& site, const http::ExchangePtr& exchange);
std::vector<FieldRule> infill_rules();
void post_infill(const Site& site, const http::ExchangePtr& exchange);
std::vector<FieldRule> tokenize_rules();
void post_tokenize(const Site& site, const http::ExchangePtr& exchange);
std::vector<FieldRule> detokenize_rules();
void post_detokenize(const Site& site, const http::ExchangePtr& exchange);
void post_apply_template(const Site& site, const http::ExchangePtr& exchange);
void get_props(const Site& site, const http::ExchangePtr& exchange);
void get_slots(const Site& site, const http::ExchangePtr& exchange);
void get_lora_adapters(const Site& site, const http::ExchangePtr& exchange);
void refuse_lora(const Site& site, const http::ExchangePtr& exchange);
void refuse_rerank(const Site& site, const http::ExchangePtr& exchange);

// In routers.cc: endpoints for routers.
void get_load(const Site& site, const http::ExchangePtr& exchange);
void get_loads(const Site& site, const http::ExchangePtr& exchange);
void get_model_info(const Site& site, const http::ExchangePtr& exchange);
void get_server_info(const Site& site, const http::ExchangePtr& exchange);

// In openapi.cc.
void get_openapi(const Site& site, const http::ExchangePtr& exchange);

}  // namespace ibid::serve
