// POST /v1/completions (OpenAI's completions): a text that the model continues. Streams have the same form as those of
// chat completions.
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/utf8.h"
#include "server/protocol/answer_fields.h"
#include "server/protocol/handlers.h"
#include "server/protocol/prompts.h"
#include "server/protocol/reply.h"
#include "tokenizer/tokenizer.h"

namespace ibid::serve {

namespace {

struct CompletionCall {
  AnswerRequest request;
  std::vector<Prompt> prompts = {};  // request.n answers each
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool logprobs = false;
  bool token_ids = false;
  bool names_by_id = false;
  std::string suffix = {};
  bool echo = false;  // the response repeats the prompt before the answer
  std::optional<size_t> prompt_logprobs = {};
};

void read_stream_options(const Json& value, CompletionCall& call) {
  static constexpr Field<CompletionCall> kOptions[] = {
      {{"include_usage", Shape::kBoolean}, set<&CompletionCall::include_usage>},
      {{"continuous_usage_stats", Shape::kBoolean}, set<&CompletionCall::continuous_usage>}};
  read_fields<CompletionCall>(value, kOptions, call, ".");
  note_ignored(value, rules_of<CompletionCall>(kOptions), call.request.ignored, "stream_options.");
}

constexpr Field<CompletionCall> kCompletionFields[] = {
    model_field<CompletionCall>(),
    {{"prompt", Shape::kAny,
      "the text to continue: a string, or token ids, or a list of these; choices are in the order of the prompts, n of "
      "each",
      0, 0, Standing::kRead, kPromptsSchema, true},
     [](const Json& value, CompletionCall& call) { read_prompts(value, call.prompts); }},
    {{"stream", Shape::kBoolean, "stream the answer as server-sent events"}, set<&CompletionCall::stream>},
    {{"stream_options", Shape::kObject,
      "include_usage: send a last chunk with the usage; continuous_usage_stats, with it: the usage so far in each "
      "chunk",
      0, 0, Standing::kRead, kStreamOptionsSchema},
     read_stream_options},
    {{"return_token_ids", Shape::kBoolean, "return prompt_token_ids and token_ids of each choice"},
     set<&CompletionCall::token_ids>},
    {{"max_tokens", Shape::kInteger,
      "maximum number of tokens of an answer; default and -1: as many as the context has room for; 0: only prefill", -1,
      kMostMaxTokens},
     of_request<set_max_tokens>},
    {{"n_predict", Shape::kInteger, "the same as max_tokens, and takes precedence", -1, kMostMaxTokens},
     of_request<set_max_tokens>},
    {{"echo", Shape::kBoolean, "return the prompt before the answer; with logprobs, those of its tokens, too"},
     set<&CompletionCall::echo>},
    prompt_logprobs_field<CompletionCall>(),
    names_by_id_field<CompletionCall, &CompletionCall::names_by_id>(),
    {{"logprobs", Shape::kInteger,
      "return the log-probability of each token, and of this many most likely alternatives", 0, 20, Standing::kRead, "",
      false, "[false]"},
     [](const Json& value, CompletionCall& call) {
       call.logprobs = true;
       store(value, call.request.options.n_logprobs);
     }},
    {{"suffix", Shape::kText,
      "text that follows the answer: for models whose vocabulary has tokens for it (fill in the middle)", 0, 1 << 30,
      Standing::kRead, "", false, R"([""])"},
     set<&CompletionCall::suffix>},
};

// Returns a token as a key of an object. A token that is not valid UTF-8 by itself is written as its bytes
// ("bytes:\xe2\x80"), as OpenAI does; otherwise all such tokens would have the same key U+FFFD.
std::string token_name(std::string_view bytes) {
  if (utf8_is_valid(bytes)) return std::string(bytes);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string name = "bytes:";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    name += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return name;
}

// Counts the characters that start in these bytes, so that the counts of a text's tokens add up to the text's length.
size_t n_characters(std::string_view bytes) {
  return static_cast<size_t>(
      std::ranges::count_if(bytes, [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }));
}

// Builds {"tokens", "token_logprobs", "top_logprobs", "text_offset"}. Positions in the text are in characters.
class FlatLogprobs {
 public:
  // offset: position of the first token in the text, in characters.
  FlatLogprobs(const Tokenizer& tokenizer, bool names_by_id, size_t offset)
      : tokenizer_(tokenizer), names_by_id_(names_by_id), offset_(offset) {}

