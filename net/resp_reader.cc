#include "net/resp_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace ibid::net {

namespace {

constexpr size_t kBufferBytes = 16'384;
using Kind = RespValue::Kind;

Status bad_answer(const std::string& what) { return {ErrorCode::kBadHeader, "answer of the server: " + what}; }
Status too_large(const std::string& what) { return {ErrorCode::kLimitExceeded, "answer of the server: " + what}; }

}  // namespace

RespReader::RespReader(ByteStream& stream, const RespLimits& limits)
    : stream_(stream), limits_(limits), buffer_(kBufferBytes) {}

Result<RespValue> RespReader::read(const TimeLimits& time, std::span<std::byte> room) {
  Budget left{limits_.max_text_bytes, limits_.max_elements, limits_.max_pushes};
  return read_value(time, room, left, 0);
}

// Receives more bytes. REQUIRES: all buffered bytes are used.
Status RespReader::fill(const TimeLimits& time) {
  TRY_ASSIGN(const size_t n, stream_.receive(buffer_, time));
  if (n == 0) return {ErrorCode::kTruncated, "the server closed the connection"};
  begin_ = 0;
  end_ = n;
  return {};
}

Status RespReader::read_line(const TimeLimits& time) {
  line_.clear();
  for (;;) {
    if (begin_ == end_) TRY(fill(time));
    const auto* first = reinterpret_cast<const char*>(buffer_.data()) + begin_;
    const auto* newline = static_cast<const char*>(std::memchr(first, '\n', end_ - begin_));
    const size_t n = newline == nullptr ? end_ - begin_ : static_cast<size_t>(newline - first) + 1;
    if (line_.size() + n > limits_.max_line_bytes) {
      return too_large("a line has more than " + std::to_string(limits_.max_line_bytes) + " bytes");
    }
    line_.append(first, n);
    begin_ += n;
    if (newline != nullptr) break;
  }
  if (!line_.ends_with("\r\n")) return bad_answer("a line does not end with CR LF");
  line_.resize(line_.size() - 2);
  if (line_.empty()) return bad_answer("an empty line");
  if (line_.find('\r') != line_.npos) return bad_answer("CR within a line");
  return {};
}

Result<int64_t> RespReader::line_number() const {
  int64_t number = 0;
  const char* end = line_.data() + line_.size();
  const auto [stop, error] = std::from_chars(line_.data() + 1, end, number);
  if (error != std::errc() || stop != end) return bad_answer("not an integer: " + in_quotes(line_));
  return number;
}

Status RespReader::read_bytes(const TimeLimits& time, std::span<std::byte> out) {
  while (!out.empty()) {
    if (begin_ == end_) {
      if (out.size() >= buffer_.size()) {  // without a copy
        TRY_ASSIGN(const size_t n, stream_.receive(out, time));
        if (n == 0) return {ErrorCode::kTruncated, "the server closed the connection within an answer"};
        out = out.subspan(n);
        continue;
      }
      TRY(fill(time));
    }
    const size_t n = std::min(out.size(), end_ - begin_);
    std::memcpy(out.data(), buffer_.data() + begin_, n);
    begin_ += n;
    out = out.subspan(n);
  }
  return {};
}

Status RespReader::read_line_end(const TimeLimits& time) {
  std::array<std::byte, 2> end;
  TRY(read_bytes(time, end));
  if (end != std::array{std::byte{'\r'}, std::byte{'\n'}}) return bad_answer("a string is longer than its length");
  return {};
}

Result<RespValue> RespReader::read_bulk(const TimeLimits& time, std::span<std::byte> room, Budget& left) {
  const bool is_verbatim = line_[0] == '=';
  TRY_ASSIGN(const int64_t length, line_number());
  if (length == -1 && !is_verbatim) return RespValue{};
  if (length < 0) return bad_answer("a length of " + std::to_string(length));
  const auto n = static_cast<uint64_t>(length);
  const size_t most = room.empty() ? left.text_bytes : room.size();
  if (n > most) {
    return too_large("a value of " + std::to_string(n) + " bytes, allowed: " + std::to_string(most));
  }
  RespValue value;
  if (!room.empty() && !is_verbatim) {
    value.kind = Kind::kInRoom;
    value.n_bytes = n;
    TRY(read_bytes(time, room.first(n)));
  } else {
    value.kind = Kind::kBytes;
    if (n > left.text_bytes) return too_large("its texts are too long");
    left.text_bytes -= n;
    value.text.resize(n);
    TRY(read_bytes(time, std::as_writable_bytes(std::span(value.text))));
    if (is_verbatim) {  // "txt:" or "mkd:", then the text
      if (n < 4 || value.text[3] != ':') return bad_answer("a verbatim string without a format");
      value.text.erase(0, 4);
    }
  }
  TRY(read_line_end(time));
  return value;
}

