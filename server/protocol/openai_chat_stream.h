// ChatStream: an answer as the chunks of OpenAI's chat completions. The first chunk of each choice has the role, the
// last the finish_reason; with include_usage one more chunk has no choices and the usage; "[DONE]" ends it. An error
// in the middle is an event with the error, and no "[DONE]".
//
// Log-probabilities come with the chunk of their text; those of markers, which are no text, with the next one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/protocol/openai_chat.h"

namespace ibid::serve {

struct ChatStreamOptions {
  size_t n = 1;
  bool include_usage = false;
  bool return_progress = false;
};

class ChatStream final : public StreamReply {
 public:
  ChatStream(http::ExchangePtr exchange, Site site, CompletionNames names, ChatStreamOptions options);

  void prefill(size_t n_done, size_t n_total) override;

 protected:
  void opened() override;
  void said(size_t i, std::string_view text) override;
  void thought(size_t i, std::string_view text) override;
  void called(size_t i, size_t call, std::string_view id, std::string_view name) override;
  void call_part(size_t i, size_t call, std::string_view part) override;
  void answered(size_t i, const Answer& answer) override;
  void finished() override;
  void failed(const Fault& fault) override;

 private:
  Json chunk() const;
  Json logprobs_json_of(const std::vector<TokenLogprobs>& tokens);
  void send_delta(size_t i, Json delta);
  void send_call(size_t i, Json call);

  Site site_;
  CompletionNames names_;
  ChatStreamOptions options_;
  int64_t begin_ns_ = 0;
  std::optional<size_t> n_reused_;  // of the prompt, as the first report of progress says
};

// Null where there are none.
Json logprobs_of(std::span<const TokenLogprobs> tokens, const Tokenizer* tokenizer);
// "usage", "timings" and "ibid".
void add_costs(Json& json, const Heard& heard);

}  // namespace ibid::serve
