// RespValue: an answer of a server that speaks RESP, the protocol of Redis and Valkey (versions 2 and 3). RespReader
// reads answers, which are untrusted input: every length is compared with a limit before memory is allocated for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time_limits.h"
#include "net/byte_stream.h"

namespace ibid::net {

struct RespValue {
  enum class Kind {
    kText,     // a simple string, a double or a big number
    kError,    // an error of the server
    kInteger,  // also a boolean: 0 or 1
    kBytes,    // a bulk or verbatim string, in `text`
    kInRoom,   // a bulk string, whose n_bytes are in the room of the caller
    kNull,
    kList,  // an array or a set; or a map, as its keys and values in turn
  };
  Kind kind = Kind::kNull;
  std::string text;
  int64_t integer = 0;
  size_t n_bytes = 0;
  std::vector<RespValue> elements;

  bool is(std::string_view simple) const { return kind == Kind::kText && text == simple; }
  bool operator==(const RespValue&) const = default;
};

struct RespLimits {
  size_t max_line_bytes = 4096;
  size_t max_text_bytes = 65'536;  // maximum bytes of all texts of an answer
  size_t max_elements = 4096;      // maximum elements of all lists of an answer
  size_t max_depth = 4;
  size_t max_pushes = 64;  // maximum number of pushes and attributes before an answer
};

// For one thread at a time. The stream must outlive the reader.
class RespReader {
 public:
  explicit RespReader(ByteStream& stream, const RespLimits& limits = {});

  // Reads the next answer. room: memory for an answer that is a bulk string; without room it becomes `text`.
  // Errors: kTruncated if the connection ends; kBadHeader for bytes that are not RESP; kLimitExceeded for an answer
  // larger than the limits or the room; those of the stream. After an error no further answer can be read.
  Result<RespValue> read(const TimeLimits& time, std::span<std::byte> room = {});

  // True if bytes were received that no answer has used.
  bool has_buffered() const { return begin_ < end_; }

 private:
  struct Budget {  // the rest of the limits for one answer
    size_t text_bytes, elements, pushes;
  };
  Result<RespValue> read_value(const TimeLimits& time, std::span<std::byte> room, Budget& left, size_t depth);
  Result<RespValue> read_list(const TimeLimits& time, uint64_t n_elements, Budget& left, size_t depth);
  Result<RespValue> read_bulk(const TimeLimits& time, std::span<std::byte> room, Budget& left);
  Result<std::optional<RespValue>> read_aggregate(const TimeLimits& time, Budget& left, size_t depth);
  Result<RespValue> read_simple(Budget& left);
  Status fill(const TimeLimits& time);
  // Reads a line into line_, without its end.
  Status read_line(const TimeLimits& time);
  // Returns the number in line_ after its type.
  Result<int64_t> line_number() const;
  Status read_bytes(const TimeLimits& time, std::span<std::byte> out);
  Status read_line_end(const TimeLimits& time);

  ByteStream& stream_;
  const RespLimits limits_;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0, end_ = 0;  // bytes of buffer_ that are received and not used
  std::string line_;
};

}  // namespace ibid::net
