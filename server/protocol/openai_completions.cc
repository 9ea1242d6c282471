#include "server/protocol/openai_completions.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/utf8.h"
#include "server/protocol/answer_fields.h"
#include "server/protocol/answer_json.h"
#include "server/protocol/openai_chat_stream.h"
#include "server/protocol/prompt_list.h"

namespace ibid::serve {

namespace {

constexpr Field<CompletionCall> kCompletionFields[] = {
    model_field<CompletionCall>(),
    {{"prompt", Shape::kAny, "what the model goes on with: a text, or its token ids; or a list of these, whose "
                             "choices stand one behind the other, n of each", 0, 0, Standing::kRead,
      kPromptsSchema, true},
     [](const Json& value, CompletionCall& call) { return read_prompts(value, call.prompts); }},
    {{"stream", Shape::kBoolean, "the answer comes in parts, as events"},
     [](const Json& value, CompletionCall& call) { return call.stream = value.get<bool>(), MaybeFault(); }},
    {{"stream_options", Shape::kObject, "include_usage: a last chunk with the usage", 0, 0, Standing::kRead,
      R"({"type":"object","properties":{"include_usage":{"type":"boolean"}}})"},
     [](const Json& value, CompletionCall& call) {
       const Json* wanted = member(value, "include_usage");
       call.include_usage = wanted != nullptr && wanted->is_boolean() && wanted->get<bool>();
       return MaybeFault();
     }},
    {{"max_tokens", Shape::kInteger, "the most tokens of an answer; absent: what the context has room for", 1,
      kMostMaxTokens},
     [](const Json& value, CompletionCall& call) { return set_max_tokens(value, call.request); }},
    {{"echo", Shape::kBoolean, "the prompt stands in front of the answer; not with logprobs"},
     [](const Json& value, CompletionCall& call) { return call.echo = value.get<bool>(), MaybeFault(); }},
    {{"logprobs", Shape::kInteger, "how likely each token of the answer was, and so many in its place", 0, 20},
     [](const Json& value, CompletionCall& call) {
       call.request.options.n_logprobs = static_cast<size_t>(integer_of(value));
       return MaybeFault();
     }},
    refused_field<CompletionCall>("suffix", "a text behind the answer"),
};

// The token as the key of an object: one that is no text by itself has its bytes ("bytes:\xe2\x80"), as OpenAI has
// them, because all such tokens would be the same U+FFFD.
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

// Characters that begin in these bytes, each at its first byte: those of the tokens of a text add up to the text's.
size_t n_characters(std::string_view bytes) {
  return static_cast<size_t>(
      std::ranges::count_if(bytes, [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }));
}

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}; null: there are none.
// offset: of the first of them in the text, in characters; then of what follows them.
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
  Json json = Json::object();
  json["tokens"] = std::move(tokens);
  json["token_logprobs"] = std::move(logprobs);
  json["top_logprobs"] = std::move(tops);
  json["text_offset"] = std::move(offsets);
  return json;
}

Json text_choice(size_t i, std::string text, Json logprobs, Json reason) {
  Json choice = Json::object();
  choice["text"] = std::move(text);
  choice["index"] = i;
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = std::move(reason);
  return choice;
}

Json text_completion(const CompletionNames& names, const std::string& model) {
  Json json = Json::object();
  json["id"] = names.id;
  json["object"] = "text_completion";
  json["created"] = names.created;
  json["model"] = model;
  json["choices"] = Json::array();
  return json;
}

// Prompts that stand in front of their answers; none: they are not echoed.
struct Echo {
  std::vector<Prompt> prompts = {};
  size_t n = 1;  // answers of each

  std::string in_front_of(size_t answer, const Tokenizer* tokenizer) const {
    if (prompts.empty()) return {};
    const Prompt& prompt = prompts.at(answer / n);
    if (const std::string* text = std::get_if<std::string>(&prompt)) return *text;
    return tokenizer == nullptr ? std::string() : tokenizer->decode(std::get<Tokens>(prompt));
  }
};

