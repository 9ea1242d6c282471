#include "server/protocol/openai_chat.h"

#include <utility>

#include "runtime/generate/logprobs_json.h"
#include "server/protocol/answer_fields.h"
#include "server/protocol/answer_json.h"
#include "server/protocol/chat_messages.h"
#include "server/protocol/openai_chat_stream.h"

namespace ibid::serve {

namespace {

MaybeFault read_messages(const Json& value, ChatCall& call) {
  if (MaybeFault fault = read_chat_messages(value, call.request.messages)) return fault;
  return {};
}

MaybeFault read_stream(const Json& value, ChatCall& call) {
  call.stream = value.get<bool>();
  return {};
}

MaybeFault read_stream_options(const Json& value, ChatCall& call) {
  static constexpr Field<ChatCall> kOptions[] = {
      {{"include_usage", Shape::kBoolean}, [](const Json& wanted, ChatCall& c) {
         c.include_usage = wanted.get<bool>();
         return MaybeFault();
       }}};
  return read_fields<ChatCall>(value, kOptions, call, ".");
}

MaybeFault read_max_tokens(const Json& value, ChatCall& call) { return set_max_tokens(value, call.request); }

MaybeFault read_logprobs(const Json& value, ChatCall& call) {
  call.logprobs = value.get<bool>();
  return {};
}

MaybeFault read_top_logprobs(const Json& value, ChatCall& call) {
  call.top_logprobs = static_cast<size_t>(integer_of(value));
  return {};
}

MaybeFault read_progress(const Json& value, ChatCall& call) {
  call.return_progress = value.get<bool>();
  return {};
}

MaybeFault read_modalities(const Json& value, ChatCall&) {
  for (const Json& modality : value) {
    if (!modality.is_string() || modality.get_ref<const std::string&>() != "text") {
      return Fault{.message = "must be [\"text\"]: the model writes text alone", .code = "unsupported_value"};
    }
  }
  return {};
}

constexpr std::string_view kMessagesSchema =
    R"({"type":"array","minItems":1,"items":{"$ref":"#/components/schemas/chat_message"}})";

constexpr Field<ChatCall> kChatFields[] = {
    model_field<ChatCall>(),
    {{"messages", Shape::kList, "the conversation, the last of which is answered; the whole of it each time", 1,
      kMaxMessages, Standing::kRead, kMessagesSchema, true},
     read_messages},
    {{"stream", Shape::kBoolean, "the answer comes in parts, as events"}, read_stream},
    {{"stream_options", Shape::kObject, "include_usage: a last chunk with the usage", 0, 0, Standing::kRead,
      R"({"type":"object","properties":{"include_usage":{"type":"boolean"}}})"},
     read_stream_options},
    {{"max_tokens", Shape::kInteger, "the most tokens of an answer; absent: what the context has room for", 1,
      kMostMaxTokens},
     read_max_tokens},
    {{"max_completion_tokens", Shape::kInteger, "the same; it wins", 1, kMostMaxTokens}, read_max_tokens},
    {{"logprobs", Shape::kBoolean, "how likely each token of the answer was"}, read_logprobs},
    {{"top_logprobs", Shape::kInteger, "and so many in its place; with logprobs", 0, 20}, read_top_logprobs},
    {{"return_progress", Shape::kBoolean, "chunks with prompt_progress while the prompt is read; with stream"},
     read_progress},
    {{"modalities", Shape::kList, "text", 1, 8, Standing::kRead,
      R"({"type":"array","items":{"const":"text"},"minItems":1,"maxItems":8})"},
     read_modalities},
    refused_field<ChatCall>("audio", "the model writes text alone"),
    {{"web_search_options", Shape::kAny, "nothing is searched", 0, 0, Standing::kRefused},
     [](const Json&, ChatCall&) { return MaybeFault(Fault{.message = "is not supported",
                                                          .code = "unsupported_parameter"}); }},
    ignored_field<ChatCall>("prediction", "guesses come from the conversation"),
    ignored_field<ChatCall>("store", "see /v1/responses"),
    ignored_field<ChatCall>("verbosity", ""),
};

}  // namespace

std::span<const Field<ChatCall>> chat_fields() { return kChatFields; }

MaybeFault read_chat(const Site& site, const http::Request& source, ChatCall& call) {
  Json body;
  if (MaybeFault fault = parse_body(source.body, body)) return fault;
  return read_chat_body(site, source, body, call);
}

MaybeFault read_chat_body(const Site& site, const http::Request& source, const Json& body, ChatCall& call) {
  if (MaybeFault fault = begin_parsed(site, source, body, call.request)) return fault;
  if (MaybeFault fault = read_fields(body, chat_fields(), call)) return fault;
  if (MaybeFault fault = read_answer_fields(body, call.request, true)) return fault;
  if (call.top_logprobs && !call.logprobs) {
    return Fault{.message = "needs logprobs to be true", .param = "top_logprobs"};
  }
  if (call.logprobs) call.request.options.n_logprobs = call.top_logprobs.value_or(0);
  return check_awaits_answer(call.request.messages);
}

Json logprobs_of(std::span<const TokenLogprobs> tokens, const Tokenizer* tokenizer) {
  if (tokens.empty() || tokenizer == nullptr) return {};
  return logprobs_json(tokens, *tokenizer);
}

namespace {

Json choice_json(size_t i, const Answer& answer, const Tokenizer* tokenizer) {
  Json message = Json::object();
  message["role"] = "assistant";
  const bool only_calls = answer.content.empty() && !answer.tool_calls.empty();
  message["content"] = only_calls ? Json() : Json(answer.content);
  message["refusal"] = Json();
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  if (!answer.tool_calls.empty()) {
    Json calls = Json::array();
    for (const ToolCall& call : answer.tool_calls) calls.push_back(tool_call_json(call.id, call.name, call.arguments));
    message["tool_calls"] = std::move(calls);
  }
  Json choice = Json::object();
  choice["index"] = i;
  choice["message"] = std::move(message);
  choice["logprobs"] = logprobs_of(answer.logprobs, tokenizer);
  choice["finish_reason"] = openai_finish_reason(answer);
  return choice;
}

}  // namespace

void add_costs(Json& json, const Heard& heard) {
  json["usage"] = openai_usage(count_tokens(heard.answers, heard.tokenizer.get()));
  json["timings"] = llama_timings(heard.answers.front());
  json["ibid"] = ibid_details(heard.answers.front());
}

std::shared_ptr<AnswerListener> make_chat_listener(const Site& site, const http::ExchangePtr& exchange,
                                                   const ChatCall& call) {
  const CompletionNames names{site.new_id("chatcmpl-"), site.now_s()};
  const size_t n = call.request.n;
  if (call.stream) {
    return std::make_shared<ChatStream>(exchange, site, names,
                                        ChatStreamOptions{n, call.include_usage, call.return_progress});
  }
  return std::make_shared<WholeReply>(exchange, n, ErrorStyle::kOpenAi, [names](const Heard& heard) {
    const Tokenizer* tokenizer = heard.tokenizer.get();
    Json choices = Json::array();
    for (size_t i = 0; i < heard.answers.size(); ++i) {
      choices.push_back(choice_json(i, heard.answers[i], tokenizer));
    }
    Json json = Json::object();
    json["id"] = names.id;
    json["object"] = "chat.completion";
    json["created"] = names.created;
    json["model"] = heard.model;
    json["choices"] = std::move(choices);
    add_costs(json, heard);
    return json;
  });
}

void post_chat_completions(const Site& site, const http::ExchangePtr& exchange) {
  ChatCall call;
  if (MaybeFault fault = read_chat(site, exchange->request(), call)) {
    return respond_fault(*exchange, *fault, ErrorStyle::kOpenAi);
  }
  auto listener = make_chat_listener(site, exchange, call);
  site.backend->start(std::move(call.request), std::move(listener), exchange->gone());
}

}  // namespace ibid::serve
