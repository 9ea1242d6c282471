#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "bench/lab/report.h"
#include "tests/apps/bench_figures.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Spread, InterpolatesQuartilesBetweenSamples) {
  const Spread spread = spread_of({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(spread.q1, 1.75);
  EXPECT_DOUBLE_EQ(spread.median, 2.5);
  EXPECT_DOUBLE_EQ(spread.q3, 3.25);
  EXPECT_DOUBLE_EQ(spread_of({7}).q1, 7);
  EXPECT_DOUBLE_EQ(spread_of({7}).q3, 7);
}

TEST(PrefillStep, FindsTheLargestDropOfTheRateBetweenAdjacentLengths) {
  const std::vector<Figure> figures = {figure_of("prefill", {64}, 900), figure_of("prefill", {8}, 500),
                                       figure_of("prefill", {63}, 1000), figure_of("decode", {0}, 1),
                                       figure_of("prefill", {512}, 1100)};
  const PrefillStep step = worst_prefill_step(figures);
  EXPECT_EQ(step.from, 63);
  EXPECT_EQ(step.to, 64);
  EXPECT_DOUBLE_EQ(step.ratio, 0.9);
}

TEST(PrefillStep, DropIsBeyondTheSpreadIfTheQuartilesDoNotOverlap) {
  Figure shorter = figure_of("prefill", {63}, 1000), longer = figure_of("prefill", {64}, 900);
  shorter.value = {890, 1000, 1010};
  longer.value = {880, 900, 905};
  EXPECT_FALSE(worst_prefill_step(std::vector<Figure>{shorter, longer}).beyond_spread);
  longer.value.q3 = 889;
  EXPECT_TRUE(worst_prefill_step(std::vector<Figure>{shorter, longer}).beyond_spread);
}

TEST(PrefillStep, NoStepIsReportedForFewerThanTwoLengths) {
  EXPECT_EQ(worst_prefill_step(std::vector<Figure>{figure_of("prefill", {8}, 500)}).from, 0);
}

TEST(RivalLines, BestValueIsTheHighestRateOrTheLowestTime) {
  const std::vector<Rival> rivals = rivals_of(
      "{\"engine\":\"a\",\"flash\":\"0\",\"what\":\"decode\",\"depth\":1024,\"tps\":90.5}\n"
      "\n"
      "{\"engine\":\"a\",\"flash\":\"1\",\"what\":\"decode\",\"depth\":1024,\"tps\":120,\"later\":{\"x\":[1]}"
      "}\r\n"
      "{\"engine\":\"b\",\"what\":\"decode\",\"depth\":1024,\"tps\":60}\n"
      "{\"engine\":\"a\",\"what\":\"turn\",\"history\":0,\"n\":44,\"ttft_ms\":200}\n"
      "{\"engine\":\"a\",\"what\":\"turn\",\"history\":0,\"n\":44,\"ttft_ms\":150}");
  ASSERT_EQ(rivals.size(), 2);
  EXPECT_EQ(rivals[0].engine, "a");
  EXPECT_EQ(rivals[0].value_for(decode_at(1024, 1)), 120);
  EXPECT_EQ(rivals[0].ratio_for(decode_at(1024, 300)), 2.5);
  EXPECT_EQ(rivals[1].ratio_for(decode_at(1024, 300)), 5);
  EXPECT_EQ(rivals[0].ratio_for(figure_of("turn", {0, 44}, 50)), 3);  // less is better: 150 / 50
}

TEST(RivalLines, FiguresOfDifferentWorkAreNotCompared) {
  const std::vector<Rival> rivals = rivals_of(
      "{\"what\":\"turn\",\"history\":1024,\"n\":44,\"ttft_ms\":200}\n{\"what\":\"prefill\",\"n\":44,\"tps\":"
      "1}");
  ASSERT_EQ(rivals.size(), 1);
  EXPECT_TRUE(rivals[0].ratio_for(figure_of("turn", {1024, 44}, 1)));
  EXPECT_FALSE(rivals[0].ratio_for(figure_of("turn", {1024, 32}, 1)));
  EXPECT_FALSE(rivals[0].ratio_for(figure_of("turn", {0, 44}, 1)));
  EXPECT_FALSE(rivals[0].ratio_for(decode_at(44, 1)));
}

TEST(RivalLines, LinesOfUnknownKindsAreSkipped) {
  const std::vector<Rival> rivals =
      rivals_of("{\"what\":\"about\",\"date\":\"x\"}\n{\"what\":\"load\",\"ms\":365.5,\"system\":\"AVX512 = 1\"}\n");
  ASSERT_EQ(rivals.size(), 1);
  EXPECT_EQ(rivals[0].value_for(figure_of("load", {}, 1)), 365.5);
}

struct BadLine {
  const char* text;
  ErrorCode code;
  const char* names;
};

TEST(RivalLines, ErrorsNameFileAndLine) {
  const BadLine lines[] = {
      {"{\"what\":\"decode\",\"depth\":0,\"tps\":", ErrorCode::kBadHeader, ""},
      {"tg128 | 211.4 t/s", ErrorCode::kBadHeader, ""},
      {"[1,2]", ErrorCode::kBadType, "not an object"},
      {"{\"tps\":5}", ErrorCode::kMissingKey, "what"},
      {"{\"what\":7}", ErrorCode::kBadType, "what"},
      {"{\"what\":\"load\",\"ms\":1,\"engine\":3}", ErrorCode::kBadType, "engine"},
      {"{\"what\":\"decode\",\"tps\":5}", ErrorCode::kMissingKey, "depth"},
      {"{\"what\":\"decode\",\"depth\":-1,\"tps\":5}", ErrorCode::kBadNumber, "depth"},
      {"{\"what\":\"decode\",\"depth\":1.5,\"tps\":5}", ErrorCode::kBadNumber, "depth"},
      {"{\"what\":\"decode\",\"depth\":0}", ErrorCode::kMissingKey, "tps"},
      {"{\"what\":\"decode\",\"depth\":0,\"tps\":\"5\"}", ErrorCode::kBadType, "tps"},
      {"{\"what\":\"decode\",\"depth\":0,\"tps\":0}", ErrorCode::kBadNumber, "tps"},
      {"{\"what\":\"decode\",\"depth\":0,\"tps\":1e400}", ErrorCode::kBadNumber, ""},
  };
  for (const BadLine& line : lines) {
    const std::string text = "{\"what\":\"load\",\"ms\":1}\n\n" + std::string(line.text) + "\n";
    const Result<std::vector<Rival>> rivals = parse_rival_lines(text, "some/rival.jsonl");
    ASSERT_FALSE(rivals.ok()) << line.text;
    EXPECT_EQ(rivals.status().code(), line.code) << line.text << ": " << rivals.status().to_string();
    EXPECT_THAT(rivals.status().message(), StartsWith("some/rival.jsonl line 3")) << line.text;
    EXPECT_THAT(rivals.status().message(), HasSubstr(line.names)) << line.text;
  }
}

TEST(RivalLines, FileWithoutComparableLinesIsAnError) {
  for (const char* text : {"", "\n \n", "{\"what\":\"about\"}\n"}) {
    const Result<std::vector<Rival>> rivals = parse_rival_lines(text, "empty.jsonl");
    ASSERT_FALSE(rivals.ok()) << text;
    EXPECT_EQ(rivals.status().code(), ErrorCode::kMissingKey);
    EXPECT_THAT(rivals.status().message(), StartsWith("empty.jsonl: "));
  }
  const Result<std::vector<Rival>> missing = read_rival_file(system_file_ops(), "/no/such/file.jsonl");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), ErrorCode::kNotFound);
}

