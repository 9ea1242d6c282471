#include "server/protocol/ollama_input.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "server/protocol/answer_fields.h"
#include "server/protocol/chat_messages.h"
#include "server/protocol/sampler_fields.h"
#include "templates/message.h"

namespace ibid::serve {

namespace {

constexpr double kMostKeepAliveMs = 1e12;  // thirty years

// "1h30m", "1.5s", "300ms", "-1m"; a number alone is seconds. Nothing: it is no duration.
std::optional<double> seconds_of_duration(std::string_view text) {
  struct Unit {
    std::string_view name;
    double seconds;
  };
  constexpr Unit kUnits[] = {{"h", 3600}, {"ms", 1e-3}, {"m", 60}, {"s", 1}, {"us", 1e-6}, {"ns", 1e-9}};
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  double seconds = 0;
  for (bool is_first = true; is_first || !text.empty(); is_first = false) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (error != std::errc() || text.starts_with('-')) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (is_first && text.empty()) {
      seconds = number;
      break;
    }
    const auto unit = std::ranges::find_if(kUnits, [&](const Unit& one) { return text.starts_with(one.name); });
    if (unit == std::end(kUnits)) return std::nullopt;
    seconds += number * unit->seconds;
    text.remove_prefix(unit->name.size());
  }
  if (!std::isfinite(seconds)) return std::nullopt;
  return is_negative ? -seconds : seconds;
}

// Messages of Ollama are those of chat completions, but for thinking, images and the tool's name.
MaybeFault read_ollama_messages(const Json& value, OllamaCall& call) {
  Json list = value;
  for (size_t i = 0; i < list.size(); ++i) {
    Json& message = list[i];
    if (!message.is_object()) continue;
    const Json* images = member(message, "images");
    if (images != nullptr && !(images->is_array() && images->empty())) {
      return Fault{.message = "the model reads text alone", .param = "[" + std::to_string(i) + "].images",
                   .code = "unsupported_content"};
    }
    if (const Json* thinking = member(message, "thinking")) message["reasoning_content"] = *thinking;
    // A tool's answer has no id here; templates that show the name have it.
    if (const Json* name = member(message, "tool_name")) message["name"] = *name;
    if (member(message, "content") == nullptr) message["content"] = "";
  }
  return read_chat_messages(list, call.request.messages);
}

MaybeFault read_format(const Json& value, OllamaCall& call) {
  if (value.is_string()) {
    const std::string& word = value.get_ref<const std::string&>();
    if (word.empty()) return {};
    if (word == "json") return set_form(call.request, AnswerForm::Kind::kJsonObject, Json(), "format");
    return Fault{.message = "must be \"json\" or a JSON schema"};
  }
  return set_form(call.request, AnswerForm::Kind::kJsonSchema, value, "format");
}

MaybeFault read_think(const Json& value, OllamaCall& call) {
  if (value.is_boolean()) {
    set_thinking(call.request, value.get<bool>());
    return {};
  }
  if (value.is_string()) return read_effort(value, call.request);
  return Fault{.message = "must be true, false, \"low\", \"medium\" or \"high\"", .code = "invalid_type"};
}

MaybeFault read_options(const Json& value, OllamaCall& call) {
  if (MaybeFault fault = read_fields(value, sampler_fields(), call.request, ".")) return fault;
  return read_fields(value, ollama_option_fields(), call.request, ".");
}

// -1 is "without end", -2 "until the context is full", and 0 no limit: there is room for what the context has.
MaybeFault read_num_predict(const Json& value, AnswerRequest& request) {
  const int64_t n = integer_of(value);
  request.options.max_tokens = n < 0 ? 0 : static_cast<size_t>(n);
  return {};
}

MaybeFault read_images(const Json& value, OllamaCall&) {
  if (value.is_array() && value.empty()) return {};
  return Fault{.message = "the model reads text alone", .code = "unsupported_content"};
}

constexpr Field<AnswerRequest> kOptionFields[] = {
    {{"num_predict", Shape::kInteger, "the most tokens of the answer; 0, -1 and -2: what the context has room for", -2,
      kMostMaxTokens},
     read_num_predict},
    ignored_field<AnswerRequest>("num_ctx", "the context is the server's to choose"),
    ignored_field<AnswerRequest>("num_keep", "see truncate"),
    ignored_field<AnswerRequest>("num_batch", ""),
    ignored_field<AnswerRequest>("num_gpu", ""),
    ignored_field<AnswerRequest>("num_thread", ""),
    ignored_field<AnswerRequest>("main_gpu", ""),
    ignored_field<AnswerRequest>("use_mmap", ""),
    ignored_field<AnswerRequest>("penalize_newline", ""),
    refused_field<AnswerRequest>("tfs_z", "another sampler"),
};

constexpr Field<OllamaCall> kOllamaFields[] = {
    model_field<OllamaCall>(),
    one_answer_field<OllamaCall>(),
    {{"stream", Shape::kBoolean, "the answer comes in parts, a line each; true where it is absent"},
     [](const Json& value, OllamaCall& call) { return call.stream = value.get<bool>(), MaybeFault(); }},
    {{"format", Shape::kAny, "what the text must be: json, or a JSON schema", 0, 0, Standing::kRead,
      R"({"oneOf":[{"enum":["json",""]},{"type":"object"}]})"},
     read_format},
    {{"options", Shape::kObject, "samplers, num_predict, stop"}, read_options},
    {{"think", Shape::kAny, "whether the model thinks first, or how much: for the template", 0, 0, Standing::kRead,
      R"({"enum":[true,false,"low","medium","high"]})"},
     read_think},
    {{"keep_alive", Shape::kAny, "how long the model stays behind the answer: seconds, or \"5m\"; 0: not at all; "
                                 "below 0: for good", 0, 0, Standing::kRead, R"({"type":["number","string"]})"},
     [](const Json& value, OllamaCall& call) { return read_keep_alive(value, call.request.keep_alive); }},
    {{"logprobs", Shape::kBoolean, "how likely each token of the answer was"},
     [](const Json& value, OllamaCall& call) {
       if (value.get<bool>()) call.request.options.n_logprobs = 0;
       return MaybeFault();
     }},
    {{"top_logprobs", Shape::kInteger, "and so many in its place; with logprobs", 0, 20},
     [](const Json& value, OllamaCall& call) {
       call.top_logprobs = static_cast<size_t>(integer_of(value));
       return MaybeFault();
     }},
    ignored_field<OllamaCall>("shift", "see truncate"),
};

constexpr Field<OllamaCall> kOllamaChatFields[] = {
    {{"messages", Shape::kList, "the conversation, the whole of it each time; empty: the model is loaded", 0,
      kMaxMessages, Standing::kRead,
      R"({"type":"array","items":{"type":"object","required":["role","content"],"properties":{"role":)"
      R"({"enum":["system","user","assistant","tool"]},"content":{"type":"string"},"thinking":{"type":"string"}}}})"},
     [](const Json& value, OllamaCall& call) {
       return value.empty() ? MaybeFault() : read_ollama_messages(value, call);
     }},
};

constexpr Field<OllamaCall> kOllamaGenerateFields[] = {
    {{"prompt", Shape::kText, "the user's message; empty: the model is loaded", 0, 1 << 30},
     [](const Json& value, OllamaCall& call) { return call.prompt = value.get<std::string>(), MaybeFault(); }},
    {{"system", Shape::kText, "the system message", 0, 1 << 30},
     [](const Json& value, OllamaCall& call) { return call.system = value.get<std::string>(), MaybeFault(); }},
    {{"raw", Shape::kBoolean, "the prompt is the model's whole text: no template"},
     [](const Json& value, OllamaCall& call) { return call.raw = value.get<bool>(), MaybeFault(); }},
    {{"images", Shape::kAny, "the model reads text alone", 0, 0, Standing::kRefused}, read_images},
    refused_field<OllamaCall>("template", "the template is the model's"),
    refused_field<OllamaCall>("suffix", "a text behind the answer"),
    refused_field<OllamaCall>("context", "see /api/chat: messages"),
};

constexpr Field<OllamaCall> kOllamaShowFields[] = {
    {{"model", Shape::kText, "a name of /api/tags", 0, 512, Standing::kRead, "", true},
     [](const Json& value, OllamaCall& call) {
       call.request.model = value.get<std::string>();
       return MaybeFault();
     }},
};

MaybeFault read_ollama(const Site& site, const http::Request& source, std::span<const Field<OllamaCall>> own,
                       OllamaCall& call) {
  Json body;
  if (MaybeFault fault = begin_request(site, source, body, call.request)) return fault;
  if (MaybeFault fault = read_fields(body, ollama_fields(), call)) return fault;
  if (MaybeFault fault = read_fields(body, own, call)) return fault;
  body.erase("logprobs");
  if (MaybeFault fault = read_answer_fields(body, call.request, true)) return fault;
  if (call.top_logprobs && call.request.options.n_logprobs) call.request.options.n_logprobs = call.top_logprobs;
  return {};
}

}  // namespace