Result<RespValue> RespReader::read_list(const TimeLimits& time, uint64_t n_elements, Budget& left, size_t depth) {
  RespValue list;
  list.kind = Kind::kList;
  for (uint64_t i = 0; i < n_elements; ++i) {
    TRY_ASSIGN(RespValue element, read_value(time, {}, left, depth + 1));
    list.elements.push_back(std::move(element));
  }
  return list;
}

// Reads a list, a map, a push or an attribute, whose line is in line_. Returns nothing for the latter two: a push is a
// message that is not an answer, and an attribute describes the answer that follows it.
Result<std::optional<RespValue>> RespReader::read_aggregate(const TimeLimits& time, Budget& left, size_t depth) {
  const char type = line_[0];
  TRY_ASSIGN(const int64_t length, line_number());
  if (length == -1 && type == '*') return std::optional(RespValue());
  if (length < 0) return bad_answer("a length of " + std::to_string(length));
  const uint64_t size_of_element = type == '%' || type == '|' ? 2 : 1;
  if (static_cast<uint64_t>(length) > left.elements / size_of_element) {
    return too_large(std::to_string(length) + " elements, allowed: " + std::to_string(limits_.max_elements));
  }
  const uint64_t n = static_cast<uint64_t>(length) * size_of_element;
  left.elements -= n;
  if (type != '>' && type != '|') {
    TRY_ASSIGN(RespValue list, read_list(time, n, left, depth));
    return std::optional(std::move(list));
  }
  if (type == '>' && depth > 0) return bad_answer("a push within an answer");
  if (left.pushes == 0) return too_large("too many pushes and attributes");
  --left.pushes;
  TRY(read_list(time, n, left, depth).status());
  return std::optional<RespValue>();
}

// Reads a value that is one line, which is in line_.
Result<RespValue> RespReader::read_simple(Budget& left) {
  RespValue value;
  switch (line_[0]) {
    case '+':
    case ',':
    case '(':
    case '-':
      if (line_.size() - 1 > left.text_bytes) return too_large("its texts are too long");
      left.text_bytes -= line_.size() - 1;
      value.kind = line_[0] == '-' ? Kind::kError : Kind::kText;
      value.text = line_.substr(1);
      return value;
    case '#':
      if (line_ != "#t" && line_ != "#f") return bad_answer("not a boolean: " + in_quotes(line_));
      value.kind = Kind::kInteger;
      value.integer = line_ == "#t" ? 1 : 0;
      return value;
    case '_':
      if (line_.size() != 1) return bad_answer("not a null: " + in_quotes(line_));
      return value;
    case ':': break;
    default: return bad_answer("unknown type in " + in_quotes(line_));
  }
  value.kind = Kind::kInteger;
  TRY_ASSIGN(value.integer, line_number());
  return value;
}

Result<RespValue> RespReader::read_value(const TimeLimits& time, std::span<std::byte> room, Budget& left,
                                         size_t depth) {
  if (depth > limits_.max_depth) return too_large("lists within lists within lists");
  for (;;) {
    TRY(read_line(time));
    const char type = line_[0];
    if (type == '$' || type == '=') return read_bulk(time, room, left);
    if (type == '!') {
      TRY_ASSIGN(RespValue value, read_bulk(time, {}, left));
      if (value.kind == Kind::kNull) return bad_answer("an error without a text");
      value.kind = Kind::kError;
      return value;
    }
    if (std::string_view("*~%>|").find(type) == std::string_view::npos) return read_simple(left);
    TRY_ASSIGN(std::optional<RespValue> value, read_aggregate(time, left, depth));
    if (value) return *std::move(value);
  }
}

}  // namespace ibid::net
