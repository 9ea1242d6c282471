#include "apps/bench/serve_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/json_limits.h"
#include "templates/message.h"
#include "tests/apps/command_line_fixture.h"
#include "tests/apps/python_server.h"
#include "tests/server/talking_model.h"

namespace ibid {
namespace {

using testing::HasSubstr;

TEST(ServeLoad, TextsDependOnTheSeedOnly) {
  const LoadShape shape{.users = 2, .system_words = 20, .history_words = 10, .question_words = 5};
  EXPECT_EQ(first_messages(shape, 1), first_messages(shape, 1));
  EXPECT_EQ(first_messages(shape, 0)[0], first_messages(shape, 1)[0]) << "the system message is shared";
  EXPECT_NE(first_messages(shape, 0)[1], first_messages(shape, 1)[1]);
  LoadShape other = shape;
  other.seed = 2;
  EXPECT_NE(first_messages(other, 0)[0], first_messages(shape, 0)[0]);
  std::set<std::string> questions;
  for (size_t user = 0; user < 3; ++user) {
    for (size_t round = 0; round < 5; ++round) questions.insert(question_of(shape, user, round));
  }
  EXPECT_EQ(questions.size(), 15u);
  const Json messages = first_messages(shape, 0);
  const std::string* system = content_of(messages[0]);
  EXPECT_EQ(std::count(system->begin(), system->end(), ' ') + 1, 20);
  EXPECT_EQ(first_messages({.system_words = 0, .history_words = 0}, 0).size(), 1u);
}

TEST(ServeLoad, QuantilesAreInterpolated) {
  EXPECT_EQ(at_share({}, 0.5), 0);
  EXPECT_EQ(at_share({3}, 0.99), 3);
  EXPECT_EQ(at_share({4, 1, 2, 3}, 0.5), 2.5);
  EXPECT_NEAR(at_share({0, 100}, 0.9), 90, 1e-9);
}

TEST(ServeBench, ReportsAnsweredAndFailedRequests) {
  LoadResult result;
  result.wall_seconds = 2;
  result.samples.push_back(
      {.user = 0, .round = 0, .first_ms = 40, .token_ms = 5, .n_prompt = 100, .n_cached = 0, .n_completion_tokens = 8});
  result.samples.push_back({.user = 0,
                            .round = 1,
                            .first_ms = 10,
                            .token_ms = 7,
                            .n_prompt = 120,
                            .n_cached = 100,
                            .n_completion_tokens = 6});
  result.samples.push_back({.user = 1, .round = 0, .failure = "busy,\n\"later\""});
  const LoadShape shape{.users = 2, .rounds = 2};
  const std::string table = table_of(result, shape);
  EXPECT_THAT(table, HasSubstr("first token, ms               25.0"));
  EXPECT_THAT(table, HasSubstr("of later rounds             10.0"));
  EXPECT_THAT(table, HasSubstr("14 tokens in 2.0 s: 7.0 per second"));
  EXPECT_THAT(table, HasSubstr("6 to 8"));
  EXPECT_THAT(table, HasSubstr("100, 45.5 %"));
  EXPECT_THAT(table, HasSubstr("1 of 3"));
  EXPECT_THAT(table, HasSubstr("1 times: busy,\\n\"later\""));
  std::istringstream lines(request_lines(result, "a\"b"));
  std::vector<Json> requests;
  for (std::string line; std::getline(lines, line);) requests.push_back(*parse_json(line, "line"));
  ASSERT_EQ(requests.size(), 3u);
  for (const Json& request : requests) EXPECT_EQ(request["engine"], "a\"b");
  EXPECT_EQ(requests[1]["n_cached"], 100);
  EXPECT_FALSE(requests[1].contains("failure"));
  EXPECT_EQ(requests[2]["user"], 2);
  EXPECT_EQ(requests[2]["round"], 1);
  EXPECT_EQ(requests[2]["failure"], "busy,\n\"later\"");
  for (const Figure& figure : figures_of(result, shape)) ASSERT_NE(figure.kind, nullptr);
  result.samples[0].n_cached.reset();
  EXPECT_THAT(table_of(result, shape), HasSubstr("of them cached         not reported by the server"));
}

TEST(ServeBench, RecognizesLocalAddresses) {
  for (const char* url : {"http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "unix:/x"}) {
    EXPECT_TRUE(is_this_machine(*parse_server_address(url))) << url;
  }
  EXPECT_FALSE(is_this_machine(*parse_server_address("http://example.org")));
}

constexpr const char* kLoad =
    " --what serve --users 2 --rounds 3 --system-words 12 --history-words 6 --question-words 4 --answer-tokens 4"
    " --think 0 --stagger 0.01";

TEST_F(CommandLine, BenchMeasuresAServerThatBenchStarts) {
  const std::string model = dir_.file("talker.gguf");
  write_talking_model(model);
  const Outcome outcome = run("bench " + model + kLoad + " --threads 1 --requests " + dir_.file("requests.jsonl") +
                              " --commit c --csv " + dir_.file("rows.csv"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("client and server share the"));
  EXPECT_THAT(outcome.out, HasSubstr("failed requests          0 of 6"));
  EXPECT_THAT(outcome.out, HasSubstr("of each answer           4 to 4")) << "ignore_eos fixes the length";
  std::istringstream requests(read_whole_file(dir_.file("requests.jsonl")));
  std::string line;
  size_t n_lines = 0;
  while (std::getline(requests, line)) ++n_lines;
  EXPECT_EQ(n_lines, 6u);
  const std::string rows = read_whole_file(dir_.file("rows.csv"));
  EXPECT_THAT(rows, HasSubstr("serve_first_p99,2/3,"));
  EXPECT_THAT(rows, HasSubstr("serve_said_least,2/3,4.00,"));
  EXPECT_THAT(rows, HasSubstr("serve_said_most,2/3,4.00,"));
}

TEST_F(CommandLine, BenchMeasuresTheServerAtAUrl) {
  PythonServer server({IBID_CHAT_SERVER, dir_.file("log")});
  const Outcome outcome = run(std::string("bench") + kLoad + " --json --engine other --url " + server.url());
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::set<std::string> seen;
  for (std::string line; std::getline(lines, line);) {
    const Result<Json> figure = parse_json(line, "figure");
    ASSERT_TRUE(figure.ok()) << line;
    EXPECT_EQ((*figure)["engine"], "other");
    EXPECT_EQ((*figure)["model"], "parrot");
    EXPECT_EQ((*figure)["users"], 2);
    seen.insert((*figure)["what"]);
    const bool is_cached = (*figure)["what"] == "serve_cached";
    if (is_cached || (*figure)["what"] == "serve_prompt") {
      EXPECT_EQ((*figure)["tokens"], 6 * (is_cached ? 90 : 100));
    }
  }
  EXPECT_EQ(seen.count("serve_rate"), 1u) << outcome.out;
}

// Reasoning is not sent back. It would be prefilled again, and shorten the cached prefix of each turn.
TEST_F(CommandLine, BenchOmitsReasoningFromTheHistoryOfRequests) {
  PythonServer server({IBID_CHAT_SERVER, dir_.file("log")});
  const Outcome outcome = run("bench -m owl" + std::string(kLoad) + " --url " + server.url());
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::string sent = read_whole_file(dir_.file("log"));
  EXPECT_THAT(sent, HasSubstr(R"("role": "assistant")"));
  EXPECT_THAT(sent, testing::Not(HasSubstr("Let me see.")));
}

TEST_F(CommandLine, BenchPassesTheKvBudgetToItsServer) {
  const std::string model = dir_.file("talker.gguf");
  write_talking_model(model);
  const Outcome small = run("bench " + model + kLoad + " --threads 1 --kv-budget 1");
  EXPECT_EQ(small.status, 1);
  EXPECT_THAT(small.err, HasSubstr("the server did not start"));
  EXPECT_EQ(run("bench --what serve --kv-budget 1G --url http://127.0.0.1:1").status, 2);
}

TEST_F(CommandLine, BenchReportsInvalidServerLoadOptions) {
  EXPECT_EQ(run("bench --what serve,decode").status, 2);
  EXPECT_EQ(run("bench --url http://127.0.0.1:1").status, 2);
  EXPECT_EQ(run("bench --what serve --users 0").status, 2);
  const Outcome absent = run("bench --what serve --url http://127.0.0.1:1");
  EXPECT_EQ(absent.status, 1);
  EXPECT_THAT(absent.err, HasSubstr("no server answers at"));
  const Outcome model = run("bench /no/such.gguf --what serve");
  EXPECT_EQ(model.status, 1);
  EXPECT_THAT(model.err, HasSubstr("/no/such.gguf"));
  const Outcome wrong = run("bench " + dir_.write("x.gguf", "nonsense") + " --what serve");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_THAT(wrong.err, HasSubstr("the server did not start"));
}

}  // namespace
}  // namespace ibid
