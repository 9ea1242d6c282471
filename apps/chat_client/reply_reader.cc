#include "apps/chat_client/reply_reader.h"

#include "apps/command_line/terminal_text.h"
#include "apps/sessions/message_text.h"
#include "base/clock.h"

namespace ibid {

namespace {

constexpr JsonLimits kChunkLimits = {.max_bytes = 4u << 20, .allow_duplicate_keys = true};
constexpr size_t kShownCharacters = 400;

const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_member_of(const Json& object, const char* name) {
  const Json* value = member(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::string shown(const std::string& text) { return excerpt(one_line(text), kShownCharacters); }

// {"error": {"message"}}, {"error": "..."}, {"message"} or {"detail"}.
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

std::string said_in_error(std::string_view body) {
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
  if (!chunk.is_object()) return {ErrorCode::kBadHeader, "an event of the stream is no object"};
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
    // vLLM and others call it "reasoning".
    TRY(take_text(*delta, "reasoning", ChatPart::Kind::kReasoning, reply_.reasoning));
    TRY(take_text(*delta, "reasoning_content", ChatPart::Kind::kReasoning, reply_.reasoning));
    TRY(take_text(*delta, "content", ChatPart::Kind::kText, reply_.content));
  }
  if (std::string reason = text_member_of(choice, "finish_reason"); !reason.empty()) {
    reply_.finish_reason = std::move(reason);
  }
  return {};
}

Status ReplyReader::take_text(const Json& delta, const char* name, ChatPart::Kind kind, std::string& text) {
  const std::string more = text_member_of(delta, name);
  if (more.empty()) return {};
  if (reply_.reasoning.size() + reply_.content.size() + more.size() > kMaxReplyBytes) {
    return {ErrorCode::kLimitExceeded, "the answer has no end"};
  }
  text += more;
  ++reply_.n_parts;
  reply_.last_ms = now_ms();
  if (reply_.n_parts == 1) reply_.first_ms = reply_.last_ms;
  on_part_({.kind = kind, .text = more});
  return {};
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
    reply_.n_said = whole_member(*usage, "completion_tokens");
    if (const Json* details = member(*usage, "prompt_tokens_details")) {
      reply_.n_cached = whole_member(*details, "cached_tokens");
    }
  }
  if (const Json* ours = member(chunk, "ibid")) {
    if (const std::optional<size_t> seed = whole_member(*ours, "seed")) reply_.seed = *seed;
    // Other words than the protocol has.
    if (text_member_of(*ours, "finish_reason") == "repetition") reply_.finish_reason = "repetition";
  }
}

}  // namespace ibid
