#include "server/protocol/responses_stream.h"

#include <utility>

#include "server/protocol/openai_chat_stream.h"
#include "server/protocol/responses_items.h"

namespace ibid::serve {

namespace {

Json event_of(const char* type) {
  Json event = Json::object();
  event["type"] = type;
  return event;
}

}  // namespace

ResponseStream::ResponseStream(http::ExchangePtr exchange, ResponseContext context)
    : StreamReply(std::move(exchange), 1, ErrorStyle::kOpenAi, StreamForm::kEvents), context_(std::move(context)) {}

void ResponseStream::emit(Json event) {
  event["sequence_number"] = sequence_++;
  send_event(event["type"].get<std::string>(), event);
}

Json ResponseStream::item_event(const char* type) const {
  Json event = event_of(type);
  event["item_id"] = item_id_;
  event["output_index"] = n_items_ - 1;
  return event;
}

void ResponseStream::opened() {
  for (const char* type : {"response.created", "response.in_progress"}) {
    Json event = event_of(type);
    event["response"] = response_json(context_, heard().model, "in_progress", Json::array());
    emit(std::move(event));
  }
}

void ResponseStream::open(Item kind, std::string id, Json item) {
  close();
  item_ = kind;
  item_id_ = std::move(id);
  text_.clear();
  logprobs_ = Json::array();
  Json event = event_of("response.output_item.added");
  event["output_index"] = n_items_++;
  event["item"] = std::move(item);
  emit(std::move(event));
}

void ResponseStream::thought(size_t, std::string_view text) {
  if (item_ != Item::kReasoning) {
    const std::string id = context_.site.new_id("rs_");
    open(Item::kReasoning, id, reasoning_item(id, "", "in_progress"));
    begin_part(reasoning_text(""));
  }
  text_ += text;
  (void)take_logprobs(0);
  Json event = item_event("response.reasoning_text.delta");
  event["content_index"] = 0;
  event["delta"] = std::string(text);
  emit(std::move(event));
}

void ResponseStream::begin_part(Json part) {
  Json event = item_event("response.content_part.added");
  event["content_index"] = 0;
  event["part"] = std::move(part);
  emit(std::move(event));
}

void ResponseStream::end_part(Json part) {
  Json event = item_event("response.content_part.done");
  event["content_index"] = 0;
  event["part"] = std::move(part);
  emit(std::move(event));
}

void ResponseStream::open_message() {
  const std::string id = context_.site.new_id("msg_");
  open(Item::kMessage, id, message_item(id, Json::array(), "in_progress"));
  begin_part(output_text("", Json::array()));
}

void ResponseStream::said(size_t, std::string_view text) {
  if (item_ != Item::kMessage) open_message();
  text_ += text;
  Json event = item_event("response.output_text.delta");
  event["content_index"] = 0;
  event["delta"] = std::string(text);
  event["logprobs"] = take_output_logprobs(take_logprobs(0));
  emit(std::move(event));
}

Json ResponseStream::take_output_logprobs(const std::vector<TokenLogprobs>& tokens) {
  Json all = output_logprobs(tokens, heard().tokenizer.get());
  for (const Json& one : all) logprobs_.push_back(one);
  return all;
}

void ResponseStream::called(size_t, size_t, std::string_view id, std::string_view name) {
  (void)take_logprobs(0);
  const std::string item_id = context_.site.new_id("fc_");
  const ToolCall call{std::string(id), std::string(name), ""};
  open(Item::kCall, item_id, call_item(item_id, call, "in_progress"));
  call_ = call;
}

void ResponseStream::call_part(size_t, size_t, std::string_view part) {
  call_.arguments += part;
  Json event = item_event("response.function_call_arguments.delta");
  event["delta"] = std::string(part);
  emit(std::move(event));
}

void ResponseStream::close_reasoning() {
  Json event = item_event("response.reasoning_text.done");
  event["content_index"] = 0;
  event["text"] = text_;
  emit(std::move(event));
  end_part(reasoning_text(text_));
}

void ResponseStream::close_message() {
  Json done = item_event("response.output_text.done");
  done["content_index"] = 0;
  done["text"] = text_;
  done["logprobs"] = logprobs_;
  emit(std::move(done));
  end_part(output_text(text_, logprobs_));
}

void ResponseStream::close_call() {
  Json event = item_event("response.function_call_arguments.done");
  event["name"] = call_.name;
  event["arguments"] = call_.arguments;
  emit(std::move(event));
}

void ResponseStream::close(const char* status) {
  Json item;
  switch (item_) {
    case Item::kNone: return;
    case Item::kReasoning:
      close_reasoning();
      item = reasoning_item(item_id_, text_, status);
      break;
    case Item::kMessage: {
      close_message();
      Json content = Json::array();
      content.push_back(output_text(text_, logprobs_));
      item = message_item(item_id_, std::move(content), status);
      break;
    }
    case Item::kCall:
      close_call();
      item = call_item(item_id_, call_, status);
      break;
  }
  Json event = event_of("response.output_item.done");
  event["output_index"] = n_items_ - 1;
  event["item"] = item;
  emit(std::move(event));
  context_.items.push_back(std::move(item));
  item_ = Item::kNone;
}

void ResponseStream::answered(size_t i, const Answer& answer) {
  if (n_items_ == 0) open_message();  // an answer without a word is a message, too
  if (item_ == Item::kMessage) (void)take_output_logprobs(take_last_logprobs(i, answer));
  close(is_cut(answer) ? "incomplete" : "completed");
}

void ResponseStream::finished() {
  Json response = finished_response(context_, heard());
  Json event = event_of("response.completed");
  event["type"] = "response." + response["status"].get<std::string>();
  event["response"] = std::move(response);
  emit(std::move(event));
}

void ResponseStream::failed(const Fault& fault) {
  Json response = response_json(context_, heard().model, "failed", context_.items);
  Json error = Json::object();
  error["code"] = fault.status >= 500 ? "server_error" : fault.code;
  error["message"] = fault.text();
  response["error"] = std::move(error);
  Json event = event_of("response.failed");
  event["response"] = std::move(response);
  emit(std::move(event));
}

}  // namespace ibid::serve
