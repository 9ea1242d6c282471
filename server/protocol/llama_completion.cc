// POST /completion (llama.cpp).
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/generate/logprobs_json.h"
#include "server/protocol/answer_fields.h"
#include "server/protocol/answer_json.h"
#include "server/protocol/llama_server.h"
#include "server/protocol/openai_chat_stream.h"
#include "server/protocol/prompt_fields.h"
#include "server/protocol/reply.h"

namespace ibid::serve {

namespace {

// Below 0 is "without end", which is what the context has room for; at 0 the prompt is read and nothing is said.
MaybeFault read_n_predict(const Json& value, LlamaCall& call) {
  const int64_t n = integer_of(value);
  call.request.n = n == 0 ? 0 : 1;
  call.request.options.max_tokens = n < 0 ? 0 : static_cast<size_t>(n);
  return {};
}

constexpr Field<LlamaCall> kLlamaFields[] = {
    model_field<LlamaCall>(),
    one_answer_field<LlamaCall>(),
    {{"prompt", Shape::kAny, "what the model goes on with: a text, or its token ids", 0, 0, Standing::kRead,
      kPromptSchema, true},
     [](const Json& value, LlamaCall& call) { return read_prompt(value, call.request); }},
    {{"n_predict", Shape::kInteger, "the most tokens of the answer; 0: the prompt is only read; below 0: no limit", -2,
      kMostMaxTokens},
     read_n_predict},
    {{"max_tokens", Shape::kInteger, "the same as n_predict", 1, kMostMaxTokens}, read_n_predict},
    {{"stream", Shape::kBoolean, "the answer comes in parts, as events"},
     [](const Json& value, LlamaCall& call) { return call.stream = value.get<bool>(), MaybeFault(); }},
    {{"n_probs", Shape::kInteger, "the likeliest tokens in each place", 0, 20},
     [](const Json& value, LlamaCall& call) {
       const auto n = static_cast<size_t>(integer_of(value));
       if (n > 0) call.request.options.n_logprobs = n;
       return MaybeFault();
     }},
    ignored_field<LlamaCall>("id_slot", "there are no slots"),
    ignored_field<LlamaCall>("n_keep", "see truncate"),
    refused_field<LlamaCall>("lora", "there are no adapters"),
};

const char* stop_type(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "eos";
    case FinishReason::kStopString: return "word";
    default: return "limit";
  }
}

Json llama_part(const std::string& text, bool stop) {
  Json json = Json::object();
  json["index"] = 0;
  json["content"] = text;
  json["tokens"] = Json::array();
  json["stop"] = stop;
  json["id_slot"] = -1;
  return json;
}

// llama.cpp writes -1 where there is no limit.
int64_t or_none(std::optional<size_t> n) { return n ? static_cast<int64_t>(*n) : -1; }

// settings: of the request; the seed is the answer's.
Json llama_end(const Heard& heard, const std::string& text, Json settings) {
  const Answer& answer = heard.answers.front();
  const Turn& turn = answer;
  Json json = llama_part(text, true);
  json["model"] = heard.model;
  json["tokens_predicted"] = turn.usage.n_decoded;
  json["tokens_evaluated"] = turn.usage.n_prompt;
  json["tokens_cached"] = turn.usage.n_cached;
  json["truncated"] = turn.left_out.any();
  json["stop_type"] = stop_type(turn.finish_reason);
  json["stopping_word"] = turn.stop_string;
  if (!turn.logprobs.empty() && heard.tokenizer != nullptr) {
    json["completion_probabilities"] = logprobs_json(turn.logprobs, *heard.tokenizer)["content"];
  }
  settings["seed"] = turn.seed;
  json["generation_settings"] = std::move(settings);
  json["timings"] = llama_timings(turn);
  json["ibid"] = ibid_details(turn);
  return json;
}

class LlamaStream final : public StreamReply {
 public:
  LlamaStream(http::ExchangePtr exchange, Json settings)
      : StreamReply(std::move(exchange), 1, ErrorStyle::kOpenAi, StreamForm::kEvents), settings_(std::move(settings)) {}

