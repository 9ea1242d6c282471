// Time to the first token by history length: the three turns prefill what they claim, and every report has all numbers.
// The times themselves are not tested.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "bench/lab/turn_curve.h"
#include "bench/lab/turn_curve_bench.h"
#include "tests/apps/curve_points.h"
#include "tests/support/fake_model.h"
#include "tests/support/fake_tokenizer.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

constexpr const char* kTemplate =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

TurnCurveBench::EngineFactory factory_on(std::shared_ptr<LanguageModel> model) {
  return [model](const std::string& directory) {
    EngineParts parts;
    parts.model = std::make_unique<SharedModel>(model);
    parts.tokenizer = std::make_unique<FakeTokenizer>();
    parts.chat_template = ChatTemplate::compile(kTemplate).value();
    parts.fingerprint = Fingerprint{};
    parts.cache_directory = directory;
    parts.cache_directory_bytes = 1u << 30;
    return make_engine(std::move(parts));
  };
}

class TurnCurveMeasured : public testing::Test {
 protected:
  TurnCurveMeasured() {
    if (const char* const before = std::getenv("TMPDIR")) before_ = before;
    ::setenv("TMPDIR", scratch_.path().c_str(), 1);
  }
  ~TurnCurveMeasured() override { before_ ? ::setenv("TMPDIR", before_->c_str(), 1) : ::unsetenv("TMPDIR"); }

  Result<TurnCurvePoint> measure(size_t history, size_t rounds) {
    TRY_ASSIGN(const auto bench, TurnCurveBench::create(factory_on(model_), {.rounds = rounds, .message_tokens = 80}));
    EXPECT_FALSE(std::filesystem::is_empty(scratch_.path()));
    return bench->measure(history);
  }

  TempDir scratch_;
  std::optional<std::string> before_;
  std::shared_ptr<FakeModel> model_ = std::make_shared<FakeModel>();
};

TEST_F(TurnCurveMeasured, TurnsPrefillTheExpectedTokens) {
  const Result<TurnCurvePoint> point = measure(300, 3);
  ASSERT_TRUE(point.ok()) << point.status().to_string();
  EXPECT_GE(point->history, 300);
  EXPECT_LT(point->history, 320);
  EXPECT_EQ(point->n_prefilled_cold, point->n_prompt);
  // The last sampled token has no KV yet, so it is prefilled too.
  EXPECT_EQ(point->n_prefilled_warm, point->n_prompt - (point->history - 1));
  EXPECT_EQ(point->n_prefilled_resumed, point->n_prefilled_warm);
  EXPECT_TRUE(point->same_text);
  EXPECT_TRUE(point->same_bits);
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path()));
}

TEST_F(TurnCurveMeasured, WithoutHistoryWarmColdAndResumedTurnsPrefillTheWholePrompt) {
  const Result<TurnCurvePoint> point = measure(0, 2);
  ASSERT_TRUE(point.ok()) << point.status().to_string();
  EXPECT_EQ(point->history, 0);
  for (const size_t n : {point->n_prefilled_warm, point->n_prefilled_cold, point->n_prefilled_resumed})
    EXPECT_EQ(n, point->n_prompt);
  EXPECT_TRUE(point->same_text && point->same_bits);
}

TEST_F(TurnCurveMeasured, DifferingAnswersAreDetected) {
  size_t n_rows = 0;
  model_->change_logits = [&](TokenSpan, std::span<float> row) { row[0] -= static_cast<float>(++n_rows); };
  const Result<TurnCurvePoint> bits = measure(100, 1);
  ASSERT_TRUE(bits.ok()) << bits.status().to_string();
  EXPECT_FALSE(bits->same_bits);
  model_->change_logits = [&](TokenSpan, std::span<float> row) { row[97 + ++n_rows % 23] = 1e6f; };
  const Result<TurnCurvePoint> text = measure(100, 1);
  ASSERT_TRUE(text.ok()) << text.status().to_string();
  EXPECT_FALSE(text->same_text);
}

TEST_F(TurnCurveMeasured, FailsWithoutACacheDirectory) {
  const auto without = [this](const std::string&) { return factory_on(model_)("/proc/no/such"); };
  const Result<std::unique_ptr<TurnCurveBench>> bench = TurnCurveBench::create(without, {.rounds = 1});
  ASSERT_TRUE(bench.ok());
  EXPECT_FALSE((*bench)->measure(100).ok());
}