TEST(RivalLines, ReadsJsonLinesWrittenByIbid) {
  BenchSetup setup;
  setup.n_threads = 2;
  const std::string line = json_line(setup, decode_at(1024, 175.9), {});
  const std::vector<Rival> rivals = rivals_of(line);
  ASSERT_EQ(rivals.size(), 1);
  EXPECT_EQ(rivals[0].engine, "ibid");
  EXPECT_EQ(rivals[0].ratio_for(decode_at(1024, 175.9)), 1);
}

TEST(JsonLine, LineHasSharedFieldsAndRivalResults) {
  BenchSetup setup;
  setup.model = "a.gguf";
  setup.n_threads = 2;
  setup.kv = "f16";
  const std::vector<Rival> rivals = rivals_of("{\"engine\":\"x\",\"what\":\"decode\",\"depth\":1024,\"tps\":100}");
  const Result<Json> line = parse_json(json_line(setup, decode_at(1024, 250.123456), rivals), "line");
  ASSERT_TRUE(line.ok());
  EXPECT_EQ((*line)["engine"], "ibid");
  EXPECT_EQ((*line)["what"], "decode");
  EXPECT_EQ((*line)["depth"], 1024);
  EXPECT_EQ((*line)["tps"], 250.12);
  EXPECT_EQ((*line)["threads"], 2);
  EXPECT_EQ((*line)["gbps"], 30);
  EXPECT_EQ((*line)["peak_percent"], 50);
  EXPECT_EQ((*line)["against"]["x"]["tps"], 100);
  EXPECT_NEAR((*line)["against"]["x"]["ratio"], 2.5, 0.01);
}

