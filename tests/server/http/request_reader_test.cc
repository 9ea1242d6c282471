#include "server/http/request_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

namespace ibid::http {
namespace {

using Progress = RequestReader::Progress;

// Result of reading: status of the refusal, 200 for a complete request, 0 if more bytes are needed.
struct Outcome {
  int status = 0;
  RequestHead head = {};
  std::string body = {};
  std::string left = {};  // bytes of the next request
};

// Passes `bytes` to the reader in pieces of that size.
Outcome read_in_pieces(std::string_view bytes, size_t piece, size_t max_body = 1000) {
  RequestReader reader({.max_header_bytes = 2000, .max_body_bytes = max_body});
  std::string ahead;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    ahead += bytes.substr(at, piece);
    for (bool again = true; again;) {
      size_t n_taken = 0;
      const Progress progress = reader.read(ahead, n_taken);
      ahead.erase(0, n_taken);
      again = progress == Progress::kHead;
      if (progress == Progress::kRefused) return {.status = reader.refusal().status};
      if (progress == Progress::kWhole) {
        ahead += bytes.substr(std::min(bytes.size(), at + piece));
        return {200, reader.head(), reader.take_body(), ahead};
      }
    }
  }
  return {};
}

int status_of_bytes(std::string_view bytes) {
  const int whole = read_in_pieces(bytes, bytes.size()).status;
  EXPECT_EQ(read_in_pieces(bytes, 1).status, whole);
  EXPECT_EQ(read_in_pieces(bytes, 7).status, whole);
  return whole;
}

std::string head(std::string_view more, std::string_view line = "POST / HTTP/1.1") {
  return std::string(line) + "\r\nHost: x\r\n" + std::string(more) + "\r\n";
}

TEST(RequestReaderTest, ReadsHeadAndBody) {
  const std::string bytes = "POST /a%20b?q=%2F HTTP/1.1\r\nHost: h:80\r\nContent-Length: 5\r\nX-A: 1 \r\n\r\nhelloGET";
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    const Outcome outcome = read_in_pieces(bytes, piece);
    ASSERT_EQ(outcome.status, 200) << piece;
    EXPECT_EQ(outcome.head.method, "POST");
    EXPECT_EQ(outcome.head.target.path, "/a b");
    EXPECT_EQ(outcome.head.target.query, "q=%2F");
    EXPECT_EQ(outcome.head.host, "h:80");
    EXPECT_TRUE(outcome.head.keep_alive);
    EXPECT_EQ(outcome.body, "hello");
    EXPECT_EQ(outcome.left, "GET");
  }
}

TEST(RequestReaderTest, ReadsChunksInPiecesOfAnySize) {
  const std::string bytes =
      head("Transfer-Encoding: chunked\r\n") + "3\r\na\r\n\r\n1;x=\"y\"\r\nb\r\n0\r\nX: y\r\n\r\nrest";
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    const Outcome outcome = read_in_pieces(bytes, piece);
    ASSERT_EQ(outcome.status, 200) << piece;
    EXPECT_EQ(outcome.body, "a\r\nb");
    EXPECT_EQ(outcome.left, "rest");
    EXPECT_EQ(outcome.head.headers.size(), 2u);  // without trailer fields
  }
}

TEST(RequestReaderTest, EmptyChunkedBodyIsComplete) {
  EXPECT_EQ(status_of_bytes(head("Transfer-Encoding: chunked\r\n") + "0\r\n\r\n"), 200);
  EXPECT_EQ(status_of_bytes(head("Transfer-Encoding: chunked\r\n") + "000000\r\n\r\n"), 200);
}

TEST(RequestReaderTest, BodyMayEndInCarriageReturn) {
  EXPECT_EQ(read_in_pieces(head("Content-Length: 2\r\n") + "a\r", 1).body, "a\r");
}

TEST(RequestReaderTest, LeadingEmptyLinesAreSkipped) {
  EXPECT_EQ(status_of_bytes("\r\n" + head("")), 200);
  EXPECT_EQ(status_of_bytes("\r\n\r\n" + head("")), 200);
}

