#include "server/protocol/anthropic_stream.h"

#include <utility>

#include "server/protocol/anthropic.h"

namespace ibid::serve {

namespace {

constexpr const char* kPing = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

Json event_named(const char* type) {
  Json event = Json::object();
  event["type"] = type;
  return event;
}

}  // namespace

MessageStream::MessageStream(http::ExchangePtr exchange, std::string id)
    : StreamReply(std::move(exchange), 1, ErrorStyle::kAnthropic, StreamForm::kEvents, kPing), id_(std::move(id)) {}

void MessageStream::opened() {
  Json message = anthropic_message(id_, heard().model);
  // How much of it is cached is known at the end; message_delta has it.
  message["usage"] = anthropic_usage({.n_prompt = heard().n_prompt});
  Json event = event_named("message_start");
  event["message"] = std::move(message);
  send_event("message_start", event);
  send_bytes(kPing);
}

void MessageStream::open(Block kind, Json block) {
  close();
  block_ = kind;
  Json event = event_named("content_block_start");
  event["index"] = n_blocks_++;
  event["content_block"] = std::move(block);
  send_event("content_block_start", event);
}

void MessageStream::close() {
  if (block_ == Block::kNone) return;
  if (block_ == Block::kThinking) send_delta("signature_delta", "signature", "");
  Json event = event_named("content_block_stop");
  event["index"] = n_blocks_ - 1;
  send_event("content_block_stop", event);
  block_ = Block::kNone;
}

void MessageStream::send_delta(const char* delta_type, const char* key, std::string_view text) {
  Json delta = event_named(delta_type);
  delta[key] = std::string(text);
  Json event = event_named("content_block_delta");
  event["index"] = n_blocks_ - 1;
  event["delta"] = std::move(delta);
  send_event("content_block_delta", event);
}

void MessageStream::said(size_t, std::string_view text) {
  if (block_ != Block::kText) {
    Json block = event_named("text");
    block["text"] = "";
    open(Block::kText, std::move(block));
  }
  send_delta("text_delta", "text", text);
}

void MessageStream::thought(size_t, std::string_view text) {
  if (block_ != Block::kThinking) {
    Json block = event_named("thinking");
    block["thinking"] = "";
    block["signature"] = "";
    open(Block::kThinking, std::move(block));
  }
  send_delta("thinking_delta", "thinking", text);
}

void MessageStream::called(size_t, size_t, std::string_view id, std::string_view name) {
  Json block = event_named("tool_use");
  block["id"] = std::string(id);
  block["name"] = std::string(name);
  block["input"] = Json::object();
  open(Block::kToolUse, std::move(block));
}

void MessageStream::call_part(size_t, size_t, std::string_view part) {
  send_delta("input_json_delta", "partial_json", part);
}

void MessageStream::answered(size_t, const Answer&) { close(); }

void MessageStream::finished() {
  const Answer& answer = heard().answers.front();
  Json delta = Json::object();
  delta["stop_reason"] = anthropic_stop_reason(answer);
  delta["stop_sequence"] = answer.stop_string.empty() ? Json() : Json(answer.stop_string);
  Json event = event_named("message_delta");
  event["delta"] = std::move(delta);
  event["usage"] = anthropic_usage(count_tokens(heard().answers, nullptr));
  event["ibid"] = ibid_details(answer);
  send_event("message_delta", event);
  send_event("message_stop", event_named("message_stop"));
}

void MessageStream::failed(const Fault& fault) { send_event("error", fault_json(fault, ErrorStyle::kAnthropic)); }

}  // namespace ibid::serve
