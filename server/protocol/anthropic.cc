#include "server/protocol/anthropic.h"

#include <memory>
#include <utility>

#include "base/checked.h"
#include "server/protocol/anthropic_input.h"
#include "server/protocol/anthropic_stream.h"
#include "server/protocol/prompt_fields.h"

namespace ibid::serve {

namespace {

Json tool_use_block(const ToolCall& call) {
  // The protocol wants an object. What a model wrote may be none; then the client sees the text.
  Result<Json> input = parse_json(call.arguments, "arguments", {.max_depth = 60});
  Json object = Json::object();
  if (input.ok() && input->is_object()) {
    object = std::move(*input);
  } else {
    object["arguments"] = call.arguments;
  }
  Json block = Json::object();
  block["type"] = "tool_use";
  block["id"] = call.id;
  block["name"] = call.name;
  block["input"] = std::move(object);
  return block;
}

Json content_blocks(const Answer& answer) {
  Json blocks = Json::array();
  if (!answer.reasoning.empty()) {
    Json block = Json::object();
    block["type"] = "thinking";
    block["thinking"] = answer.reasoning;
    block["signature"] = "";
    blocks.push_back(std::move(block));
  }
  if (!answer.content.empty()) {
    Json block = Json::object();
    block["type"] = "text";
    block["text"] = answer.content;
    blocks.push_back(std::move(block));
  }
  for (const ToolCall& call : answer.tool_calls) blocks.push_back(tool_use_block(call));
  return blocks;
}

}  // namespace

Json anthropic_usage(const TokenCounts& counts) {
  Json usage = Json::object();
  usage["input_tokens"] = saturating_sub(counts.n_prompt, counts.n_cached);
  usage["cache_creation_input_tokens"] = 0;
  usage["cache_read_input_tokens"] = counts.n_cached;
  usage["output_tokens"] = counts.n_completion;
  return usage;
}

std::string anthropic_stop_reason(const Answer& answer) {
  if (openai_finish_reason(answer) == "length") return "max_tokens";
  if (answer.finish_reason == FinishReason::kStopString) return "stop_sequence";
  return answer.tool_calls.empty() ? "end_turn" : "tool_use";
}

Json anthropic_message(const std::string& id, const std::string& model) {
  Json json = Json::object();
  json["id"] = id;
  json["type"] = "message";
  json["role"] = "assistant";
  json["model"] = model;
  json["content"] = Json::array();
  json["stop_reason"] = Json();
  json["stop_sequence"] = Json();
  return json;
}

void post_messages(const Site& site, const http::ExchangePtr& exchange) {
  MessagesCall call;
  if (MaybeFault fault = read_messages_call(site, exchange->request(), false, call)) {
    respond_fault(*exchange, *fault, ErrorStyle::kAnthropic);
    return;
  }
  const std::string id = site.new_id("msg_");
  std::shared_ptr<AnswerListener> listener;
  if (call.stream) {
    listener = std::make_shared<MessageStream>(exchange, id);
  } else {
    listener = std::make_shared<WholeReply>(exchange, 1, ErrorStyle::kAnthropic, [id](const Heard& heard) {
      const Answer& answer = heard.answers.front();
      Json json = anthropic_message(id, heard.model);
      json["content"] = content_blocks(answer);
      json["stop_reason"] = anthropic_stop_reason(answer);
      if (!answer.stop_string.empty()) json["stop_sequence"] = answer.stop_string;
      json["usage"] = anthropic_usage(count_tokens(heard.answers, nullptr));
      json["ibid"] = ibid_details(answer);
      return json;
    });
  }
  site.backend->start(std::move(call.request), std::move(listener), exchange->gone());
}

void post_count_tokens(const Site& site, const http::ExchangePtr& exchange) {
  MessagesCall call;
  MaybeFault fault = check_text_body(exchange->request());
  if (!fault) fault = read_messages_call(site, exchange->request(), true, call);
  if (fault) return respond_fault(*exchange, *fault, ErrorStyle::kAnthropic);
  const auto then = [exchange](const Result<size_t>& n) {
    if (!n.ok()) return respond_fault(*exchange, fault_of(n.status()), ErrorStyle::kAnthropic);
    Json json = Json::object();
    json["input_tokens"] = *n;
    respond_json(*exchange, json);
  };
  site.backend->count_prompt(std::move(call.request), then, exchange->gone());
}

}  // namespace ibid::serve