// Case 121: a body with two lengths can be read as two different requests.
TEST(RequestReaderTest, LengthTogetherWithChunksIsRefused) {
  EXPECT_EQ(status_of_bytes(head("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n")), 400);
  EXPECT_EQ(status_of_bytes(head("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n")), 400);
  EXPECT_EQ(status_of_bytes(head("Content-Length: 3\r\nContent-Length: 3\r\n")), 400);
  EXPECT_EQ(status_of_bytes(head("Content-Length: 3, 3\r\n")), 400);
  EXPECT_EQ(status_of_bytes(head("Content-Length: -1\r\n")), 400);
  EXPECT_EQ(status_of_bytes(head("Content-Length: +1\r\n")), 400);
  EXPECT_EQ(status_of_bytes(head("Content-Length: 0x10\r\n")), 400);
  EXPECT_EQ(status_of_bytes(head("Content-Length: 99999999999999999999999\r\n")), 400);
  EXPECT_EQ(status_of_bytes(head("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n")), 400);
  EXPECT_EQ(status_of_bytes(head("Transfer-Encoding: xchunked\r\n")), 415);
  EXPECT_EQ(status_of_bytes(head("Transfer-Encoding: chunked, identity\r\n")), 415);
  EXPECT_EQ(status_of_bytes("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
  EXPECT_EQ(status_of_bytes(head("Transfer-Encoding : chunked\r\n")), 400);
}

// Case 119: a compressed body may be a decompression bomb.
TEST(RequestReaderTest, CompressedBodiesAreRefused) {
  EXPECT_EQ(status_of_bytes(head("Content-Encoding: gzip\r\nContent-Length: 3\r\n")), 415);
  EXPECT_EQ(status_of_bytes(head("Content-Encoding: br\r\nContent-Length: 3\r\n")), 415);
  EXPECT_EQ(status_of_bytes(head("Transfer-Encoding: gzip, chunked\r\n")), 415);
  EXPECT_EQ(status_of_bytes(head("Content-Encoding: identity\r\n")), 200);
}

// Case 118.
TEST(RequestReaderTest, BodyAboveTheLimitIsRefused) {
  EXPECT_EQ(status_of_bytes(head("Content-Length: 1001\r\n")), 413);
  EXPECT_EQ(status_of_bytes(head("Content-Length: 1000000000000\r\n")), 413);
  EXPECT_EQ(status_of_bytes(head("Content-Length: 1000\r\n") + std::string(1000, 'a')), 200);
  EXPECT_EQ(status_of_bytes(head("Transfer-Encoding: chunked\r\n") + "3e9\r\n" + std::string(1001, 'a')), 413);
  EXPECT_EQ(status_of_bytes(head("Transfer-Encoding: chunked\r\n") + "FFFFFFFFFFFFFFFF\r\n"), 413);
  std::string many = head("Transfer-Encoding: chunked\r\n");
  for (int i = 0; i < 1001; ++i) many += "1\r\na\r\n";
  EXPECT_EQ(status_of_bytes(many), 413);
}

// Case 120: invalid chunks, and a chunk without an end.
TEST(RequestReaderTest, InvalidChunksAreRefused) {
  const std::string chunked = head("Transfer-Encoding: chunked\r\n");
  EXPECT_EQ(status_of_bytes(chunked + "x\r\n\r\n"), 400);
  EXPECT_EQ(status_of_bytes(chunked + "-1\r\n\r\n"), 400);
  EXPECT_EQ(status_of_bytes(chunked + "FFFFFFFFFFFFFFFFF\r\n"), 400);
  EXPECT_EQ(status_of_bytes(chunked + "1\r\nab\r\n0\r\n\r\n"), 400);
  EXPECT_EQ(status_of_bytes(chunked + "1\r\na"), 0);
  EXPECT_EQ(status_of_bytes(chunked + "1;" + std::string(3000, 'x')), 431);
  EXPECT_EQ(status_of_bytes(chunked + "0\r\nX: " + std::string(3000, 'x')), 431);
}

// Cases 122 and 123.
TEST(RequestReaderTest, HeadAboveTheLimitIsRefused) {
  EXPECT_EQ(status_of_bytes(head("X: " + std::string(2000, 'a') + "\r\n")), 431);
  EXPECT_EQ(status_of_bytes("GET /" + std::string(2000, 'a')), 431);
  std::string many;
  for (int i = 0; i < 300; ++i) many += "X" + std::to_string(i) + ": 1\r\n";
  EXPECT_EQ(status_of_bytes(head(many)), 431);
  std::string short_ones;
  for (int i = 0; i < 200; ++i) short_ones += "a:\r\n";
  EXPECT_EQ(status_of_bytes(head(short_ones)), 431);
}

// Case 126: another protocol is refused before its first line ends.
TEST(RequestReaderTest, BytesOfAnotherProtocolAreRefusedAtOnce) {
  EXPECT_EQ(status_of_bytes("\x16\x03\x01\x02"), 400);
  EXPECT_EQ(status_of_bytes("\x80\x2e"), 400);
  EXPECT_EQ(status_of_bytes("get / HTTP/1.1"), 400);
  EXPECT_EQ(status_of_bytes(" GET / HTTP/1.1"), 400);
  EXPECT_EQ(status_of_bytes("*1\r\n$4\r\nPING\r\n"), 400);
  EXPECT_EQ(status_of_bytes("AVERYLONGMETHODNAMEINDEED"), 400);
  EXPECT_EQ(status_of_bytes(std::string_view("\0\0\0\0", 4)), 400);
  EXPECT_EQ(status_of_bytes("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 400);
}

TEST(RequestReaderTest, NonHttpLinesAreRefused) {
  EXPECT_EQ(status_of_bytes(head("", "GET / HTTP/2.0")), 400);
  EXPECT_EQ(status_of_bytes(head("", "GET  / HTTP/1.1")), 400);
  EXPECT_EQ(status_of_bytes(head("", "GET /")), 400);
  EXPECT_EQ(status_of_bytes("GET / HTTP/1.1\nHost: x\n\n\r\n\r\n"), 400);
  EXPECT_EQ(status_of_bytes(head(std::string("X: a\0b\r\n", 8))), 400);
  EXPECT_EQ(status_of_bytes(head("X Y: a\r\n")), 400);
  EXPECT_EQ(status_of_bytes(head(": a\r\n")), 400);
  EXPECT_EQ(status_of_bytes(head("X: a\x01\r\n")), 400);
}

TEST(RequestReaderTest, ExactlyOneHostIsRequired) {
  EXPECT_EQ(status_of_bytes("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of_bytes("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
  EXPECT_EQ(status_of_bytes("GET / HTTP/1.0\r\n\r\n"), 200);
  EXPECT_EQ(read_in_pieces("GET http://a:1/x HTTP/1.1\r\nHost: b\r\n\r\n", 99).head.host, "a:1");
}

TEST(RequestReaderTest, OnlyExpect100ContinueIsSupported) {
  const Outcome outcome = read_in_pieces(head("Expect: 100-continue\r\nContent-Length: 1\r\n") + "a", 1);
  EXPECT_EQ(outcome.status, 200);
  EXPECT_TRUE(outcome.head.expects_continue);
  EXPECT_EQ(status_of_bytes(head("Expect: 200-ok\r\n")), 417);
  EXPECT_FALSE(read_in_pieces(head("Expect: 100-continue\r\n"), 99).head.expects_continue);
}

TEST(RequestReaderTest, KeepAliveFollowsVersionAndConnectionHeader) {
  EXPECT_TRUE(read_in_pieces(head(""), 1).head.keep_alive);
  EXPECT_FALSE(read_in_pieces(head("Connection: close\r\n"), 1).head.keep_alive);
  EXPECT_FALSE(read_in_pieces("GET / HTTP/1.0\r\n\r\n", 1).head.keep_alive);
  EXPECT_TRUE(read_in_pieces("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 1).head.keep_alive);
}

TEST(RequestTargetTest, PathsAreDecodedStrictly) {
  EXPECT_EQ(parse_target("/a%2Fb%20c")->path, "/a/b c");
  EXPECT_EQ(parse_target("/%C3%A4?%zz")->path, "/ä");
  EXPECT_EQ(parse_target("/x?a?b")->query, "a?b");
  EXPECT_EQ(parse_target("http://h:1?q")->path, "/");
  EXPECT_EQ(parse_target("http://h:1?q")->authority, "h:1");
  EXPECT_EQ(parse_target("*")->path, "*");
  for (const char* bad : {"", "x", "/%", "/%2", "/%zz", "/%00", "/%FF", "/%C0%80", "/%ED%A0%80", "http://", "http:///x",
                          "ftp://h/x", "/a#b", "h:80"}) {
    EXPECT_FALSE(parse_target(bad)) << bad;
  }
}

TEST(RequestReaderTest, TakesOverIdsOfLimitedLengthAndCharacters) {
  const std::string trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const auto read = [](const std::string& headers) {
    const Outcome outcome = read_in_pieces(head(headers, "GET / HTTP/1.1"), 1000);
    EXPECT_EQ(outcome.status, 200) << headers;
    return outcome.head;
  };
  const RequestHead both = read("X-REQUEST-ID:  7F000001:A_b-1.2/3+4=@,~ \r\ntraceparent: " + trace + "\r\n");
  EXPECT_EQ(both.request_id, "7F000001:A_b-1.2/3+4=@,~");
  EXPECT_EQ(both.trace_parent, trace);
  EXPECT_EQ(read("").request_id, "");
  EXPECT_EQ(read("x-request-id: " + std::string(128, 'a') + "\r\n").request_id, std::string(128, 'a'));
  EXPECT_EQ(read("x-request-id: a\r\nx-request-id: b\r\n").request_id, "a");
  for (const std::string& bad : {std::string(129, 'a'), std::string(), std::string("a b"), std::string("a\"b"),
                                 std::string("a\\b"), std::string("<a>"), std::string("a{}"), std::string("\xc3\xa9"),
                                 std::string("a\tb"), std::string("a;b"), std::string("a%0a")}) {
    EXPECT_EQ(read("x-request-id: " + bad + "\r\n").request_id, "") << bad;
  }
  const auto changed = [&](size_t at, std::string_view with) {
    std::string other = trace;
    return other.replace(at, with.size(), with);
  };
  for (const std::string& bad :
       {trace + "0", trace.substr(1), changed(0, "ff"), changed(2, "_"), changed(3, "G"), changed(3, "A"),
        changed(3, std::string(32, '0')), changed(36, std::string(16, '0')), changed(54, "\""), std::string("x")}) {
    EXPECT_EQ(read("traceparent: " + bad + "\r\n").trace_parent, "") << bad;
  }
  EXPECT_EQ(read("traceparent: " + changed(0, "01") + "\r\n").trace_parent, changed(0, "01"));
}

}  // namespace
}  // namespace ibid::http
