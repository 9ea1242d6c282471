// The endpoints of llama.cpp's server that OpenAI does not have: /completion, /tokenize, /detokenize, /apply-template,
// /props. Source: llama.cpp tools/server/README.md. The service runs all work that needs a model, as a task, so that
// handler threads wait neither for models nor for long texts.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "runtime/generate/logprobs_json.h"
#include "server/protocol/answer_fields.h"
#include "server/protocol/handlers.h"
#include "server/protocol/openai_chat.h"
#include "server/protocol/prompts.h"
#include "server/protocol/reply.h"

namespace ibid::serve {

namespace {

struct LlamaCall {
  AnswerRequest request;
  bool stream = false;
};

// Reads n_predict. Negative: the answer may fill the context; 0: only prefills the prompt.
void read_n_predict(const Json& value, LlamaCall& call) {
  const int64_t n = integer_of(value);
  call.request.n = n == 0 ? 0 : 1;
  call.request.options.max_tokens = n < 0 ? 0 : static_cast<size_t>(n);
}

constexpr Field<LlamaCall> kLlamaFields[] = {
    model_field<LlamaCall>(),
    one_answer_field<LlamaCall>(),
    {{"prompt", Shape::kAny, "the text to continue: a string, or token ids", 0, 0, Standing::kRead, kPromptSchema,
      true},
     of_request<read_prompt>},
    {{"n_predict", Shape::kInteger,
      "maximum number of tokens of the answer; 0: only prefill the prompt; negative: no limit", -2, kMostMaxTokens},
     read_n_predict},
    {{"max_tokens", Shape::kInteger, "the same as n_predict", 1, kMostMaxTokens}, read_n_predict},
    {{"stream", Shape::kBoolean, "stream the answer as server-sent events"}, set<&LlamaCall::stream>},
    {{"n_probs", Shape::kInteger, "number of most likely alternatives per token", 0, 20},
     [](const Json& value, LlamaCall& call) {
       if (integer_of(value) > 0) store(value, call.request.options.n_logprobs);
     }},
    ignored_field<LlamaCall>("id_slot", "the server has no slots"),
    ignored_field<LlamaCall>("n_keep", "see truncate"),
    refused_field<LlamaCall>("prompt_logprobs", "see /v1/completions"),
    refused_field<LlamaCall>("lora", "adapters are not supported"),
};

const char* stop_type(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "eos";
    case FinishReason::kStopString: return "word";
    default: return "limit";
  }
}

// Makes a part of an answer; `stop` is true only in the last one.
Json llama_part(std::string_view text, bool stop) {
  return {{"index", 0}, {"content", text}, {"tokens", Json::array()}, {"stop", stop}, {"id_slot", -1}};
}

// Returns -1 for no limit, as llama.cpp does.
int64_t or_none(std::optional<size_t> n) { return n ? static_cast<int64_t>(*n) : -1; }

// Returns the sampling and length options, by llama.cpp's names.
Json generation_settings(const AnswerRequest& request, bool stream) {
  constexpr uint64_t kRandomSeed = 4294967295;  // llama.cpp's value for "a random one"
  const TurnOptions& options = request.options;
  const SamplerOptions& sampler = options.sampler;
  const int64_t n_predict = request.n == 0 ? 0 : options.max_tokens == 0 ? -1 : or_none(options.max_tokens);
  return {{"n_predict", n_predict},
          {"max_tokens", n_predict},
          {"seed", sampler.seed.value_or(kRandomSeed)},
          {"temperature", sampler.temperature},
          {"top_k", sampler.top_k},
          {"top_p", sampler.top_p},
          {"min_p", sampler.min_p},
          {"typical_p", sampler.typical_p},
          {"xtc_probability", sampler.xtc_probability},
          {"xtc_threshold", sampler.xtc_threshold},
          {"repeat_last_n", or_none(sampler.repetition_window)},
          {"repeat_penalty", sampler.repetition_penalty},
          {"presence_penalty", sampler.presence_penalty},
          {"frequency_penalty", sampler.frequency_penalty},
          {"dry_multiplier", sampler.dry_multiplier},
          {"dry_base", sampler.dry_base},
          {"dry_allowed_length", sampler.dry_allowed_length},
          {"dry_penalty_last_n", or_none(sampler.dry_window)},
          {"mirostat", 0},
          {"stop", options.stop_strings},
          {"ignore_eos", false},
          {"n_probs", options.n_logprobs.value_or(0)},
          {"grammar", request.form.kind == ResponseFormat::Kind::kGbnf ? request.form.text : ""},
          {"stream", stream}};
}

// Makes the end of an answer. `settings` are those of the request; the seed is replaced by the answer's.
Json llama_end(const Heard& heard, const std::string& text, Json settings) {
  const Answer& turn = heard.answers.front();
  Json json = llama_part(text, true);
  json.update({{"model", heard.model},
               {"tokens_predicted", turn.usage.n_decoded},
               {"tokens_evaluated", turn.usage.n_prompt},
               {"tokens_cached", turn.usage.n_cached},
               {"truncated", turn.left_out.any()},
               {"stop_type", stop_type(turn.finish_reason)},
               {"stopping_word", turn.stop_string}});
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
      : StreamReply(std::move(exchange), 1), settings_(std::move(settings)) {}

 private:
  void said(size_t, std::string_view text) override { emit(llama_part(text, false)); }
  void finished() override { emit(llama_end(heard_, "", settings_)); }

  const Json settings_;
};

// A request of /tokenize or /detokenize.
struct TokenCall {
  std::string model = {};
  std::string content = {};
  Tokens tokens = {};
  bool add_special = false;
  bool parse_special = true;
  bool with_pieces = false;
};

constexpr Field<TokenCall> kModelOfTokens = {model_field<TokenCall>().rule, set<&TokenCall::model>};

constexpr Field<TokenCall> kTokenizeFields[] = {
    kModelOfTokens,
    user_field<TokenCall>(),
    {{"content", Shape::kText, "the text to tokenize", 0, 1 << 30, Standing::kRead, "", true},
     set<&TokenCall::content>},
    {{"add_special", Shape::kBoolean, "add BOS/EOS as the model requires"}, set<&TokenCall::add_special>},
    {{"parse_special", Shape::kBoolean, "recognize special tokens in the text; default true"},
     set<&TokenCall::parse_special>},
    {{"with_pieces", Shape::kBoolean, "return each token with its text, or with its bytes if they are not valid UTF-8"},
     set<&TokenCall::with_pieces>},
};

constexpr Field<TokenCall> kDetokenizeFields[] = {
    kModelOfTokens,
    user_field<TokenCall>(),
    {{"tokens", Shape::kList, "token ids", 0, static_cast<double>(kMaxPromptIds), Standing::kRead,
      R"({"type":"array","items":{"type":"integer","minimum":0,"maximum":2147483647}})", true},
     [](const Json& value, TokenCall& call) { read_token_ids(value, call.tokens); }},
};

Json piece_json(TokenId id, const Tokenizer& tokenizer) {
  const std::string bytes(tokenizer.token_bytes(id));
  if (utf8_is_valid(bytes)) return {{"id", id}, {"piece", bytes}};
  Json piece = Json::array();
  for (const char c : bytes) piece.push_back(static_cast<unsigned char>(c));
  return {{"id", id}, {"piece", std::move(piece)}};
}

Json tokenize(const TokenCall& call, const Tokenizer& tokenizer) {
  const TextOrigin origin = call.parse_special ? TextOrigin::kTemplate : TextOrigin::kInput;
  Json tokens = Json::array();
  for (const TokenId id : tokenizer.encode(call.content, origin, call.add_special)) {
    tokens.push_back(call.with_pieces ? piece_json(id, tokenizer) : Json(id));
  }
  return {{"tokens", std::move(tokens)}};
}

Json detokenize(const TokenCall& call, const Tokenizer& tokenizer) {
  for (size_t i = 0; i < call.tokens.size(); ++i) {
    if (static_cast<size_t>(call.tokens[i]) < tokenizer.vocab_size()) continue;
    throw Fault{.message = "is outside the model's vocabulary", .param = "tokens" + place_in_list(i)};
  }
  return {{"content", tokenizer.decode(call.tokens)}};
}

// Reads the request, and responds with the result of use(tokenizer).
void start_tokens(const Site& site, const http::ExchangePtr& exchange, std::span<const Field<TokenCall>> fields,
                  Json (*use)(const TokenCall& call, const Tokenizer& tokenizer)) {
  const http::Request& source = exchange->request();
  check_text_body(source);
  const Json body = parse_body(source.body);
  ModelCall model{.cache_namespace = read_namespace(site, source, body), .n_bytes = source.body.size()};
  TokenCall call;
  read_fields(body, fields, call);
  model.model = call.model;
  const auto then = [exchange, call = std::move(call), use](const Result<std::shared_ptr<const Tokenizer>>& loaded) {
    answer_or_refuse(*exchange, [&] {
      if (!loaded.ok()) throw fault_of(loaded.status());
      respond_json(*exchange, use(call, **loaded));
    });
  };
  site.backend->with_tokenizer(std::move(model), then, exchange->gone());
}

}  // namespace

