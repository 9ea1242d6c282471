#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/json_limits.h"
#include "tests/apps/command_line_fixture.h"

namespace ibid {
namespace {

using testing::HasSubstr;

TEST_F(CommandLine, BenchPrintsALineForEachFigureThatFitsTheContext) {
  const std::string bench = "bench " + tiny_model() + " --rounds 1 --lengths 8,65,2000 --depths 0,64,1000 --json";
  const Outcome outcome = run(bench);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::vector<std::string> seen;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    const Result<Json> figure = parse_json(line, "figure");
    ASSERT_TRUE(figure.ok()) << line;
    EXPECT_EQ((*figure)["engine"], "ibid") << line;
    std::string name = (*figure)["what"];
    for (const char* key : {"n", "depth", "history"}) {
      if (figure->contains(key)) name += " " + std::to_string((*figure)[key].get<int>());
    }
    for (const char* value : {"tps", "ms", "ttft_ms", "peak_mb"}) {
      if (figure->contains(value)) {
        EXPECT_GT((*figure)[value], 0) << line;
      }
    }
    seen.push_back(name);
  }
  EXPECT_THAT(seen, testing::ElementsAre("load", "prefill 8", "prefill 65", "decode 0", "turn 44 0", "decode 64",
                                         "turn 44 64", "memory", "run"));
  // The parts that are left out are reported: sizes above the context of 1,024, and, without a tokenizer, conversation
  // turns.
  EXPECT_THAT(outcome.err, HasSubstr("2000"));
  EXPECT_THAT(outcome.err, HasSubstr("1000"));
  EXPECT_THAT(outcome.err, HasSubstr("turns of a conversation are left out"));
  EXPECT_THAT(outcome.err, HasSubstr("this takes a few seconds"));
}

TEST_F(CommandLine, BenchTableFitsATerminalAndHasALegend) {
  const Outcome outcome = run("bench " + tiny_model() + " --rounds 1 --lengths 8,65 --depths 64");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("decode at depth N: 48 tokens"));
  EXPECT_THAT(outcome.out, HasSubstr("\ndecode at depth 64 "));
  EXPECT_THAT(outcome.out, HasSubstr("prefill rate"));
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 78) << line;
}

TEST_F(CommandLine, BenchReportIsAJsonlFileAndNeedsATokenizer) {
  const std::string bench = "bench " + tiny_model() + " --rounds 1 --what turns --depths 0 ";
  const Outcome other = run(bench + "--report " + dir_.file("out.pdf"));
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("out.pdf does not end in .jsonl"));
  const Outcome without_tokenizer = run(bench + "--report " + dir_.file("out.jsonl"));
  EXPECT_EQ(without_tokenizer.status, 1);
  EXPECT_FALSE(std::filesystem::exists(dir_.file("out.jsonl")));
}

TEST_F(CommandLine, BenchComparesWithRivalLinesAndAppendsResults) {
  const std::string rival =
      dir_.write("rival.jsonl", "{\"engine\":\"slow\",\"what\":\"decode\",\"depth\":0,\"tps\":0.5}\n");
  const std::string bench = "bench " + tiny_model() + " --rounds 1 --what decode --depths 0 --against " + rival;
  const Outcome table = run(bench + " --commit abc --csv " + dir_.file("out.csv"));
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("slow"));
  EXPECT_THAT(table.out, HasSubstr("0.50"));
  EXPECT_THAT(read_whole_file(dir_.file("out.csv")), HasSubstr(",abc,"));
  dir_.write("rival.jsonl", "{\"what\":\"decode\"}\n");
  const Outcome malformed = run(bench);
  EXPECT_EQ(malformed.status, 1);
  EXPECT_TRUE(malformed.out.empty());
  EXPECT_THAT(malformed.err, HasSubstr("rival.jsonl line 1"));
  EXPECT_EQ(run(bench + " --csv " + dir_.file("out.csv")).status, 2);  // --commit is missing
}

}  // namespace
}  // namespace ibid