  void add(std::span<const TokenLogprobs> tokens) {
    for (const TokenLogprobs& token : tokens) {
      // The likely tokens always include the token itself, as with OpenAI.
      Json top = {{name_of(token.id), token.logprob}};
      for (const auto& [id, logprob] : token.top) top[name_of(id)] = logprob;
      add(token.id, token.logprob, std::move(top));
    }
  }

  // Adds the tokens of an echoed prompt. The first one has no probability, because nothing precedes it. Tokens before
  // the shown text (a BOS) get the position 0.
  void add_prompt(const PromptScores& scores, size_t n_characters_shown) {
    size_t n_all = 0;
    for (const TokenId id : scores.ids) n_all += n_characters(tokenizer_.token_bytes(id));
    n_hidden_ = saturating_sub(n_all, n_characters_shown);
    add(scores.ids.front(), Json(), Json());
    add(scores.scored.tokens);
    offset_ = n_characters_shown;
    n_hidden_ = 0;
  }

  size_t offset() const { return offset_; }
  Json json() && {
    return {{"tokens", std::move(tokens_)},
            {"token_logprobs", std::move(logprobs_)},
            {"top_logprobs", std::move(tops_)},
            {"text_offset", std::move(offsets_)}};
  }

 private:
  void add(TokenId id, Json logprob, Json top) {
    const std::string_view text = tokenizer_.token_bytes(id);
    tokens_.push_back(name_of(id));
    logprobs_.push_back(std::move(logprob));
    tops_.push_back(std::move(top));
    offsets_.push_back(saturating_sub(offset_, n_hidden_));
    offset_ += n_characters(text);
  }

  std::string name_of(TokenId id) const {
    return names_by_id_ ? name_by_id(id) : token_name(tokenizer_.token_bytes(id));
  }

  const Tokenizer& tokenizer_;
  const bool names_by_id_;
  size_t offset_;
  size_t n_hidden_ = 0;  // number of characters at the beginning of the prompt that the shown text leaves out
  Json tokens_ = Json::array(), logprobs_ = Json::array(), tops_ = Json::array(), offsets_ = Json::array();
};

Json text_choice(size_t i, std::string text, Json logprobs, Json reason) {
  return {
      {"text", std::move(text)}, {"index", i}, {"logprobs", std::move(logprobs)}, {"finish_reason", std::move(reason)}};
}

// The data that all answers of a request share.
struct Completion {
  std::string id;
  int64_t created = 0;
  size_t n = 1;                     // answers for each prompt
  std::vector<Prompt> echoed = {};  // prompts that are repeated before their answers; empty: no echo
  std::string fingerprint = {};
  bool include_usage = false, continuous_usage = false;  // only used for streams
  std::optional<size_t> n_top = {};                      // logprobs of the request
  std::optional<size_t> prompt_logprobs = {};            // prompt_logprobs of the request
  bool token_ids = false, names_by_id = false;

  Json json(const std::string& model) const {
    return {{"id", id},       {"object", "text_completion"},       {"created", created},
            {"model", model}, {"system_fingerprint", fingerprint}, {"choices", Json::array()}};
  }

  // Returns the prompt to repeat before an answer; empty if there is no echo.
  std::string echo(size_t answer, const Tokenizer* tokenizer) const {
    if (echoed.empty()) return {};
    const Prompt& prompt = echoed.at(answer / n);
    return text_of_prompt(prompt, tokenizer);
  }

  // Returns the "logprobs" object of an answer's first tokens. If the prompt is echoed, its tokens come first.
  Json first_logprobs(size_t answer, const Heard& heard, std::span<const TokenLogprobs> tokens, size_t& offset) const {
    const size_t n_echoed = n_characters(echo(answer, heard.tokenizer.get()));
    offset = n_echoed;
    const PromptScores* scores = heard.prompt_scores.at(answer / n * n).get();
    const bool has_echo = !echoed.empty() && n_top && scores != nullptr;
    if (heard.tokenizer == nullptr || (tokens.empty() && !has_echo)) return {};
    FlatLogprobs flat(*heard.tokenizer, names_by_id, has_echo ? 0 : n_echoed);
    if (has_echo) flat.add_prompt(*scores, n_echoed);
    flat.add(tokens);
    offset = flat.offset();
    return std::move(flat).json();
  }

