// What llama.cpp's server has besides OpenAI's protocol: /completion, /tokenize, /detokenize, /apply-template, /props.
// Source: llama.cpp tools/server/README.md.
#pragma once

#include <span>

#include "server/protocol/call.h"
#include "server/protocol/site.h"

namespace ibid::serve {

struct LlamaCall {
  AnswerRequest request;
  bool stream = false;
};
std::span<const Field<LlamaCall>> llama_fields();

// What /tokenize and /detokenize read.
struct TokenCall {
  std::string model = {};
  std::string cache_namespace = {};
  std::string content = {};
  Tokens tokens = {};
  bool add_special = false;
  bool parse_special = true;
  bool with_pieces = false;
};
std::span<const Field<TokenCall>> tokenize_fields();
std::span<const Field<TokenCall>> detokenize_fields();

// How an answer is sampled and where it ends, by llama.cpp's names.
Json generation_settings(const AnswerRequest& request, bool stream);

void post_llama_completion(const Site& site, const http::ExchangePtr& exchange);
void post_tokenize(const Site& site, const http::ExchangePtr& exchange);
void post_detokenize(const Site& site, const http::ExchangePtr& exchange);
// Takes a request of chat completions and returns the prompt that it would have.
void post_apply_template(const Site& site, const http::ExchangePtr& exchange);
void get_props(const Site& site, const http::ExchangePtr& exchange);

}  // namespace ibid::serve
