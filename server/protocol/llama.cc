// The endpoints of llama.cpp's server besides OpenAI's: /completion (also named /completions), /infill, /tokenize,
// /detokenize, /apply-template, /props, /slots, /lora-adapters, /rerank.
// Source: llama.cpp tools/server/README.md.
//
// The service runs all work that needs a model, as a task: handler threads wait neither for models nor for long texts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "runtime/generate/logprobs_json.h"
#include "server/http/request_reader.h"
#include "server/protocol/answer_fields.h"
#include "server/protocol/handlers.h"
#include "server/protocol/openai_chat.h"
#include "server/protocol/prompts.h"
#include "server/protocol/reply.h"
#include "templates/message.h"

namespace ibid::serve {

namespace {

struct LlamaCall {
  AnswerRequest request;
  std::vector<Prompt> prompts = {};
  Infill infill = {};  // fields of /infill
  bool stream = false;
  bool probabilities = false;            // n_probs
  bool tokens = false;                   // return_tokens
  bool progress = false;                 // return_progress
  bool timings = false;                  // timings_per_token
  std::vector<std::string> fields = {};  // response_fields; empty: all
};

void read_response_fields(const Json& value, LlamaCall& call) {
  read_each(value, [&](const Json& field) {
    if (!field.is_string()) throw wrong_type("must be a string");
    call.fields.push_back(field.get<std::string>());
  });
}

// Reads input_extra, the files that are the context of an infill: [{"filename": ..., "text": ...}, ...].
void read_input_extra(const Json& value, LlamaCall& call) {
  read_each(value, [&](const Json& file) {
    const bool has_name = member(file, "filename") != nullptr;
    call.infill.files.push_back({has_name ? need_text(file, "filename") : "tmp", need_text(file, "text")});
  });
}

constexpr Field<LlamaCall> kPromptField[] = {
    {{"prompt", Shape::kAny,
      "the text to continue: a string, token ids, a list of both, an object with prompt_string; or a list of these, "
      "whose "
      "answers are a list",
      0, 0, Standing::kRead, kPromptsSchema, true},
     [](const Json& value, LlamaCall& call) { read_prompts(value, call.prompts); }},
};

constexpr Field<LlamaCall> kInfillFields[] = {
    {{"input_prefix", Shape::kText, "the text before the gap", 0, 1 << 30}, set<&LlamaCall::infill, &Infill::prefix>},
    {{"input_suffix", Shape::kText, "the text after the gap", 0, 1 << 30}, set<&LlamaCall::infill, &Infill::suffix>},
    {{"prompt", Shape::kText, "appended to input_prefix", 0, 1 << 30},
     [](const Json& value, LlamaCall& call) { call.infill.prefix += value.get_ref<const std::string&>(); }},
    {{"input_extra", Shape::kList, "other files as context, each with filename and text", 0, 256, Standing::kRead,
      R"({"type":"array","items":{"type":"object","required":["text"],"properties":{"filename":{"type":"string"},)"
      R"("text":{"type":"string"}}}})"},
     read_input_extra},
};

constexpr Field<LlamaCall> kLlamaFields[] = {
    model_field<LlamaCall>(),
    one_answer_field<LlamaCall>(),
    {{"n_predict", Shape::kInteger,
      "maximum number of tokens of the answer; 0: only prefill the prompt; negative: no limit", -2, kMostMaxTokens},
     of_request<set_max_tokens>},
    {{"max_tokens", Shape::kInteger, "the same as n_predict", -2, kMostMaxTokens}, of_request<set_max_tokens>},
    {{"stream", Shape::kBoolean, "stream the answer as server-sent events"}, set<&LlamaCall::stream>},
    {{"n_probs", Shape::kInteger, "number of most likely alternatives per token", 0, 20},
     [](const Json& value, LlamaCall& call) {
       call.probabilities = integer_of(value) > 0;
       if (call.probabilities) store(value, call.request.options.n_logprobs);
     }},
    {{"return_tokens", Shape::kBoolean, "return the ids of the answer's tokens; streams always have them"},
     set<&LlamaCall::tokens>},
    {{"return_progress", Shape::kBoolean,
      "send parts with prompt_progress during prefill; needs stream, and one prompt"},
     set<&LlamaCall::progress>},
    {{"timings_per_token", Shape::kBoolean, "send the timings so far with each part; needs stream, and one prompt"},
     set<&LlamaCall::timings>},
    {{"response_fields", Shape::kList, "the fields of a whole answer to return, as paths: \"timings/prompt_n\"", 0, 128,
      Standing::kRead, R"({"type":"array","items":{"type":"string"},"maxItems":128})"},
     read_response_fields},
    {{"logit_bias", Shape::kAny,
      "added to the logits of these tokens; -100 or false: never sampled. An object of token ids or texts and numbers, "
      "or a list of pairs; a text stands for its tokens",
      0, 0, Standing::kRead, kBiasSchema},
     of_request<read_llama_bias>},
    ignored_field<LlamaCall>("id_slot", "all requests share one cache", R"([{"maximum":-1}])"),
    ignored_field<LlamaCall>("n_keep", "see truncate"),
    refused_field<LlamaCall>("prompt_logprobs", "see /v1/completions"),
    refused_field<LlamaCall>("lora", "adapters are not supported"),
    ignored_field<LlamaCall>("n_discard", "see truncate"),
    ignored_field<LlamaCall>("n_cache_reuse", "cached prefixes are always reused"),
    ignored_field<LlamaCall>("n_indent", "see grammar"),
    refused_field<LlamaCall>("return_tokens_as_token_ids", "see return_tokens"),
    refused_field<LlamaCall>("image_data", "only text is supported"),
};

// Returns the rules of the fields of /completion or /infill: `own`, kLlamaFields, and those of every prompt.
std::vector<FieldRule> llama_rules(std::span<const Field<LlamaCall>> own) {
  std::vector<FieldRule> rules = rules_of(own);
  append_rules<LlamaCall>(rules, kLlamaFields);
  return prompt_rules(std::move(rules));
}

const char* stop_type(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "eos";
    case FinishReason::kStopString: return "word";
    default: return "limit";
  }
}

// Makes a part of answer `i`; `stop` is true only in the last one.
Json llama_part(size_t i, std::string_view text, bool stop) {
  return {{"index", i}, {"content", text}, {"tokens", Json::array()}, {"stop", stop}, {"id_slot", -1}};
}

// Returns the tokens of an answer, each with its n_probs most likely alternatives. after_sampling: with probabilities
// in place of log-probabilities, as llama.cpp has them.
Json probabilities_json(std::span<const TokenLogprobs> tokens, const Tokenizer& tokenizer, bool after_sampling) {
  Json all = logprobs_json(tokens, tokenizer)["content"];
  if (!after_sampling) return all;
  const auto to_probability = [](Json& one) {
    one["prob"] = std::exp(one["logprob"].get<double>());
    one.erase("logprob");
  };
  for (Json& one : all) {
    to_probability(one);
    one["top_probs"] = std::move(one["top_logprobs"]);
    one.erase("top_logprobs");
    for (Json& other : one["top_probs"]) to_probability(other);
  }
  return all;
}

// Returns logit_bias as llama.cpp's server prints it: [{"token", "bias"}, ...]. A null bias bans the token.
Json biases_json(const std::map<TokenId, double>& biases) {
  Json list = Json::array();
  for (const auto& [id, bias] : biases)
    list.push_back({{"token", id}, {"bias", std::isfinite(bias) ? Json(bias) : Json()}});
  return list;
}

// Returns -1 for no limit, as llama.cpp does.
int64_t or_none(std::optional<size_t> n) { return n ? static_cast<int64_t>(*n) : -1; }

// Returns the sampling and length options, by llama.cpp's names. Samplers that are not supported are off.
Json generation_settings(const AnswerRequest& request, bool stream) {
  constexpr uint64_t kRandomSeed = 4294967295;  // the seed by which llama.cpp's clients request a random seed
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
          {"mirostat_tau", 5.0},
          {"mirostat_eta", 0.1},
          {"dynatemp_range", 0.0},
          {"dynatemp_exponent", 1.0},
          {"top_n_sigma", -1.0},
          {"adaptive_target", -1.0},
          {"adaptive_decay", 0.9},
          {"logit_bias", biases_json(sampler.logit_bias)},
          {"stop", options.stop_strings},
          {"ignore_eos", options.min_tokens == std::numeric_limits<size_t>::max()},
          {"n_probs", options.n_logprobs.value_or(0)},
          {"post_sampling_probs", options.logprobs_after_sampling},
          {"grammar", request.form.kind == ResponseFormat::Kind::kGbnf ? request.form.text : ""},
          {"stream", stream}};
}