  // Adds usage, timings and details of the response (add_costs()), with the usage summed over all prompts.
  void add_all_costs(Json& json, const Heard& heard) const {
    add_costs(json, heard);
    TokenCounts all;
    for (size_t first = 0; first + n <= heard.answers.size(); first += n) {
      const TokenCounts counts = count_tokens(std::span(heard.answers).subspan(first, n), heard.tokenizer.get());
      all.n_prompt += counts.n_prompt;
      all.n_cached += counts.n_cached;
      all.n_completion += counts.n_completion;
      all.n_reasoning += counts.n_reasoning;
    }
    json["usage"] = openai_usage(all);
  }
};

Json whole_completion(const Completion& completion, const Heard& heard) {
  const Tokenizer* tokenizer = heard.tokenizer.get();
  Json json = completion.json(heard.model);
  for (size_t i = 0; i < heard.answers.size(); ++i) {
    const Answer& answer = heard.answers[i];
    size_t offset = 0;
    const std::span<const TokenLogprobs> tokens =
        completion.n_top ? std::span<const TokenLogprobs>(answer.logprobs) : std::span<const TokenLogprobs>();
    Json choice = text_choice(i, completion.echo(i, tokenizer) + answer.reasoning + answer.content,
                              completion.first_logprobs(i, heard, tokens, offset), openai_finish_reason(answer));
    const PromptScores* scores = heard.prompt_scores[i / completion.n * completion.n].get();
    choice["prompt_logprobs"] =
        completion.prompt_logprobs ? prompt_logprobs_json(scores, *completion.prompt_logprobs, tokenizer) : Json();
    choice["token_ids"] = completion.token_ids ? last_ids_of(answer.logprobs, answer) : Json();
    choice["prompt_token_ids"] = completion.token_ids ? Json(heard.prompt_ids[i]) : Json();
    json["choices"].push_back(std::move(choice));
  }
  completion.add_all_costs(json, heard);
  return json;
}

class CompletionStream final : public StreamReply {
 public:
  CompletionStream(http::ExchangePtr exchange, size_t n_answers, Completion completion)
      : StreamReply(std::move(exchange), n_answers),
        completion_(std::move(completion)),
        offsets_(n_answers, 0),
        has_sent_ids_(n_answers, false) {}

 private:
  void opened() override {
    if (completion_.n_top) return;  // prompt_scores() emits the echo, with the prompt's log-probabilities
    for (size_t i = 0; i < offsets_.size(); ++i) emit_echo(i);
  }
  void prompt_scores(size_t first, std::shared_ptr<const PromptScores> scores) override {
    StreamReply::prompt_scores(first, std::move(scores));
    for (size_t i = first; i < first + completion_.n; ++i) emit_echo(i);
  }
  void content(size_t i, std::string_view text) override {
    const std::vector<TokenLogprobs> tokens = take_logprobs(i);
    n_completion_ += tokens.size();
    Json json = chunk();
    json["choices"].push_back(choice(i, std::string(text), tokens, Json()));
    emit(json);
  }
  void answered(size_t i, const Answer& answer) override {
    const std::vector<TokenLogprobs> tokens = take_last_logprobs(i, answer);
    n_completion_ += tokens.size();
    Json json = chunk();
    json["choices"].push_back(choice(i, "", tokens, openai_finish_reason(answer)));
    if (completion_.token_ids) json["choices"][0]["token_ids"] = last_ids_of(tokens, answer);
    json["timings"] = llama_timings(answer);
    json["ibid"] = ibid_details(answer, heard_.ignored);
    emit(json);
  }
  void finished() override {
    if (completion_.include_usage) {
      Json json = chunk();
      completion_.add_all_costs(json, heard_);
      emit(json);
    }
    send_bytes("data: [DONE]\n\n");
  }

  void emit_echo(size_t i) {
    std::string text = completion_.echo(i, heard_.tokenizer.get());
    if (text.empty()) return;
    Json json = chunk();
    json["choices"].push_back(with_ids(
        i, text_choice(i, std::move(text), completion_.first_logprobs(i, heard_, {}, offsets_.at(i)), Json()), {}));
    emit(json);
  }
  Json flat(size_t i, const std::vector<TokenLogprobs>& tokens) {
    if (tokens.empty() || heard_.tokenizer == nullptr || !completion_.n_top) return {};
    FlatLogprobs flat(*heard_.tokenizer, completion_.names_by_id, offsets_.at(i));
    flat.add(tokens);
    offsets_[i] = flat.offset();
    return std::move(flat).json();
  }
  Json choice(size_t i, std::string text, const std::vector<TokenLogprobs>& tokens, Json reason) {
    return with_ids(i, text_choice(i, std::move(text), flat(i, tokens), std::move(reason)), tokens);
  }
  // Adds the ids of `tokens`, and to an answer's first chunk those of its prompt.
  Json with_ids(size_t i, Json choice, const std::vector<TokenLogprobs>& tokens) {
    if (!completion_.token_ids) return choice;
    choice["token_ids"] = ids_of(tokens);
    const Tokens& prompt = heard_.prompt_ids.at(i);
    if (!prompt.empty() && !has_sent_ids_.at(i)) choice["prompt_token_ids"] = prompt;
    has_sent_ids_[i] = has_sent_ids_[i] || !prompt.empty();
    return choice;
  }
  Json chunk() const {
    Json json = completion_.json(heard_.model);
    if (completion_.include_usage) json["usage"] = Json();
    if (completion_.include_usage && completion_.continuous_usage)
      json["usage"] = usage_so_far(heard_.n_prompt, n_completion_);
    return json;
  }

