#include "net/resp_reader.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/net/memory_stream.h"

namespace ibid::net {
namespace {

using Kind = RespValue::Kind;

Result<RespValue> read(std::string_view bytes, const RespLimits& limits = {}) {
  MemoryStream stream(bytes);
  return RespReader(stream, limits).read({});
}

RespValue text(Kind kind, std::string text) { return {.kind = kind, .text = std::move(text)}; }
RespValue number(int64_t value) { return {.kind = Kind::kInteger, .integer = value}; }
RespValue list(std::vector<RespValue> elements) { return {.kind = Kind::kList, .elements = std::move(elements)}; }

struct Answer {
  std::string bytes;
  RespValue value;
};

std::vector<Answer> answers() {
  return {
      {"+OK\r\n", text(Kind::kText, "OK")},
      {"+\r\n", text(Kind::kText, "")},
      {"-ERR no\r\n", text(Kind::kError, "ERR no")},
      {"!6\r\nERR\nno\r\n", text(Kind::kError, "ERR\nno")},
      {":0\r\n", number(0)},
      {":-9223372036854775808\r\n", number(INT64_MIN)},
      {"#t\r\n", number(1)},
      {"#f\r\n", number(0)},
      {",1.5e3\r\n", text(Kind::kText, "1.5e3")},
      {"(123456789012345678901234567890\r\n", text(Kind::kText, "123456789012345678901234567890")},
      {"$0\r\n\r\n", text(Kind::kBytes, "")},
      {"$4\r\n\r\n\r\n\r\n", text(Kind::kBytes, "\r\n\r\n")},
      {"=7\r\ntxt:abc\r\n", text(Kind::kBytes, "abc")},
      {"$-1\r\n", {}},
      {"*-1\r\n", {}},
      {"_\r\n", {}},
      {"*0\r\n", list({})},
      {"*2\r\n$1\r\na\r\n*1\r\n:1\r\n", list({text(Kind::kBytes, "a"), list({number(1)})})},
      {"~1\r\n+a\r\n", list({text(Kind::kText, "a")})},
      {"%1\r\n+a\r\n:2\r\n", list({text(Kind::kText, "a"), number(2)})},
      {">2\r\n+message\r\n+x\r\n:7\r\n", number(7)},
      {"|1\r\n+ttl\r\n:9\r\n*1\r\n:7\r\n", list({number(7)})},
  };
}

TEST(RespReader, AnswersOfBothVersionsAreRead) {
  for (const Answer& answer : answers()) {
    const Result<RespValue> value = read(answer.bytes);
    ASSERT_TRUE(value.ok()) << answer.bytes << value.status().to_string();
    EXPECT_EQ(*value, answer.value) << answer.bytes;
  }
}

TEST(RespReader, PiecesOfAnySizeAreReadAlike) {
  std::string all;
  for (const Answer& answer : answers()) all += answer.bytes;
  for (const size_t piece_bytes : {1, 2, 3, 7, 16}) {
    MemoryStream stream(all, piece_bytes);
    RespReader reader(stream);
    for (const Answer& answer : answers()) {
      const Result<RespValue> value = reader.read({});
      ASSERT_TRUE(value.ok()) << piece_bytes << answer.bytes << value.status().to_string();
      EXPECT_EQ(*value, answer.value) << piece_bytes << answer.bytes;
    }
    EXPECT_EQ(reader.read({}).status().code(), ErrorCode::kTruncated);
  }
}

TEST(RespReader, TruncatedAnswersAreErrors) {
  for (const Answer& answer : answers()) {
    for (size_t n = 0; n < answer.bytes.size(); ++n) {
      EXPECT_EQ(read(std::string_view(answer.bytes).substr(0, n)).status().code(), ErrorCode::kTruncated)
          << answer.bytes << n;
    }
  }
}

TEST(RespReader, BytesThatAreNotRespAreRefused) {
  for (const char* bytes : {"\r\n",
                            "OK\r\n",
                            "HTTP/1.1 400 Bad Request\r\n",
                            "+OK\n",
                            "+O\rK\r\n",
                            ":\r\n",
                            ":1x\r\n",
                            ": 1\r\n",
                            ":+1\r\n",
                            ":9223372036854775808\r\n",
                            "$-2\r\n",
                            "$x\r\n",
                            "$1\r\nabc\r\n",
                            "$2\r\na\r\n\r\n",
                            "*-2\r\n",
                            "%-1\r\n",
                            "#x\r\n",
                            "#\r\n",
                            "_x\r\n",
                            "=3\r\nabc\r\n",
                            "=5\r\ntxtab\r\n",
                            "=-1\r\n",
                            "!-1\r\n",
                            "$?\r\n",
                            "*?\r\n",
                            "*1\r\n>1\r\n:1\r\n:1\r\n"}) {
    EXPECT_EQ(read(bytes).status().code(), ErrorCode::kBadHeader) << bytes;
  }
}

TEST(RespReader, SizesAboveALimitAreRefusedBeforeTheirBytesArrive) {
  const RespLimits limits{
      .max_line_bytes = 16, .max_text_bytes = 10, .max_elements = 4, .max_depth = 2, .max_pushes = 2};
  for (const char* bytes :
       {"$9223372036854775807\r\n", "$11\r\n", "=11\r\n", "!11\r\n", "*5\r\n", "*9223372036854775807\r\n", "~5\r\n",
        "%3\r\n", "%4611686018427387904\r\n", "%9223372036854775807\r\n", ">5\r\n", "|3\r\n",
        "*1\r\n*1\r\n*1\r\n:1\r\n",      // depth
        "*2\r\n*3\r\n",                  // elements of all lists together
        "*2\r\n$6\r\nabcdef\r\n$6\r\n",  // texts of all elements together
        "*2\r\n+abcdef\r\n+abcdef\r\n",  //
        ">0\r\n>0\r\n>0\r\n:1\r\n",      // pushes
        "|0\r\n|0\r\n|0\r\n:1\r\n", "+aaaaaaaaaaaaaaaaaaaaaaa"}) {
    EXPECT_EQ(read(bytes, limits).status().code(), ErrorCode::kLimitExceeded) << bytes;
  }
  EXPECT_TRUE(read("$10\r\n0123456789\r\n", limits).ok());
  EXPECT_TRUE(read("*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n", limits).ok());
  EXPECT_TRUE(read("*1\r\n*1\r\n:1\r\n", limits).ok());
  EXPECT_TRUE(read(">0\r\n>0\r\n:1\r\n", limits).ok());
}

TEST(RespReader, BulkStringGoesIntoTheRoom) {
  const std::string value(100'000, 'v');
  const std::string bytes = "$100000\r\n" + value + "\r\n:5\r\n";
  for (const size_t piece_bytes : {1000, 20'000, 1'000'000}) {
    MemoryStream stream(bytes, piece_bytes);
    RespReader reader(stream);
    std::vector<std::byte> room(value.size() + 1);
    const Result<RespValue> read = reader.read({}, room);
    ASSERT_TRUE(read.ok()) << read.status().to_string();
    EXPECT_EQ(read->kind, Kind::kInRoom);
    ASSERT_EQ(read->n_bytes, value.size());
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(room.data()), read->n_bytes), value);
    EXPECT_EQ(reader.read({}, room)->integer, 5) << "other answers are not affected by the room";
  }
  std::vector<std::byte> small(value.size() - 1);
  MemoryStream stream(bytes);
  EXPECT_EQ(RespReader(stream).read({}, small).status().code(), ErrorCode::kLimitExceeded);
}

}  // namespace
}  // namespace ibid::net
