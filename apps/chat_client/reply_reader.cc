#include "apps/chat_client/reply_reader.h"

#include <algorithm>
#include <utility>

#include "apps/sessions/message_text.h"
#include "apps/terminal/terminal_text.h"
#include "base/clock.h"
#include "base/json_members.h"

namespace ibid {

Status EventStream::take_line() {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::string_view line = line_;
  if (std::exchange(at_beginning_, false) && line.starts_with(kByteOrderMark)) {
    line.remove_prefix(kByteOrderMark.size());
  }
  if (line.empty()) {
    if (data_.empty()) return {};
    data_.pop_back();
    const std::string data = std::exchange(data_, {});
    return take_(data);
  }
  const size_t colon = std::min(line.find(':'), line.size());
  if (line.substr(0, colon) != "data") return {};
  std::string_view value = line.substr(std::min(colon + 1, line.size()));
  if (value.starts_with(' ')) value.remove_prefix(1);
  data_.append(value);
  data_ += '\n';
  return {};
}

Status EventStream::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (std::exchange(after_cr_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    if (line_.size() + data_.size() + end > kMaxEventBytes) {
      return {ErrorCode::kLimitExceeded, "an event of the stream exceeds 4 MiB"};
    }
    line_.append(bytes.substr(0, end));
    if (end == bytes.size()) return {};
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    TRY(take_line());
    line_.clear();
  }
  return {};
}

namespace {

constexpr JsonLimits kChunkLimits = {.max_bytes = 4u << 20, .allow_duplicate_keys = true};
constexpr size_t kShownCharacters = 400;

std::string text_member_of(const Json& object, const char* name) {
  const std::string* text = text_member(object, name);
  return text == nullptr ? std::string() : *text;
}

// Reads a LostPrefix from JSON. An unknown cause becomes LostCause::kTemplate.
LostPrefix lost_prefix_of(const Json& json) {
  LostPrefix lost{.n_tokens = whole_member(json, "tokens").value_or(0),
                  .message = whole_member(json, "message").value_or(0),
                  .byte = whole_member(json, "byte").value_or(0),
                  .token = whole_member(json, "token").value_or(0)};
  const std::string cause = text_member_of(json, "cause");
  for (int i = 0; i <= static_cast<int>(kLastLostCause); ++i) {
    if (lost_cause_text(static_cast<LostCause>(i)) == cause) lost.cause = static_cast<LostCause>(i);
  }
  return lost;
}

std::string shown(const std::string& text) { return excerpt(one_line(text), kShownCharacters); }

// Returns the message of {"error": {"message"}}, {"error": "..."}, {"message"} or {"detail"}.
std::string message_of_error(const Json& json) {
  const Json* error = member(json, "error");
  if (error != nullptr && error->is_string()) return error->get<std::string>();
  if (error != nullptr && error->is_object()) return text_member_of(*error, "message");
  const std::string message = text_member_of(json, "message");
  return message.empty() ? text_member_of(json, "detail") : message;
}

}  // namespace

std::optional<size_t> whole_member(const Json& object, const char* name) {
  const Json* value = member(object, name);
  if (value == nullptr || !value->is_number_unsigned()) return std::nullopt;
  return value->get<size_t>();
}

std::string error_message_of(std::string_view body) {
  const Result<Json> json = parse_json(body, "error", kChunkLimits);
  return json.ok() ? shown(message_of_error(*json)) : std::string();
}

ReplyReader::ReplyReader(const ChatServer::OnPart& on_part)
    : on_part_(on_part), begin_ns_(system_clock().steady_ns()) {}

double ReplyReader::now_ms() const { return static_cast<double>(system_clock().steady_ns() - begin_ns_) / 1e6; }

ChatReply ReplyReader::reply() const {
  ChatReply reply = reply_;
  reply.total_ms = now_ms();
  return reply;
}

Status ReplyReader::take(std::string_view data) {
  ++n_events_;
  if (data == "[DONE]") {
    has_ended_ = true;
    return {};
  }
  const Result<Json> chunk = parse_json(data, "an event of the stream", kChunkLimits);
  TRY(chunk.status());
  return take_chunk(*chunk);
}

Status ReplyReader::take_chunk(const Json& chunk) {
  if (!chunk.is_object()) return {ErrorCode::kBadHeader, "an event of the stream is not a JSON object"};
  if (member(chunk, "error") != nullptr) {
    const std::string message = shown(message_of_error(chunk));
    return {ErrorCode::kIo, message.empty() ? "an error in the middle of the answer, without a reason" : message};
  }
  if (reply_.model.empty()) reply_.model = text_member_of(chunk, "model");
  take_costs(chunk);
  const Json* choices = member(chunk, "choices");
  if (choices == nullptr || !choices->is_array() || choices->empty()) return {};
  const Json& choice = choices->front();
  if (const Json* delta = member(choice, "delta")) {
    // Some servers, for example vLLM, name the field "reasoning".
    TRY(take_text(*delta, "reasoning", ChatPart::Kind::kReasoning, reply_.reasoning));
    TRY(take_text(*delta, "reasoning_content", ChatPart::Kind::kReasoning, reply_.reasoning));
    TRY(take_text(*delta, "content", ChatPart::Kind::kText, reply_.content));
    if (const Json* calls = member(*delta, "tool_calls")) TRY(take_calls(*calls));
  }
  if (std::string reason = text_member_of(choice, "finish_reason"); !reason.empty()) {
    reply_.finish_reason = std::move(reason);
  }
  return {};
}

Status ReplyReader::take_text(const Json& delta, const char* name, ChatPart::Kind kind, std::string& text) {
  const std::string more = text_member_of(delta, name);
  if (more.empty()) return {};
  if (!has_room(more.size())) return {ErrorCode::kLimitExceeded, "the answer exceeds 64 MiB"};
  text += more;
  record_arrival();
  on_part_({.kind = kind, .text = more});
  return {};
}

// Tool calls arrive in parts, the name first, then the arguments, each with the index of the call.
Status ReplyReader::take_calls(const Json& deltas) {
  if (!deltas.is_array()) return {ErrorCode::kBadHeader, "tool_calls is not a list"};
  for (const Json& delta : deltas) {
    const size_t number = whole_member(delta, "index").value_or(reply_.tool_calls.size());
    if (number > reply_.tool_calls.size() || number >= kMaxCalls) {
      return {ErrorCode::kBadHeader, "the index of a tool call is not the next number"};
    }
    const bool begins = number == reply_.tool_calls.size();
    if (begins) reply_.tool_calls.emplace_back();
    ToolCall& call = reply_.tool_calls[number];
    if (call.id.empty()) call.id = text_member_of(delta, "id");
    const Json* function = member(delta, "function");
    if (function == nullptr) continue;
    const std::string name = text_member_of(*function, "name"), arguments = text_member_of(*function, "arguments");
    if (!has_room(name.size() + arguments.size())) return {ErrorCode::kLimitExceeded, "the answer exceeds 64 MiB"};
    call.name += name;
    call.arguments += arguments;
    record_arrival();
    if (begins || !name.empty()) on_part_({.kind = ChatPart::Kind::kCall, .text = name, .begins = begins});
    if (!arguments.empty()) on_part_({.kind = ChatPart::Kind::kCall, .text = arguments});
  }
  return {};
}

bool ReplyReader::has_room(size_t n_bytes) {
  n_bytes_ += n_bytes;
  return n_bytes_ <= kMaxReplyBytes;
}

void ReplyReader::record_arrival() {
  ++reply_.n_parts;
  reply_.last_ms = now_ms();
  if (reply_.n_parts == 1) reply_.first_ms = reply_.last_ms;
}

void ReplyReader::take_costs(const Json& chunk) {
  if (const Json* progress = member(chunk, "prompt_progress")) {
    const std::optional<size_t> n_done = whole_member(*progress, "processed");
    const std::optional<size_t> n_total = whole_member(*progress, "total");
    if (n_done && n_total) {
      on_part_({.kind = ChatPart::Kind::kReading, .n_done = *n_done, .n_total = *n_total});
    }
  }
  if (const Json* usage = member(chunk, "usage")) {
    reply_.n_prompt = whole_member(*usage, "prompt_tokens");
    reply_.n_completion_tokens = whole_member(*usage, "completion_tokens");
    if (const Json* details = member(*usage, "prompt_tokens_details")) {
      reply_.n_cached = whole_member(*details, "cached_tokens");
    }
  }
  if (const Json* ours = member(chunk, "ibid")) {
    if (const std::optional<size_t> seed = whole_member(*ours, "seed")) reply_.seed = *seed;
    if (const Json* lost = member(*ours, "lost_prefix")) reply_.lost_prefix = lost_prefix_of(*lost);
    // ibid adds finish reasons that the protocol does not define.
    if (text_member_of(*ours, "finish_reason") == "repetition") reply_.finish_reason = "repetition";
  }
}

}  // namespace ibid