// The parts of answers for which a request asks.
struct LlamaOutput {
  Json settings;  // generation_settings
  bool probabilities = false, after_sampling = false, tokens = false, progress = false, timings = false;
  std::vector<std::string> fields;
};

// Returns the settings of an answer. If ignore_eos bans the tokens that end an answer, the biases include these tokens.
Json settings_of(const LlamaOutput& output, const Answer& answer, const Tokenizer* tokenizer) {
  Json settings = output.settings;
  settings["seed"] = answer.seed;
  if (tokenizer == nullptr || !settings["ignore_eos"].get<bool>()) return settings;
  for (const TokenId id : tokenizer->end_of_turn()) settings["logit_bias"].push_back({{"token", id}, {"bias", Json()}});
  return settings;
}

// Returns the fields of a whole answer that `paths` names, each under its path, as llama.cpp's server does.
Json selected(const Json& json, const std::vector<std::string>& paths) {
  Json out = Json::object();
  for (const std::string& path : paths) {
    const Json* at = &json;
    for (size_t begin = 0; at != nullptr && begin <= path.size();) {
      const size_t end = std::min(path.find('/', begin), path.size());
      at = at->is_object() && at->contains(path.substr(begin, end - begin)) ? &at->at(path.substr(begin, end - begin))
                                                                            : nullptr;
      begin = end + 1;
    }
    if (at != nullptr) out[path] = *at;
  }
  return out;
}