class ResultsFile : public testing::Test {
 protected:
  ResultsFile() {
    setup_.date = "2026-01-31";
    setup_.commit = "abc1234";
    setup_.machine = "A \"fast\" CPU, 2 CPUs";
    setup_.model = "a.gguf";
    setup_.n_threads = 2;
    setup_.kv = "f16";
    setup_.numerics = "exact";
    setup_.isa = "avx512";
    setup_.command = "ibid bench a.gguf --what prefill,decode";
  }
  TempDir dir_;
  BenchSetup setup_;
};

TEST_F(ResultsFile, ResultsFileIsCreatedAndAppendedTo) {
  const std::string path = dir_.file("cpu.csv");
  const std::vector<Figure> figures = {decode_at(1024, 300), figure_of("turn", {1024, 44}, 57.4)};
  ASSERT_TRUE(append_to_csv(system_file_ops(), path, setup_, figures).ok());
  ASSERT_TRUE(append_to_csv(system_file_ops(), path, setup_, std::span(figures).first(1)).ok());
  const std::string decode =
      "2026-01-31,abc1234,\"A \"\"fast\"\" CPU, 2 CPUs\",ibid,a.gguf,2,f16,exact "
      "avx512,decode,1024,300.0,tok/s,290.0,"
      "305.0,50.0,\"ibid bench a.gguf --what prefill,decode\"\n";
  const std::string turn =
      "2026-01-31,abc1234,\"A \"\"fast\"\" CPU, 2 CPUs\",ibid,a.gguf,2,f16,exact "
      "avx512,turn,1024/44,57.4,ms,57.4,57.4,,"
      "\"ibid bench a.gguf --what prefill,decode\"\n";
  EXPECT_EQ(read_whole_file(path), csv_header() + decode + turn + decode);
}

TEST_F(ResultsFile, NewFileHasUmaskPermissionsAndExistingOneKeepsIts) {
  const mode_t before = ::umask(022);
  const std::string path = dir_.file("cpu.csv");
  ASSERT_TRUE(append_to_csv(system_file_ops(), path, setup_, std::vector<Figure>{decode_at(0, 1)}).ok());
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0644u);
  // Replacing an existing file keeps its permissions.
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  ASSERT_TRUE(append_to_csv(system_file_ops(), path, setup_, std::vector<Figure>{decode_at(0, 1)}).ok());
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  ::umask(before);
}

TEST_F(ResultsFile, UnwritablePathIsAnError) {
  const Status status =
      append_to_csv(system_file_ops(), "/no/such/folder/cpu.csv", setup_, std::vector<Figure>{decode_at(0, 1)});
  EXPECT_EQ(status.code(), ErrorCode::kIo);
  EXPECT_THAT(status.message(), HasSubstr("/no/such/folder/cpu.csv"));
}

TEST_F(ResultsFile, FileWithAnotherHeaderIsNotChanged) {
  const std::string path = dir_.write("cpu.csv", "date,value\n1,2\n");
  const Status status = append_to_csv(system_file_ops(), path, setup_, std::vector<Figure>{decode_at(0, 1)});
  EXPECT_EQ(status.code(), ErrorCode::kMismatch) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr(path));
  EXPECT_EQ(read_whole_file(path), "date,value\n1,2\n");
}

}  // namespace
}  // namespace ibid
