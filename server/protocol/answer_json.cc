#include "server/protocol/answer_json.h"

#include <utility>

#include "tokenizer/tokenizer.h"

namespace ibid::serve {

namespace {

double per_second(size_t n, double ms) { return ms > 0 ? static_cast<double>(n) * 1000.0 / ms : 0; }
double per_token(size_t n, double ms) { return n > 0 ? ms / static_cast<double>(n) : 0; }

Json lost_prefix_json(const LostPrefix& lost) {
  Json json = Json::object();
  json["tokens"] = lost.n_tokens;
  json["message"] = lost.message;
  json["byte"] = lost.byte;
  json["token"] = lost.token;
  json["cause"] = std::string(lost_cause_text(lost.cause));
  return json;
}

}  // namespace

TokenCounts count_tokens(std::span<const Answer> answers, const Tokenizer* tokenizer) {
  TokenCounts counts;
  if (answers.empty()) return counts;
  counts.n_prompt = answers.front().usage.n_prompt;
  counts.n_cached = answers.front().usage.n_cached;
  for (const Answer& answer : answers) {
    counts.n_completion += answer.usage.n_decoded;
    if (tokenizer != nullptr && !answer.reasoning.empty()) {
      counts.n_reasoning += tokenizer->encode(answer.reasoning, TextOrigin::kInput).size();
    }
  }
  return counts;
}

Json openai_usage(const TokenCounts& counts) {
  Json prompt = Json::object();
  prompt["cached_tokens"] = counts.n_cached;
  Json completion = Json::object();
  completion["reasoning_tokens"] = counts.n_reasoning;
  Json usage = Json::object();
  usage["prompt_tokens"] = counts.n_prompt;
  usage["completion_tokens"] = counts.n_completion;
  usage["total_tokens"] = counts.n_prompt + counts.n_completion;
  usage["prompt_tokens_details"] = std::move(prompt);
  usage["completion_tokens_details"] = std::move(completion);
  return usage;
}

Json llama_timings(const Turn& turn) {
  const Usage& usage = turn.usage;
  const double decode_ms = turn.timings.decode_ms + turn.timings.sample_ms;
  Json json = Json::object();
  json["cache_n"] = usage.n_cached;
  json["prompt_n"] = usage.n_prefilled;
  json["prompt_ms"] = turn.timings.prefill_ms;
  json["prompt_per_token_ms"] = per_token(usage.n_prefilled, turn.timings.prefill_ms);
  json["prompt_per_second"] = per_second(usage.n_prefilled, turn.timings.prefill_ms);
  json["predicted_n"] = usage.n_decoded;
  json["predicted_ms"] = decode_ms;
  json["predicted_per_token_ms"] = per_token(usage.n_decoded, decode_ms);
  json["predicted_per_second"] = per_second(usage.n_decoded, decode_ms);
  if (usage.n_drafted > 0) {
    json["draft_n"] = usage.n_drafted;
    json["draft_n_accepted"] = usage.n_accepted;
  }
  return json;
}

Json ibid_details(const Turn& turn) {
  Json json = Json::object();
  json["prefilled"] = turn.usage.n_prefilled;
  json["cached"] = turn.usage.n_cached;
  json["from_disk"] = turn.usage.n_from_disk;
  json["read_again"] = turn.usage.n_read_again;
  json["ttft_ms"] = turn.timings.ttft_ms;
  json["total_ms"] = turn.timings.total_ms;
  json["seed"] = turn.seed;
  json["finish_reason"] = std::string(finish_reason_name(turn.finish_reason));
  if (!turn.stop_string.empty()) json["stop_string"] = turn.stop_string;
  if (turn.lost_prefix) json["lost_prefix"] = lost_prefix_json(*turn.lost_prefix);
  if (turn.left_out.any()) {
    Json left_out = Json::object();
    left_out["messages"] = turn.left_out.n_messages;
    left_out["bytes"] = turn.left_out.n_bytes;
    json["left_out"] = std::move(left_out);
  }
  return json;
}

std::string openai_finish_reason(const Answer& answer) {
  switch (answer.finish_reason) {
    case FinishReason::kLength:
    case FinishReason::kCancelled:
    case FinishReason::kRepetition: return "length";
    default: return answer.tool_calls.empty() ? "stop" : "tool_calls";
  }
}

}  // namespace ibid::serve