// Makes the last object of answer `i`. It has the text if the answer is sent whole; a stream has sent the text before.
// tokens: the tokens whose probabilities are added to the object.
Json llama_end(const Heard& heard, size_t i, bool is_whole, const LlamaOutput& output,
               std::span<const TokenLogprobs> tokens) {
  const Answer& turn = heard.answers[i];
  const std::string text = turn.reasoning + turn.content;
  Json json = llama_part(i, is_whole ? text : "", true);
  if (output.tokens && is_whole) json["tokens"] = last_ids_of(turn.logprobs, turn);
  json.update({{"model", heard.model},
               {"prompt", prompt_text(heard, i)},
               {"tokens_predicted", turn.usage.n_decoded},
               {"tokens_evaluated", turn.usage.n_prompt},
               {"tokens_cached", turn.usage.n_cached},
               {"truncated", turn.left_out.any() || limit_of(turn) == "context"},
               {"has_new_line", text.find('\n') != std::string::npos},
               {"stop_type", stop_type(turn.finish_reason)},
               {"stopping_word", turn.stop_string}});
  if (output.probabilities && !tokens.empty() && heard.tokenizer != nullptr) {
    json["completion_probabilities"] = probabilities_json(tokens, *heard.tokenizer, output.after_sampling);
  }
  json["generation_settings"] = settings_of(output, turn, heard.tokenizer.get());
  json["timings"] = llama_timings(turn);
  json["ibid"] = ibid_details(turn, heard.ignored);
  return output.fields.empty() || !is_whole ? json : selected(json, output.fields);
}

class LlamaStream final : public StreamReply {
 public:
  LlamaStream(http::ExchangePtr exchange, size_t n, LlamaOutput output, Clock& clock)
      : StreamReply(std::move(exchange), n), output_(std::move(output)), progress_(clock), last_(n) {}

  void prefill(size_t n_done, size_t n_total) override {
    progress_.prefill(n_done, n_total);
    if (!output_.progress) return;
    Json json = llama_part(0, "", false);
    json["prompt_progress"] = progress_.prompt_json();
    if (output_.timings) json["timings"] = progress_.timings();
    emit(json);
  }

 private:
  void opened() override { progress_.begin(); }
  void content(size_t i, std::string_view text) override {
    Json json = llama_part(i, text, false);
    const std::vector<TokenLogprobs> tokens = take_logprobs(i);
    progress_.decode(tokens.size());
    json["tokens"] = ids_of(tokens);
    if (output_.probabilities && heard_.tokenizer != nullptr) {
      json["completion_probabilities"] = probabilities_json(tokens, *heard_.tokenizer, output_.after_sampling);
    }
    if (output_.timings) json["timings"] = progress_.timings();
    emit(json);
  }
  void answered(size_t i, const Answer& answer) override { last_.at(i) = take_last_logprobs(i, answer); }
  void finished() override {
    for (size_t i = 0; i < heard_.answers.size(); ++i) emit(llama_end(heard_, i, false, output_, last_[i]));
  }

  const LlamaOutput output_;
  StreamProgress progress_;                       // progress of the only answer
  std::vector<std::vector<TokenLogprobs>> last_;  // for each answer: its last tokens, sent with no text before
};