std::vector<FieldRule> llama_completion_rules() { return prompt_rules(rules_of<LlamaCall>(kLlamaFields)); }
std::vector<FieldRule> tokenize_rules() { return rules_of<TokenCall>(kTokenizeFields); }
std::vector<FieldRule> detokenize_rules() { return rules_of<TokenCall>(kDetokenizeFields); }

void post_llama_completion(const Site& site, const http::ExchangePtr& exchange) {
  LlamaCall call;
  const Json body = begin_request(site, exchange->request(), call.request);
  read_fields<LlamaCall>(body, kLlamaFields, call);
  read_answer_fields(body, call.request, false);
  Json settings = generation_settings(call.request, call.stream);
  std::shared_ptr<AnswerListener> listener;
  if (call.stream) {
    listener = std::make_shared<LlamaStream>(exchange, std::move(settings));
  } else {
    listener = std::make_shared<WholeReply>(exchange, 1, [settings = std::move(settings)](const Heard& heard) {
      const Answer& answer = heard.answers.front();
      return llama_end(heard, answer.reasoning + answer.content, settings);
    });
  }
  site.backend->start(std::move(call.request), std::move(listener), exchange->gone());
}

void post_tokenize(const Site& site, const http::ExchangePtr& exchange) {
  start_tokens(site, exchange, kTokenizeFields, tokenize);
}