TEST(TurnCurveFit, SeparatesTimeInPassesFromOtherTime) {
  std::vector<TurnCurvePoint> points = {point_at(0, 900, 1)};  // ignored, because it has no history
  for (const size_t h : {1000, 2000, 4000, 5000, 8000}) {
    points.push_back(point_at(h, 10 + 0.020 * static_cast<double>(h), 9 + 0.018 * static_cast<double>(h)));
  }
  points[3].warm_ms.median += 500;  // an outlier
  points[3].outside_pass_ms += 500;
  const TurnCurveFit fit = fit_of(points);
  EXPECT_TRUE(fit.known);
  EXPECT_NEAR(fit.turn_us_per_1000, 20000, 1e-6);
  EXPECT_NEAR(fit.pass_us_per_1000, 18000, 1e-6);
  EXPECT_NEAR(fit.outside_pass_us_per_1000, 2000, 1e-6);
  EXPECT_NEAR(fit.outside_pass_percent, 100 * 16.0 / 170, 1e-6);
  EXPECT_FALSE(fit_of(std::span(points).first(2)).known);
  EXPECT_FALSE(fit_of({}).known);
}

TEST(TurnCurveReport, ReportHasOneJsonLineForEachPoint) {
  EXPECT_TRUE(is_report_path("a/b.jsonl"));
  EXPECT_FALSE(is_report_path("out.html"));
  EXPECT_FALSE(is_report_path("jsonl"));
  const TempDir dir;
  const std::vector<TurnCurvePoint> points = three_points();
  ASSERT_TRUE(write_turn_curve(dir.file("a.jsonl"), hostile_setup(), points).ok());
  std::string expected;
  for (const TurnCurvePoint& point : points) expected += turn_curve_json_line(hostile_setup(), point) + "\n";
  EXPECT_EQ(read_whole_file(dir.file("a.jsonl")), expected);
  EXPECT_EQ(write_turn_curve("/no/such/folder/a.jsonl", {}, points).code(), ErrorCode::kIo);
}

TEST(TurnCurveTable, RowsAlignWithTheHeaderAndFitATerminal) {
  EXPECT_THAT(turn_curve_table_header(),
              EndsWith("\nhistory  read    reuse     again   ratio     disk   ratio     pass  answers\n"));
  EXPECT_EQ(turn_curve_table_row(point_at(1000, 50, 49)),
            "   1000    61    50.00   1001.50   20.0x  2001.50  40.03x    49.00  same bits\n");
  TurnCurvePoint wide = point_at(123456, 1000.25, 999);
  wide.cold_ms.median = 123456.25;
  wide.same_bits = false;
  const std::vector<TurnCurvePoint> points = {point_at(1000, 50, 49), wide};
  std::istringstream text(turn_curve_table_header() + turn_curve_table_row(wide) + turn_curve_summary(points));
  for (std::string line; std::getline(text, line);) EXPECT_LE(line.size(), 78) << line;
}

TEST(TurnCurveTable, ReportsDifferingAnswers) {
  std::vector<TurnCurvePoint> points = {point_at(10, 1, 1), point_at(20, 2, 2)};
  EXPECT_THAT(turn_curve_summary(points), HasSubstr("same text, same bits"));
  points[1].same_bits = false;
  EXPECT_THAT(turn_curve_summary(points), HasSubstr("OTHER BITS"));
  EXPECT_THAT(turn_curve_table_row(points[1]), HasSubstr("OTHER BITS"));
  points[0].same_text = false;
  EXPECT_THAT(turn_curve_table_row(points[0]), HasSubstr("OTHER TEXT"));
}

TEST(TurnCurveJson, JsonLineIsOneObjectWithTheSetup) {
  const Result<Json> line = parse_json(turn_curve_json_line(hostile_setup(), point_at(1000, 50, 49)), "line");
  ASSERT_TRUE(line.ok());
  EXPECT_EQ((*line)["what"], "turn_curve");
  EXPECT_EQ((*line)["history"], 1000);
  EXPECT_EQ((*line)["warm_ms"]["median"], 50);
  EXPECT_EQ((*line)["resumed_ms"]["q3"], 2002.5);
  EXPECT_EQ((*line)["same_bits"], true);
  EXPECT_EQ((*line)["threads"], 2);
  EXPECT_EQ((*line)["machine"], hostile_setup().machine);
  EXPECT_EQ((*line)["date"], "2026-01-31");
  EXPECT_EQ((*line)["commit"], "abc</script>");
  EXPECT_EQ((*line)["command"], hostile_setup().command);
}

}  // namespace
}  // namespace ibid
