// /api/chat and /api/generate: answers as lines, or as one object.
#include <memory>
#include <string>
#include <utility>

#include "runtime/generate/logprobs_json.h"
#include "server/protocol/answer_json.h"
#include "server/protocol/ollama.h"
#include "server/protocol/ollama_input.h"
#include "server/protocol/openai_chat_stream.h"
#include "server/protocol/reply.h"

namespace ibid::serve {

namespace {

int64_t ns_of(double ms) { return static_cast<int64_t>(ms * 1e6); }

// The two endpoints differ in where the text stands.
struct OllamaForm {
  bool is_chat = true;
  Site site;
};

Json ollama_part(const OllamaForm& form, const std::string& model, std::string text, std::string thinking) {
  Json json = Json::object();
  json["model"] = model;
  json["created_at"] = iso_time(form.site.clock.unix_ns());
  Json message = Json::object();
  if (form.is_chat) message["role"] = "assistant";
  message[form.is_chat ? "content" : "response"] = std::move(text);
  if (!thinking.empty()) message["thinking"] = std::move(thinking);
  if (form.is_chat) {
    json["message"] = std::move(message);
  } else {
    json.update(message);
  }
  json["done"] = false;
  return json;
}

Json ollama_call(const ToolCall& call, size_t index) {
  Result<Json> arguments = parse_json(call.arguments, "arguments", {.max_depth = 60});
  Json function = Json::object();
  function["index"] = index;
  function["name"] = call.name;
  function["arguments"] = arguments.ok() && arguments->is_object() ? std::move(*arguments) : Json::object();
  Json json = Json::object();
  json["id"] = call.id;
  json["function"] = std::move(function);
  return json;
}

void add_ollama_calls(Json& json, const Answer& answer) {
  if (answer.tool_calls.empty()) return;
  Json calls = Json::array();
  for (size_t i = 0; i < answer.tool_calls.size(); ++i) calls.push_back(ollama_call(answer.tool_calls[i], i));
  json["message"]["tool_calls"] = std::move(calls);
}

void add_ollama_end(Json& json, const Answer& answer, const Tokenizer* tokenizer) {
  const Turn& turn = answer;
  if (!turn.logprobs.empty() && tokenizer != nullptr) {
    json["logprobs"] = logprobs_json(turn.logprobs, *tokenizer)["content"];
  }
  json["done"] = true;
  json["done_reason"] = openai_finish_reason(answer) == "length" ? "length" : "stop";
  json["total_duration"] = ns_of(turn.timings.total_ms);
  json["load_duration"] = 0;
  json["prompt_eval_count"] = turn.usage.n_prompt;
  json["prompt_eval_cached_count"] = turn.usage.n_cached;
  json["prompt_eval_duration"] = ns_of(turn.timings.prefill_ms);
  json["eval_count"] = turn.usage.n_decoded;
  json["eval_duration"] = ns_of(turn.timings.decode_ms + turn.timings.sample_ms);
  json["ibid"] = ibid_details(turn);
}

class OllamaStream final : public StreamReply {
 public:
  OllamaStream(http::ExchangePtr exchange, OllamaForm form)
      : StreamReply(std::move(exchange), 1, ErrorStyle::kOllama, StreamForm::kLines), form_(std::move(form)) {}

 protected:
  void opened() override {}
  void said(size_t, std::string_view text) override { send(ollama_part(form_, heard().model, std::string(text), "")); }
  void thought(size_t, std::string_view text) override {
    send(ollama_part(form_, heard().model, "", std::string(text)));
  }
  // Calls come whole: arguments are objects here.
  void called(size_t, size_t, std::string_view, std::string_view) override {}
  void call_part(size_t, size_t, std::string_view) override {}
  void answered(size_t, const Answer& answer) override {
    if (!form_.is_chat || answer.tool_calls.empty()) return;
    Json json = ollama_part(form_, heard().model, "", "");
    add_ollama_calls(json, answer);
    send(json);
  }
  void finished() override {
    Json json = ollama_part(form_, heard().model, "", "");
    add_ollama_end(json, heard().answers.front(), heard().tokenizer.get());
    send(json);
  }
  void failed(const Fault& fault) override { send(fault_json(fault, ErrorStyle::kOllama)); }

 private:
  OllamaForm form_;
};

Json ollama_notice(const OllamaForm& form, const std::string& model, const char* reason) {
  Json json = ollama_part(form, model, "", "");
  json["done"] = true;
  json["done_reason"] = reason;
  return json;
}

// A request without a question loads the model, or unloads it.
void load_or_unload(const OllamaForm& form, const AnswerRequest& request, const http::ExchangePtr& exchange) {
  const Result<std::string> name = form.site.backend->resolve(request.model);
  if (!name.ok()) return respond_fault(*exchange, fault_of(name.status()), ErrorStyle::kOllama);
  if (request.keep_alive == std::chrono::milliseconds(0)) {
    (void)form.site.backend->unload(*name);
    return respond_json(*exchange, ollama_notice(form, *name, "unload"));
  }
  form.site.backend->with_tokenizer(
      {.model = *name, .cache_namespace = request.cache_namespace, .keep_alive = request.keep_alive},
      [form, name = *name, exchange](const auto& loaded) {
        if (!loaded.ok()) return respond_fault(*exchange, fault_of(loaded.status()), ErrorStyle::kOllama);
        respond_json(*exchange, ollama_notice(form, name, "load"));
      },
      exchange->gone());
}

void start_ollama(OllamaForm form, OllamaCall call, const http::ExchangePtr& exchange) {
  if (call.request.messages.empty() && !call.request.prompt) return load_or_unload(form, call.request, exchange);
  std::shared_ptr<Backend> backend = form.site.backend;
  std::shared_ptr<AnswerListener> listener;
  if (call.stream) {
    listener = std::make_shared<OllamaStream>(exchange, std::move(form));
  } else {
    listener = std::make_shared<WholeReply>(
        exchange, 1, ErrorStyle::kOllama,
        [form = std::move(form)](const Heard& heard) {
          const Answer& answer = heard.answers.front();
          Json json = ollama_part(form, heard.model, answer.content, answer.reasoning);
          if (form.is_chat) add_ollama_calls(json, answer);
          add_ollama_end(json, answer, heard.tokenizer.get());
          return json;
        });
  }
  backend->start(std::move(call.request), std::move(listener), exchange->gone());
}

}  // namespace

void post_ollama_chat(const Site& site, const http::ExchangePtr& exchange) {
  OllamaCall call;
  if (MaybeFault fault = read_ollama_chat(site, exchange->request(), call)) {
    return respond_fault(*exchange, *fault, ErrorStyle::kOllama);
  }
  start_ollama({.is_chat = true, .site = site}, std::move(call), exchange);
}

void post_ollama_generate(const Site& site, const http::ExchangePtr& exchange) {
  OllamaCall call;
  if (MaybeFault fault = read_ollama_generate(site, exchange->request(), call)) {
    return respond_fault(*exchange, *fault, ErrorStyle::kOllama);
  }
  start_ollama({.is_chat = false, .site = site}, std::move(call), exchange);
}

}  // namespace ibid::serve