void start_llama(const Site& site, const http::ExchangePtr& exchange, LlamaCall call) {
  AnswerRequest& request = call.request;
  request.returns_prompt_ids = true;
  const bool needs_ids = call.tokens || call.stream;  // token ids come only with log-probabilities
  if (needs_ids && !request.options.n_logprobs) request.options.n_logprobs = 0;
  const LlamaOutput output{.settings = generation_settings(request, call.stream),
                           .probabilities = call.probabilities,
                           .after_sampling = request.options.logprobs_after_sampling,
                           .tokens = call.tokens,
                           .progress = call.progress,
                           .timings = call.timings && call.prompts.size() == 1,
                           .fields = std::move(call.fields)};
  const size_t n = call.prompts.size();
  std::shared_ptr<AnswerListener> listener;
  if (call.stream) {
    listener = std::make_shared<LlamaStream>(exchange, n, output, site.clock);
  } else {
    listener = std::make_shared<WholeReply>(exchange, n, [output](const Heard& heard) {
      Json all = Json::array();
      for (size_t i = 0; i < heard.answers.size(); ++i)
        all.push_back(llama_end(heard, i, true, output, heard.answers[i].logprobs));
      return all.size() == 1 ? all[0] : all;
    });
  }
  start_prompts(*site.backend, request, std::move(call.prompts), std::move(listener), exchange->gone());
}

LlamaCall read_llama(const Site& site, const http::Request& source, std::span<const Field<LlamaCall>> own) {
  LlamaCall call;
  Json body = begin_request(site, source, llama_rules(own), call.request);
  read_fields(body, own, call);
  read_fields<LlamaCall>(body, kLlamaFields, call);
  body.erase("logit_bias");  // logit_bias was read above; the shared row does not accept texts as keys
  read_answer_fields(body, call.request, false);
  return call;
}

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
    throw Fault{.message = "is out of vocabulary: the model has " + std::to_string(tokenizer.vocab_size()) + " tokens",
                .param = "tokens" + place_in_list(i)};
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
  IgnoredParts ignored;  // not reported: the response has no field for them
  find_model(site, call.model, ignored);
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

std::vector<FieldRule> llama_completion_rules() { return llama_rules(kPromptField); }
std::vector<FieldRule> bare_completion_rules() {
  std::vector<FieldRule> rules = llama_completion_rules();
  std::erase_if(rules, [](const FieldRule& rule) { return rule.name == "model"; });
  return rules;
}
std::vector<FieldRule> infill_rules() { return llama_rules(kInfillFields); }
std::vector<FieldRule> tokenize_rules() { return rules_of<TokenCall>(kTokenizeFields); }
std::vector<FieldRule> detokenize_rules() { return rules_of<TokenCall>(kDetokenizeFields); }

void post_llama_completion(const Site& site, const http::ExchangePtr& exchange) {
  start_llama(site, exchange, read_llama(site, exchange->request(), kPromptField));
}

// OpenAI requires "model", and clients of llama.cpp's server send none.
void post_bare_completions(const Site& site, const http::ExchangePtr& exchange) {
  const bool names_model = member(parse_body(exchange->request().body), "model") != nullptr;
  names_model ? post_completions(site, exchange) : post_llama_completion(site, exchange);
}

void post_infill(const Site& site, const http::ExchangePtr& exchange) {
  LlamaCall call = read_llama(site, exchange->request(), kInfillFields);
  call.prompts.emplace_back(std::move(call.infill));
  start_llama(site, exchange, std::move(call));
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
                           {"total_slots", site.n_parallel},
                           {"model_alias", card.name},
                           {"model_path", card.path},
                           {"chat_template", card.chat_template},
                           {"modalities", {{"vision", false}, {"audio", false}}},
                           {"build_info", "ibid " + site.version}});
}

// ibid has no slots, because requests share all memory: a slot here is one of the answers that are computed at a time.
void get_slots(const Site& site, const http::ExchangePtr& exchange) {
  const std::vector<ModelCard> cards = site.backend->models();
  const ModelCard card = cards.empty() ? ModelCard() : cards.front();
  const size_t n_busy = std::min(site.backend->load().n_running, site.n_parallel);
  if (n_busy == site.n_parallel && !http::query_values(exchange->request().query, "fail_on_no_slot").empty()) {
    throw Fault{.status = 503, .message = "no slot is free", .code = "server_busy"};
  }
  const Json settings = generation_settings({.options = site.backend->default_options(card.name)}, true);
  Json slots = Json::array();
  for (size_t i = 0; i < site.n_parallel; ++i) {
    slots.push_back({{"id", i},
                     {"n_ctx", card.max_seq_len},
                     {"speculative", true},
                     {"is_processing", i < n_busy},
                     {"params", settings}});
  }
  respond_json(*exchange, slots);
}

void get_lora_adapters(const Site&, const http::ExchangePtr& exchange) { respond_json(*exchange, Json::array()); }

void refuse_lora(const Site&, const http::ExchangePtr&) {
  throw Fault{.message = "LoRA adapters are not supported", .code = "not_supported"};
}

void refuse_rerank(const Site&, const http::ExchangePtr&) {
  throw Fault{.message = "reranking is not supported; /v1/embeddings returns vectors of texts",
              .code = "not_supported"};
}

}  // namespace ibid::serve