  const Completion completion_;
  size_t n_completion_ = 0;         // tokens of all answers so far, if they are counted
  std::vector<size_t> offsets_;     // for each answer: position in its text of the next token with log-probabilities
  std::vector<bool> has_sent_ids_;  // for each answer: a chunk had the tokens of its prompt
};

}  // namespace

std::vector<FieldRule> completion_rules() { return prompt_rules(rules_of<CompletionCall>(kCompletionFields)); }

namespace {

// Reads the request. Call use_suffix() after the prompts were copied for `echo`.
CompletionCall read_completion(const Site& site, const http::Request& source) {
  CompletionCall call;
  AnswerRequest& request = call.request;
  static const std::vector<FieldRule> kRules = completion_rules();
  const Json body = begin_request(site, source, kRules, request);
  read_fields<CompletionCall>(body, kCompletionFields, call);
  read_answer_fields(body, request, false);
  if (call.echo) request.n_prompt_logprobs = request.options.n_logprobs;
  score_prompt(call.prompt_logprobs, call.stream, request);
  return call;
}

// Makes the prompts those of texts to be filled in, if the request has a suffix.
void use_suffix(CompletionCall& call) {
  if (call.suffix.empty()) return;
  for (Prompt& prompt : call.prompts) prompt = infill_of(std::move(prompt), call.suffix);
}

}  // namespace

void post_completion_render(const Site& site, const http::ExchangePtr& exchange) {
  check_text_body(exchange->request());
  CompletionCall call = read_completion(site, exchange->request());
  use_suffix(call);
  std::vector<AnswerRequest> requests(call.prompts.size(), call.request);
  for (size_t i = 0; i < requests.size(); ++i) requests[i].prompt = std::move(call.prompts[i]);
  const auto respond = [exchange](const Json& rendered) { respond_json(*exchange, rendered); };
  start_rendering(site, exchange, "cmpl-", std::move(requests), respond);
}

void post_completions(const Site& site, const http::ExchangePtr& exchange) {
  CompletionCall call = read_completion(site, exchange->request());
  AnswerRequest& request = call.request;
  Completion completion{.id = site.new_id("cmpl-"),
                        .created = site.now_s(),
                        .n = request.n_answers(),
                        .fingerprint = site.fingerprint(),
                        .include_usage = call.include_usage,
                        .continuous_usage = call.continuous_usage,
                        .n_top = request.options.n_logprobs,
                        .prompt_logprobs = call.prompt_logprobs,
                        .token_ids = call.token_ids,
                        .names_by_id = call.names_by_id};
  // Token ids come only with log-probabilities, so these are computed even if the client did not request them.
  if ((call.token_ids || call.continuous_usage) && !request.options.n_logprobs) request.options.n_logprobs = 0;
  request.returns_prompt_ids = call.token_ids;
  if (call.echo) completion.echoed = call.prompts;
  use_suffix(call);
  const size_t n_answers = call.prompts.size() * completion.n;
  std::shared_ptr<AnswerListener> listener;
  if (call.stream) {
    listener = std::make_shared<CompletionStream>(exchange, n_answers, std::move(completion));
  } else {
    listener = std::make_shared<WholeReply>(
        exchange, n_answers, [completion](const Heard& heard) { return whole_completion(completion, heard); });
  }
  if (call.prompts.size() > 1) {
    return start_prompts(*site.backend, request, std::move(call.prompts), std::move(listener), exchange->gone());
  }
  request.prompt = std::move(call.prompts.front());
  site.backend->start(std::move(request), std::move(listener), exchange->gone());
}

}  // namespace ibid::serve
