// RespClient: one connection to a server that speaks RESP. Requests may be sent several at a time (pipelining); their
// answers come in the order of the requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time_limits.h"
#include "net/byte_stream.h"
#include "net/connector.h"
#include "net/resp_reader.h"

namespace ibid::net {

// The bytes of one or several commands. Words are copied, large values are not.
class RespRequest {
 public:
  // Begins a command of n_words words, which must follow.
  RespRequest& command(size_t n_words);
  RespRequest& word(std::string_view word);
  RespRequest& word(int64_t number) { return word(std::to_string(number)); }
  // A word that consists of several pieces, which must exist until the request is sent.
  RespRequest& value(ByteStream::Pieces pieces);

  size_t n_commands() const { return n_commands_; }
  // The bytes in the order in which they are sent. Valid until the next change.
  std::vector<std::span<const std::byte>> pieces() const;

 private:
  struct Value {
    size_t position;  // position in text_ at which the value is sent
    std::span<const std::byte> bytes;
  };
  std::string text_;
  std::vector<Value> values_;
  size_t n_commands_ = 0;
};

// A request of one command.
RespRequest resp_command(std::initializer_list<std::string_view> words);

// The error that an answer reports, with a code for the reason: kBusy if the server will answer later (-LOADING,
// -MASTERDOWN, -BUSY, -TRYAGAIN, -CLUSTERDOWN), kLimitExceeded if it is full (-OOM), kInvalidArgument if the login
// lacks a right (-NOAUTH, -WRONGPASS, -NOPERM), kBadType for a key of another type (-WRONGTYPE), kUnsupported for a
// cluster
// (-MOVED, -ASK) and for all other errors. Ok for all other answers.
Status status_of(const RespValue& answer);
// The first error that the answers report, also within lists (EXEC).
Status status_of(std::span<const RespValue> answers);
// The error kBadType: the answer is of another kind than `wanted`.
Status unexpected(const RespValue& answer, std::string_view wanted);

// For one thread at a time.
class RespClient {
 public:
  // Connects, and logs in (AUTH, SELECT). Errors: those of Connector::connect() and status_of(); they name the server.
  static Result<std::unique_ptr<RespClient>> connect(const Connector& connector, const TimeLimits& limits);

  // Sends a request. Errors: those of ByteStream; the connection is then unusable.
  Status send(const RespRequest& request, const TimeLimits& limits);
  // Receives the answer to the first request that has none yet. room: as in RespReader::read(). Errors: those of
  // RespReader::read(); the connection is then unusable. An error that the server reports is a value, not an error.
  // REQUIRES: a request was sent that has no answer yet.
  Result<RespValue> receive(const TimeLimits& limits, std::span<std::byte> room = {});
  // Sends a request of one command, and receives its answer. REQUIRES: all earlier requests have answers.
  Result<RespValue> call(const RespRequest& request, const TimeLimits& limits, std::span<std::byte> room = {});

  // Sends a request, and receives the answers to all of its commands; room: for the last answer. REQUIRES: all earlier
  // requests have answers.
  Result<std::vector<RespValue>> call_all(const RespRequest& request, const TimeLimits& limits,
                                          std::span<std::byte> room = {});

  // True if later requests can be sent: no call failed, all requests have answers, and the server has not closed the
  // connection or sent anything else.
  bool is_reusable();

 private:
  RespClient(std::unique_ptr<ByteStream> stream, std::string server);
  Status log_in(const ServerAddress& address, const TimeLimits& limits);
  Status failed(const Status& status);

  const std::unique_ptr<ByteStream> stream_;
  const std::string server_;  // for messages
  RespReader reader_;
  size_t n_unanswered_ = 0;
  bool has_failed_ = false;
};

}  // namespace ibid::net