void post_detokenize(const Site& site, const http::ExchangePtr& exchange) {
  start_tokens(site, exchange, kDetokenizeFields, detokenize);
}

void post_apply_template(const Site& site, const http::ExchangePtr& exchange) {
  check_text_body(exchange->request());
  ChatCall call = read_chat(site, exchange->request(), false);
  const auto then = [exchange](const Result<std::string>& prompt) {
    answer_or_refuse(*exchange, [&] {
      if (!prompt.ok()) throw fault_of(prompt.status());
      respond_json(*exchange, {{"prompt", *prompt}});
    });
  };
  site.backend->render_prompt(std::move(call.request), then, exchange->gone());
}

void get_props(const Site& site, const http::ExchangePtr& exchange) {
  const std::vector<ModelCard> cards = site.backend->models();
  const ModelCard card = cards.empty() ? ModelCard() : cards.front();
  // Current clients read the settings in "params", older ones beside n_ctx.
  Json settings = generation_settings({.options = site.backend->default_options(card.name)}, true);
  Json params = settings;
  settings["n_ctx"] = card.max_seq_len;
  settings["params"] = std::move(params);
  respond_json(*exchange, {{"default_generation_settings", std::move(settings)},
                           {"total_slots", 1},
                           {"model_alias", card.name},
                           {"chat_template", card.chat_template},
                           {"modalities", {{"vision", false}, {"audio", false}}},
                           {"build_info", "ibid " + site.version}});
}

}  // namespace ibid::serve
