// EventStream: takes the bytes of a server-sent event stream apart, as they come in pieces of any size (WHATWG HTML,
// "Server-sent events"). Of an event its data alone is kept. For one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ibid {

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

}  // namespace ibid
