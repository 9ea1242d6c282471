#include "server/request_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/json_limits.h"

namespace ibid::serve {
namespace {

TEST(RequestLogTest, LogLineHasSizesCountsAndTimes) {
  const http::ExchangeRecord record{.id = 7,
                                    .method = "POST",
                                    .pattern = "/v1/x/{...}",
                                    .client = "127.0.0.1",
                                    .status = 200,
                                    .n_bytes_in = 3,
                                    .n_bytes_out = 5,
                                    .total_ms = 1.23456,
                                    .figures = {.model = "tiny", .n_prompt = 9, .n_cached = 8, .n_prefilled = 1}};
  const auto line = parse_json(log_line(record, 1234), "line");
  ASSERT_TRUE(line.ok());
  EXPECT_EQ((*line)["time_ms"], 1234);
  EXPECT_EQ((*line)["path"], "/v1/x/{...}");
  EXPECT_EQ((*line)["model"], "tiny");
  EXPECT_EQ((*line)["n_cached"], 8);
  EXPECT_EQ((*line)["total_ms"], 1.235);
  EXPECT_FALSE(line->contains("client_gone"));
}

TEST(RequestLogTest, IgnoredFieldsAreNamedAndUnknownFieldsOnlyCounted) {
  const http::ExchangeRecord record{
      .figures = {.model = "tiny", .ignored = {"tools[1]", "service_tier"}, .n_unknown_fields = 3}};
  const auto line = parse_json(log_line(record, 0), "line");
  EXPECT_EQ((*line)["ignored"], Json::array({"tools[1]", "service_tier"}));
  EXPECT_EQ((*line)["n_unknown_fields"], 3);
  EXPECT_FALSE(parse_json(log_line({.figures = {.model = "tiny"}}, 0), "line")->contains("ignored"));
}

TEST(RequestLogTest, LogLineOfAnUnroutedRequestHasNoPath) {
  const auto line = parse_json(log_line({.id = 1, .method = "other", .status = 400, .client_gone = true}, 0), "line");
  EXPECT_TRUE((*line)["path"].is_null());
  EXPECT_EQ((*line)["client_gone"], true);
  EXPECT_FALSE(line->contains("model"));
}

TEST(RequestLogTest, LineHasTheIdsOfTheClientAndAnUnknownPath) {
  const std::string trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const auto line = parse_json(
      log_line({.id = 1, .request_id = "a-1", .trace_parent = trace, .unknown_path = "/get_load"}, 0), "line");
  EXPECT_EQ((*line)["id"], 1);
  EXPECT_EQ((*line)["request_id"], "a-1");
  EXPECT_EQ((*line)["traceparent"], trace);
  EXPECT_EQ((*line)["unknown_path"], "/get_load");
  const auto other = parse_json(log_line({.id = 1, .pattern = "/v1/models"}, 0), "line");
  for (const char* name : {"request_id", "traceparent", "unknown_path"}) EXPECT_FALSE(other->contains(name)) << name;
}

TEST(RequestLogTest, DestructorWritesQueuedLines) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  {
    RequestLog log(ends[1]);
    for (int i = 0; i < 100; ++i) log.add({.id = static_cast<uint64_t>(i)});
  }
  close(ends[1]);
  std::string all;
  char bytes[4096];
  for (ssize_t n; (n = read(ends[0], bytes, sizeof(bytes))) > 0;) all.append(bytes, static_cast<size_t>(n));
  close(ends[0]);
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 100);
}

// Clients are not blocked although the pipe is not read.
TEST(RequestLogTest, UnreadPipeDoesNotBlockClients) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  {
    RequestLog log(ends[1]);
    for (int i = 0; i < 30'000; ++i) log.add({.id = static_cast<uint64_t>(i), .client = "127.0.0.1"});
    EXPECT_GT(log.n_dropped(), 0u);
    signal(SIGPIPE, SIG_IGN);
    close(ends[0]);  // ends the wait: writing fails now
  }
  close(ends[1]);
}

// The destructor does not block either: lines that are not read within a second are lost.
TEST(RequestLogTest, UnreadPipeDoesNotBlockShutdown) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  {
    RequestLog log(ends[1]);
    for (int i = 0; i < 5'000; ++i) log.add({.id = static_cast<uint64_t>(i), .client = "127.0.0.1"});
  }
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace ibid::serve
