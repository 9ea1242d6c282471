// POST /v1/completions (OpenAI's completions): a text that the model continues. Streams have the same form as those of
// chat completions.
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

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
  bool echo = false;  // the response repeats the prompt before the answer
};

constexpr Field<CompletionCall> kCompletionFields[] = {
    model_field<CompletionCall>(),
    {{"prompt", Shape::kAny,
      "the text to continue: a string, or token ids, or a list of these; choices are in the order of the prompts, n of "
      "each",
      0, 0, Standing::kRead, kPromptsSchema, true},
     [](const Json& value, CompletionCall& call) { read_prompts(value, call.prompts); }},
    {{"stream", Shape::kBoolean, "stream the answer as server-sent events"}, set<&CompletionCall::stream>},
    {{"stream_options", Shape::kObject, "include_usage: send a last chunk with the usage", 0, 0, Standing::kRead,
      R"({"type":"object","properties":{"include_usage":{"type":"boolean"}}})"},
     [](const Json& value, CompletionCall& call) {
       const Json* wanted = member(value, "include_usage");
       call.include_usage = wanted != nullptr && *wanted == Json(true);
     }},
    {{"max_tokens", Shape::kInteger,
      "maximum number of tokens of an answer; default: as many as the context has room for", 1, kMostMaxTokens},
     of_request<set_max_tokens>},
    {{"echo", Shape::kBoolean, "return the prompt before the answer; not with logprobs"}, set<&CompletionCall::echo>},
    {{"logprobs", Shape::kInteger,
      "return the log-probability of each token, and of this many most likely alternatives", 0, 20},
     [](const Json& value, CompletionCall& call) { store(value, call.request.options.n_logprobs); }},
    refused_field<CompletionCall>("suffix", "text that follows the answer"),
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

// Returns {"tokens", "token_logprobs", "top_logprobs", "text_offset"}; null without log-probabilities. offset: position
// in the text, in characters, of the first token; set to the position after the last one.
Json flat_logprobs(std::span<const TokenLogprobs> all, size_t& offset, const Tokenizer* tokenizer) {
  if (all.empty() || tokenizer == nullptr) return {};
  Json tokens = Json::array(), logprobs = Json::array(), tops = Json::array(), offsets = Json::array();
  for (const TokenLogprobs& token : all) {
    const std::string_view text = tokenizer->token_bytes(token.id);
    tokens.push_back(token_name(text));
    logprobs.push_back(token.logprob);
    offsets.push_back(offset);
    offset += n_characters(text);
    Json top = Json::object();
    for (const auto& [id, logprob] : token.top) top[token_name(tokenizer->token_bytes(id))] = logprob;
    tops.push_back(std::move(top));
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

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
  bool include_usage = false;       // only used for streams

  Json json(const std::string& model) const {
    return {
        {"id", id}, {"object", "text_completion"}, {"created", created}, {"model", model}, {"choices", Json::array()}};
  }

  // Returns the prompt to repeat before an answer; empty if there is no echo.
  std::string echo(size_t answer, const Tokenizer* tokenizer) const {
    if (echoed.empty()) return {};
    const Prompt& prompt = echoed.at(answer / n);
    if (const std::string* text = std::get_if<std::string>(&prompt)) return *text;
    return tokenizer == nullptr ? std::string() : tokenizer->decode(std::get<Tokens>(prompt));
  }

  // As add_costs(), but summed over all prompts.
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
    const std::string echo = completion.echo(i, tokenizer);
    size_t offset = n_characters(echo);
    json["choices"].push_back(text_choice(i, echo + answer.reasoning + answer.content,
                                          flat_logprobs(answer.logprobs, offset, tokenizer),
                                          openai_finish_reason(answer)));
  }
  completion.add_all_costs(json, heard);
  return json;
}

class CompletionStream final : public StreamReply {
 public:
  CompletionStream(http::ExchangePtr exchange, size_t n_answers, Completion completion)
      : StreamReply(std::move(exchange), n_answers), completion_(std::move(completion)), offsets_(n_answers, 0) {}

 private:
  void opened() override {
    for (size_t i = 0; i < offsets_.size(); ++i) {
      const std::string text = completion_.echo(i, heard_.tokenizer.get());
      if (text.empty()) continue;
      said(i, text);
      offsets_[i] = n_characters(text);
    }
  }
  void said(size_t i, std::string_view text) override {
    Json json = chunk();
    json["choices"].push_back(text_choice(i, std::string(text), flat(i, take_logprobs(i)), Json()));
    emit(json);
  }
  void answered(size_t i, const Answer& answer) override {
    Json json = chunk();
    json["choices"].push_back(text_choice(i, "", flat(i, take_last_logprobs(i, answer)), openai_finish_reason(answer)));
    json["timings"] = llama_timings(answer);
    json["ibid"] = ibid_details(answer);
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

  Json flat(size_t i, const std::vector<TokenLogprobs>& tokens) {
    return flat_logprobs(tokens, offsets_.at(i), heard_.tokenizer.get());
  }
  Json chunk() const {
    Json json = completion_.json(heard_.model);
    if (completion_.include_usage) json["usage"] = Json();
    return json;
  }

  const Completion completion_;
  std::vector<size_t> offsets_;  // for each answer: position in its text of the next token with log-probabilities
};

}  // namespace

std::vector<FieldRule> completion_rules() { return prompt_rules(rules_of<CompletionCall>(kCompletionFields)); }

void post_completions(const Site& site, const http::ExchangePtr& exchange) {
  CompletionCall call;
  AnswerRequest& request = call.request;
  const Json body = begin_request(site, exchange->request(), request);
  read_fields<CompletionCall>(body, kCompletionFields, call);
  read_answer_fields(body, request, false);
  if (call.echo && request.options.n_logprobs) {
    throw Fault{.message = "cannot be combined with logprobs: those of the prompt are not computed",
                .param = "echo",
                .code = "unsupported_value"};
  }
  Completion completion{
      .id = site.new_id("cmpl-"), .created = site.now_s(), .n = request.n, .include_usage = call.include_usage};
  if (call.echo) completion.echoed = call.prompts;
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