MaybeFault read_keep_alive(const Json& value, std::optional<std::chrono::milliseconds>& keep_alive) {
  constexpr const char* kRule = "must be a number of seconds, or a duration such as \"5m\" or \"1h30m\"";
  if (!value.is_number() && !value.is_string()) return Fault{.message = kRule, .code = "invalid_type"};
  const std::optional<double> seconds =
      value.is_number() ? value.get<double>() : seconds_of_duration(value.get_ref<const std::string&>());
  if (!seconds) return Fault{.message = kRule};
  if (*seconds < 0) {
    keep_alive = std::chrono::milliseconds(-1);
  } else {
    // What is more than zero is not "at once".
    const double ms = std::min(std::ceil(*seconds * 1000), kMostKeepAliveMs);
    keep_alive = std::chrono::milliseconds(static_cast<int64_t>(ms));
  }
  return {};
}

std::span<const Field<OllamaCall>> ollama_fields() { return kOllamaFields; }
std::span<const Field<OllamaCall>> ollama_chat_fields() { return kOllamaChatFields; }
std::span<const Field<OllamaCall>> ollama_generate_fields() { return kOllamaGenerateFields; }
std::span<const Field<OllamaCall>> ollama_show_fields() { return kOllamaShowFields; }
std::span<const Field<AnswerRequest>> ollama_option_fields() { return kOptionFields; }

MaybeFault read_ollama_chat(const Site& site, const http::Request& source, OllamaCall& call) {
  if (MaybeFault fault = read_ollama(site, source, ollama_chat_fields(), call)) return fault;
  return call.request.messages.empty() ? MaybeFault() : check_awaits_answer(call.request.messages);
}

MaybeFault read_ollama_generate(const Site& site, const http::Request& source, OllamaCall& call) {
  if (MaybeFault fault = read_ollama(site, source, ollama_generate_fields(), call)) return fault;
  if (call.prompt.empty()) return {};
  if (call.raw) {
    call.request.prompt = call.prompt;
    return {};
  }
  if (!call.system.empty()) call.request.messages.push_back(make_message(Role::kSystem, call.system));
  call.request.messages.push_back(make_message(Role::kUser, call.prompt));
  return {};
}

}  // namespace ibid::serve