 protected:
  void opened() override {}
  void said(size_t, std::string_view text) override { send(llama_part(std::string(text), false)); }
  void thought(size_t i, std::string_view text) override { said(i, text); }
  void called(size_t, size_t, std::string_view, std::string_view) override {}
  void call_part(size_t, size_t, std::string_view) override {}
  void answered(size_t, const Answer&) override {}
  void finished() override { send(llama_end(heard(), "", settings_)); }
  void failed(const Fault& fault) override { send(fault_json(fault, ErrorStyle::kOpenAi)); }

 private:
  Json settings_;
};

MaybeFault read_llama(const Site& site, const http::Request& source, LlamaCall& call) {
  Json body;
  if (MaybeFault fault = begin_request(site, source, body, call.request)) return fault;
  if (MaybeFault fault = read_fields(body, llama_fields(), call)) return fault;
  return read_answer_fields(body, call.request, false);
}

}  // namespace

std::span<const Field<LlamaCall>> llama_fields() { return kLlamaFields; }

Json generation_settings(const AnswerRequest& request, bool stream) {
  constexpr uint64_t kRandomSeed = 4294967295;  // llama.cpp's word for "a random one"
  const TurnOptions& options = request.options;
  const SamplerOptions& sampler = options.sampler;
  const int64_t n_predict = request.n == 0 ? 0 : options.max_tokens == 0 ? -1 : or_none(options.max_tokens);
  Json json = Json::object();
  json["n_predict"] = n_predict;
  json["max_tokens"] = n_predict;
  json["seed"] = sampler.seed.value_or(kRandomSeed);
  json["temperature"] = sampler.temperature;
  json["top_k"] = sampler.top_k;
  json["top_p"] = sampler.top_p;
  json["min_p"] = sampler.min_p;
  json["typical_p"] = sampler.typical_p;
  json["xtc_probability"] = sampler.xtc_probability;
  json["xtc_threshold"] = sampler.xtc_threshold;
  json["repeat_last_n"] = or_none(sampler.repetition_window);
  json["repeat_penalty"] = sampler.repetition_penalty;
  json["presence_penalty"] = sampler.presence_penalty;
  json["frequency_penalty"] = sampler.frequency_penalty;
  json["dry_multiplier"] = sampler.dry_multiplier;
  json["dry_base"] = sampler.dry_base;
  json["dry_allowed_length"] = sampler.dry_allowed_length;
  json["dry_penalty_last_n"] = or_none(sampler.dry_window);
  json["mirostat"] = 0;
  json["stop"] = options.stop_strings;
  json["ignore_eos"] = false;
  json["n_probs"] = options.n_logprobs.value_or(0);
  json["grammar"] = request.form.kind == AnswerForm::Kind::kGbnf ? request.form.text : "";
  json["stream"] = stream;
  return json;
}

void post_llama_completion(const Site& site, const http::ExchangePtr& exchange) {
  LlamaCall call;
  if (MaybeFault fault = read_llama(site, exchange->request(), call)) {
    return respond_fault(*exchange, *fault, ErrorStyle::kOpenAi);
  }
  Json settings = generation_settings(call.request, call.stream);
  std::shared_ptr<AnswerListener> listener;
  if (call.stream) {
    listener = std::make_shared<LlamaStream>(exchange, std::move(settings));
  } else {
    const auto make = [settings = std::move(settings)](const Heard& heard) {
      const Answer& answer = heard.answers.front();
      return llama_end(heard, answer.reasoning + answer.content, settings);
    };
    listener = std::make_shared<WholeReply>(exchange, 1, ErrorStyle::kOpenAi, make);
  }
  site.backend->start(std::move(call.request), std::move(listener), exchange->gone());
}

}  // namespace ibid::serve
