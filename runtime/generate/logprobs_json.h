// Log-probabilities of an answer as JSON in OpenAI's form, for the terminal (apps/chat/turn_report.h) and the server
// (server/protocol/).
#pragma once

#include <span>
#include <string>
#include <utility>

#include "base/json_limits.h"
#include "ibid/token.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

// {"token", "id", "logprob", "bytes"}. A token with part of a character has U+FFFD in its text when written; `bytes` is
// exact.
inline Json token_logprob_json(TokenId id, double logprob, const Tokenizer& tokenizer) {
  const std::string text(tokenizer.token_bytes(id));
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", text}, {"id", id}, {"logprob", logprob}, {"bytes", std::move(bytes)}};
}

// {"content": [{"token", "id", "logprob", "bytes", "top_logprobs"}, ...]}: one element for each token of the answer.
inline Json logprobs_json(std::span<const TokenLogprobs> tokens, const Tokenizer& tokenizer) {
  Json content = Json::array();
  for (const TokenLogprobs& token : tokens) {
    Json one = token_logprob_json(token.id, token.logprob, tokenizer);
    Json top = Json::array();
    for (const auto& [id, logprob] : token.top) top.push_back(token_logprob_json(id, logprob, tokenizer));
    one["top_logprobs"] = std::move(top);
    content.push_back(std::move(one));
  }
  return {{"content", std::move(content)}};
}

}  // namespace ibid
