// An answer, from the bytes of a stream of chat completions: EventStream finds the events, ReplyReader reads them. For
// one thread.
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

// The data of server-sent events, from pieces of any size (WHATWG HTML, "Server-sent events").
class EventStream {
 public:
  static constexpr size_t kMaxEventBytes = 4u << 20;

  // Gets the data of the next event, without its last line end. An error ends the stream.
  using TakeData = std::function<Status(std::string_view data)>;

  explicit EventStream(TakeData take) : take_(std::move(take)) {}

  // Errors: kLimitExceeded: an event is longer than kMaxEventBytes; those of TakeData.
  Status feed(std::string_view bytes);

 private:
  Status take_line();

  TakeData take_;
  std::string line_;         // that has not ended yet
  std::string data_;         // of the event that has not ended yet, each line with its end
  bool after_cr_ = false;    // the line ended with a carriage return; a newline would belong to it
  bool at_beginning_ = true;
};

// The number of a field that is a whole one from 0 up; none: it is absent or something else.
std::optional<size_t> whole_member(const Json& object, const char* name);

// The reason in the body of an error, in one line; empty: the body has none that can be read.
std::string said_in_error(std::string_view body);

class ReplyReader {
 public:
  static constexpr size_t kMaxReplyBytes = 64u << 20;
  static constexpr size_t kMaxCalls = 256;

  explicit ReplyReader(const ChatServer::OnPart& on_part);

  // The data of an event. Errors: kBadHeader, kLimitExceeded; kIo: the server tells of an error.
  Status take(std::string_view data);

  // Whether the answer has come to its end.
  bool has_ended() const { return has_ended_ || !reply_.finish_reason.empty(); }
  bool has_heard() const { return n_events_ > 0; }
  // With the times until now.
  ChatReply reply() const;

 private:
  Status take_chunk(const Json& chunk);
  Status take_text(const Json& delta, const char* name, ChatPart::Kind kind, std::string& text);
  Status take_calls(const Json& deltas);
  void take_costs(const Json& chunk);
  void heard();  // a piece of the answer
  bool has_room(size_t n_bytes);  // for so much more of the answer, which it counts
  double now_ms() const;

  const ChatServer::OnPart& on_part_;
  const int64_t begin_ns_;
  ChatReply reply_;
  size_t n_events_ = 0;
  size_t n_bytes_ = 0;  // of the answer
  bool has_ended_ = false;
};

}  // namespace ibid
