// Parses a stream of chat completions: EventStream splits it into events, ReplyReader builds the answer. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "apps/chat_client/chat_server.h"
#include "base/json_limits.h"
#include "base/result.h"

namespace ibid {

// EventStream: parses server-sent events from pieces of any size (WHATWG HTML, "Server-sent events").
class EventStream {
 public:
  static constexpr size_t kMaxEventBytes = 4u << 20;

  // Receives the data of an event, without the last newline. If it returns an error, the stream ends.
  using TakeData = std::function<Status(std::string_view data)>;

  explicit EventStream(TakeData take) : take_(std::move(take)) {}

  // Parses the next bytes of the stream. Errors: kLimitExceeded if an event exceeds kMaxEventBytes; those of TakeData.
  Status feed(std::string_view bytes);

 private:
  Status take_line();

  TakeData take_;
  std::string line_;       // the line that is not complete yet
  std::string data_;       // data lines of the event that is not complete yet, with newlines
  bool after_cr_ = false;  // the last line ended with CR; an LF after it belongs to the same line end
  bool at_beginning_ = true;
};

// Returns a member that is a non-negative integer; nullopt if it is absent or has another type.
std::optional<size_t> whole_member(const Json& object, const char* name);

// Returns the reason given in an error body, in one line; empty if there is no reason.
std::string error_message_of(std::string_view body);

class ReplyReader {
 public:
  static constexpr size_t kMaxReplyBytes = 64u << 20;
  static constexpr size_t kMaxCalls = 256;

  explicit ReplyReader(const ChatServer::OnPart& on_part);

  // Handles the data of an event. Errors: kBadHeader, kLimitExceeded; kIo if the server reports an error.
  Status take(std::string_view data);

  // True if the answer is complete.
  bool has_ended() const { return has_ended_ || !reply_.finish_reason.empty(); }
  bool has_received_events() const { return n_events_ > 0; }
  // Returns the answer so far, with its times.
  ChatReply reply() const;

 private:
  Status take_chunk(const Json& chunk);
  Status take_text(const Json& delta, const char* name, ChatPart::Kind kind, std::string& text);
  Status take_calls(const Json& deltas);
  void take_costs(const Json& chunk);
  void record_arrival();          // records the time at which text arrives
  bool has_room(size_t n_bytes);  // counts n_bytes as a part of the answer; false: the answer exceeds the size limit
  double now_ms() const;

  const ChatServer::OnPart& on_part_;
  const int64_t begin_ns_;
  ChatReply reply_;
  size_t n_events_ = 0;
  size_t n_bytes_ = 0;  // size of the answer
  bool has_ended_ = false;
};

}  // namespace ibid