// As add_costs(), of several prompts with n answers each.
void add_costs_of_prompts(Json& json, const Heard& heard, size_t n) {
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

class CompletionStream final : public StreamReply {
 public:
  // n_answers: of all prompts; echo: says how many each has.
  CompletionStream(http::ExchangePtr exchange, CompletionNames names, size_t n_answers, bool include_usage, Echo echo)
      : StreamReply(std::move(exchange), n_answers, ErrorStyle::kOpenAi, StreamForm::kEvents),
        names_(std::move(names)), include_usage_(include_usage), echo_(std::move(echo)), offsets_(n_answers, 0) {}

 protected:
  void opened() override {
    for (size_t i = 0; i < offsets_.size(); ++i) {
      const std::string text = echo_.in_front_of(i, heard().tokenizer.get());
      if (text.empty()) continue;
      said(i, text);
      offsets_[i] = n_characters(text);
    }
  }
  void said(size_t i, std::string_view text) override {
    Json json = chunk();
    json["choices"].push_back(text_choice(i, std::string(text), logprobs_of(i, take_logprobs(i)), Json()));
    send(json);
  }
  void thought(size_t i, std::string_view text) override { said(i, text); }
  void called(size_t, size_t, std::string_view, std::string_view) override {}
  void call_part(size_t, size_t, std::string_view) override {}
  void answered(size_t i, const Answer& answer) override {
    Json json = chunk();
    json["choices"].push_back(text_choice(i, "", logprobs_of(i, take_last_logprobs(i, answer)),
                                          openai_finish_reason(answer)));
    json["timings"] = llama_timings(answer);
    json["ibid"] = ibid_details(answer);
    send(json);
  }
  void finished() override {
    if (include_usage_) {
      Json json = chunk();
      add_costs_of_prompts(json, heard(), echo_.n);
      send(json);
    }
    send_bytes("data: [DONE]\n\n");
  }
  void failed(const Fault& fault) override { send(fault_json(fault, ErrorStyle::kOpenAi)); }

 private:
  Json logprobs_of(size_t i, const std::vector<TokenLogprobs>& tokens) {
    return flat_logprobs(tokens, offsets_.at(i), heard().tokenizer.get());
  }
  Json chunk() const {
    Json json = text_completion(names_, heard().model);
    if (include_usage_) json["usage"] = Json();
    return json;
  }

  CompletionNames names_;
  bool include_usage_;
  Echo echo_;
  std::vector<size_t> offsets_;  // by answer: of the next log-probabilities in its text
};

MaybeFault read_completion(const Site& site, const http::Request& source, CompletionCall& call) {
  Json body;
  if (MaybeFault fault = begin_request(site, source, body, call.request)) return fault;
  if (MaybeFault fault = read_fields(body, completion_fields(), call)) return fault;
  if (MaybeFault fault = read_answer_fields(body, call.request, false)) return fault;
  if (call.echo && call.request.options.n_logprobs) {
    return Fault{.message = "goes without logprobs: those of a prompt are not computed", .param = "echo",
                 .code = "unsupported_value"};
  }
  return {};
}

}  // namespace

std::span<const Field<CompletionCall>> completion_fields() { return kCompletionFields; }

void post_completions(const Site& site, const http::ExchangePtr& exchange) {
  CompletionCall call;
  if (MaybeFault fault = read_completion(site, exchange->request(), call)) {
    respond_fault(*exchange, *fault, ErrorStyle::kOpenAi);
    return;
  }
  const CompletionNames names{site.new_id("cmpl-"), site.now_s()};
  Echo echo{.n = call.request.n};
  if (call.echo) echo.prompts = call.prompts;
  const size_t n_answers = call.prompts.size() * echo.n;
  std::shared_ptr<AnswerListener> listener;
  if (call.stream) {
    listener = std::make_shared<CompletionStream>(exchange, names, n_answers, call.include_usage, std::move(echo));
  } else {
    const auto make = [names, echo](const Heard& heard) {
      const Tokenizer* tokenizer = heard.tokenizer.get();
      Json json = text_completion(names, heard.model);
      for (size_t i = 0; i < heard.answers.size(); ++i) {
        const Answer& answer = heard.answers[i];
        const std::string in_front = echo.in_front_of(i, tokenizer);
        size_t offset = n_characters(in_front);
        json["choices"].push_back(text_choice(i, in_front + answer.reasoning + answer.content,
                                              flat_logprobs(answer.logprobs, offset, tokenizer),
                                              openai_finish_reason(answer)));
      }
      add_costs_of_prompts(json, heard, echo.n);
      return json;
    };
    listener = std::make_shared<WholeReply>(exchange, n_answers, ErrorStyle::kOpenAi, make);
  }
  if (call.prompts.size() > 1) {
    return start_prompts(*site.backend, std::move(call.request), std::move(call.prompts), std::move(listener),
                         exchange->gone());
  }
  call.request.prompt = std::move(call.prompts.front());
  site.backend->start(std::move(call.request), std::move(listener), exchange->gone());
}

}  // namespace ibid::serve
