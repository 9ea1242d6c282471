// Answers of a key-value server, in pieces of any size, with tight limits. The first bytes choose the size of a piece
// and of the caller's room.
#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "net/resp_client.h"
#include "tests/fuzz/script.h"
#include "tests/net/memory_stream.h"

namespace ibid::fuzz {

namespace {

using net::MemoryStream;
using net::RespReader;
using net::RespValue;

constexpr net::RespLimits kRespLimits = {
    .max_line_bytes = 64, .max_text_bytes = 256, .max_elements = 32, .max_depth = 3, .max_pushes = 4};

struct RespReading {
  std::vector<RespValue> values;
  std::vector<std::string> in_rooms;
  Status end;
};

RespReading read_answers(std::string_view bytes, size_t piece_bytes, size_t room_bytes) {
  MemoryStream stream(bytes, piece_bytes);
  RespReader reader(stream, kRespLimits);
  RespReading reading;
  for (;;) {
    std::vector<std::byte> room(room_bytes);
    Result<RespValue> value = reader.read({}, room);
    if (!value.ok()) {
      reading.end = value.status();
      return reading;
    }
    CHECK_LE(value->n_bytes, room.size());
    reading.in_rooms.emplace_back(reinterpret_cast<const char*>(room.data()), value->n_bytes);
    reading.values.push_back(*std::move(value));
  }
}

struct RespSize {
  size_t text_bytes = 0, elements = 0;
};

void measure_value(const RespValue& value, size_t depth, RespSize& size) {
  CHECK_LE(depth, kRespLimits.max_depth);
  CHECK(value.kind == RespValue::Kind::kList || value.elements.empty());
  CHECK(depth == 0 || value.kind != RespValue::Kind::kInRoom);
  size.text_bytes += value.text.size();
  size.elements += value.elements.size();
  for (const RespValue& element : value.elements) measure_value(element, depth + 1, size);
}

// The value as a server of version 3 would send it.
std::string encoded_value(const RespValue& value) {
  const auto sized = [](char type, std::string_view text) {
    return type + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
  };
  switch (value.kind) {
    case RespValue::Kind::kText: return "+" + value.text + "\r\n";
    case RespValue::Kind::kError: return sized('!', value.text);
    case RespValue::Kind::kInteger: return ":" + std::to_string(value.integer) + "\r\n";
    case RespValue::Kind::kBytes:
    case RespValue::Kind::kInRoom: return sized('$', value.text);
    case RespValue::Kind::kNull: return "_\r\n";
    case RespValue::Kind::kList: break;
  }
  std::string text = "*" + std::to_string(value.elements.size()) + "\r\n";
  for (const RespValue& element : value.elements) text += encoded_value(element);
  return text;
}

}  // namespace

void resp(Input input) {
  Script script(input);
  const size_t piece_bytes = 1 + script.below(16), room_bytes = script.byte();
  const std::string_view bytes = text_of(script.rest());
  const RespReading whole = read_answers(bytes, SIZE_MAX, room_bytes),
                    parted = read_answers(bytes, piece_bytes, room_bytes);
  CHECK(whole.values == parted.values && whole.in_rooms == parted.in_rooms);
  CHECK(whole.end.code() == parted.end.code() && !whole.end.message().empty());
  for (const RespValue& value : whole.values) {
    RespSize size;
    measure_value(value, 0, size);
    CHECK_LE(size.text_bytes, kRespLimits.max_text_bytes);
    CHECK_LE(size.elements, kRespLimits.max_elements);
    CHECK(net::status_of(value).ok() == (value.kind != RespValue::Kind::kError));
    if (value.kind == RespValue::Kind::kInRoom) continue;
    const RespReading again = read_answers(encoded_value(value), SIZE_MAX, 0);
    CHECK(again.values.size() == 1 && again.values[0] == value);
  }
}

}  // namespace ibid::fuzz
