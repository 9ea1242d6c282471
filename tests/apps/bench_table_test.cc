// Tables of the benchmark: every line fits into a terminal, and columns and units are explained.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "bench/lab/figure_table.h"
#include "bench/lab/model_work.h"
#include "tests/apps/bench_figures.h"

namespace ibid {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

void expect_terminal_lines(const std::string& text) {
  ASSERT_TRUE(text.empty() || text.back() == '\n') << text;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), kTableColumns) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
}

Figure conversation_turn(size_t turn) {
  Figure figure = figure_of("conversation", {turn}, 73.8);
  figure.details = {{"n_prompt", 5079},       {"n_prefilled", 61},          {"again_ms", 4096.2},
                    {"again_ratio", 55.5},    {"bytes_rendered", 358},      {"bytes_compared", 0},
                    {"bytes_tokenized", 375}, {"kv_bytes_copied", 1474560}, {"besides_model_percent", 0.5}};
  return figure;
}

TEST(FigureTable, RowsAlignWithTheHeader) {
  const std::vector<Rival> rivals =
      rivals_of("{\"engine\":\"llama.cpp\",\"what\":\"decode\",\"depth\":1024,\"tps\":123}");
  EXPECT_EQ(figure_header() + figure_row(decode_at(1024, 307.5), rivals),
            "                                   median      quartiles         work  of peak\n"
            "decode at depth 1024          307.5 tok/s    297.5-312.5    30.0 GB/s     50 %\n"
            "  llama.cpp                   123.0 tok/s          2.50x\n");
  EXPECT_EQ(figure_row(decode_at(0, 307.5), rivals),
            "decode at depth 0             307.5 tok/s    297.5-312.5    30.0 GB/s     50 %\n")
      << "the rival has no figure for this work";
}

TEST(FigureTable, ConversationTurnsHaveTheirOwnColumns) {
  const std::string header = conversation_header();
  EXPECT_THAT(header, EndsWith("\n"
                               "turn  prompt   read     reuse     again    ratio  besides          text     KV\n"));
  EXPECT_EQ(figure_row(conversation_turn(10), {}),
            "  10    5079     61      73.8      4096    55.5x   0.50 %     358/0/375    1.5\n");
}

TEST(FigureTable, EveryLineFitsIntoATerminal) {
  const std::vector<Rival> rivals = rivals_of(
      "{\"engine\":\"an engine with a name that is longer than its column\",\"what\":\"turn\",\"history\":123456,"
      "\"n\":44,\"ttft_ms\":123456.5}");
  Figure turn = figure_of("turn", {123456, 44}, 54321.5);
  turn.value = {50000.5, 54321.5, 60000.5};
  turn.throughput = {"gops", 12345.5, 12000};
  turn.note =
      "a note that is much too long for the row, so that it goes into lines of its own, which are broken "
      "between words and stand a little further in";
  Figure noted = figure_of("memory", {}, 225);
  noted.note = "while loading 110, with keys and values 160; packed weights 97";
  Figure grown = conversation_turn(10);
  grown.value = {123456.5, 123456.5, 123456.5};
  expect_terminal_lines(figure_legend({"load", "prefill", "decode", "turn", "memory", "chat_turn"}, true));
  expect_terminal_lines(figure_header() + conversation_header());
  for (const Figure& figure : {turn, noted, grown, decode_at(1024, 9999.5), figure_of("chat_turn", {3500, 8}, 99.5)}) {
    expect_terminal_lines(figure_row(figure, rivals));
  }
  EXPECT_THAT(figure_row(turn, rivals), HasSubstr("44 tokens at depth 123456 "));
}

TEST(FigureTable, LegendExplainsOnlyTheMeasuredKinds) {
  const std::string legend = figure_legend({"load", "decode"}, false);
  EXPECT_THAT(legend, HasSubstr("decode at depth N: 48 tokens"));
  EXPECT_THAT(legend, HasSubstr("of peak: "));
  EXPECT_THAT(legend, Not(HasSubstr("prefill")));
  EXPECT_THAT(legend, Not(HasSubstr("another engine")));
  EXPECT_THAT(figure_legend({"turn"}, true), HasSubstr("another engine"));
}

TEST(FigureTable, UnknownValuesAreBlank) {
  Figure load = figure_of("load", {}, 640.6);
  EXPECT_EQ(figure_row(load, {}), "load                             640.6 ms\n");
  load.note = "from disk";
  EXPECT_EQ(figure_row(load, {}), "load                             640.6 ms  from disk\n");
  Figure decode = decode_at(0, 1234.5);
  decode.throughput.peak = 0;
  EXPECT_THAT(figure_row(decode, {}), Not(HasSubstr("%")));
}

TEST(PrefillStepLine, LineDistinguishesADropOfTheRateFromNoise) {
  EXPECT_EQ(prefill_step_line({}, {}), "");
  EXPECT_THAT(prefill_step_line({63, 64, 1.2, false}, {}), HasSubstr("never falls"));
  EXPECT_EQ(prefill_step_line({63, 64, 0.95, false}, {}),
            "largest fall of the prefill rate: 5.00 %, from 63 to 64 tokens\n"
            "  within the spread of the samples: nothing to see\n");
  const PrefillStep step = {63, 64, 0.563, true};
  EXPECT_THAT(prefill_step_line(step, {63, 64, 0.99, false}), HasSubstr("measured again: 1.00 %, within the spread"));
  EXPECT_THAT(prefill_step_line(step, {63, 64, 0.6, true}), EndsWith("measured again: 40.0 %, more than the spread of "
                                                                     "the samples: it is there\n"));
  EXPECT_THAT(prefill_step_line({128, 512, 0.8, true}, {128, 512, 0.8, true}), HasSubstr("attends to more"));
  for (const PrefillStep& again : {PrefillStep{}, PrefillStep{128, 512, 0.8, true}, PrefillStep{128, 512, 1, false}}) {
    expect_terminal_lines(prefill_step_line({128, 512, 0.8, true}, again));
  }
}

TEST(Duration, DurationIsFormattedInWords) {
  EXPECT_EQ(duration_in_words(0.1), "a few seconds");
  EXPECT_EQ(duration_in_words(37), "about 35 seconds");
  EXPECT_EQ(duration_in_words(58), "about 1 minute");
  EXPECT_EQ(duration_in_words(213), "about 4 minutes");
  EXPECT_EQ(duration_in_words(3 * 3600), "about 3 hours");
}

// A token takes 1 s, plus 1 s for every 1,000 positions before it.
TEST(RunEstimate, EstimateCountsTheWorkOfARun) {
  const ModelPace pace = {1, 1, 1e-3, 1e-3};
  EXPECT_DOUBLE_EQ(pace.prefill_s(100, 950), 200);
  EXPECT_DOUBLE_EQ(pace.decode_s(10, 995), 20);
  PlannedRun run;
  run.rounds = 3;
  run.context = 8192;
  EXPECT_EQ(estimated_seconds(run, pace), 0);
  run.prefills = {100};
  EXPECT_NEAR(estimated_seconds(run, pace), 4 * 105, 1) << "three rounds and a warm-up";
  const double prefills = estimated_seconds(run, pace);
  run.conversations = 1;
  const double one = estimated_seconds(run, pace);
  EXPECT_GT(one, prefills + 11 * 500) << "at least ten turns of 500 tokens and the exchange before them";
  run.conversations = 2;
  EXPECT_NEAR(estimated_seconds(run, pace), 2 * one - prefills, 1e-6);
  run.conversations = 0;
  run.histories = {1000};
  const double at_1000 = estimated_seconds(run, pace);
  EXPECT_GT(at_1000, prefills + 4 * 1000);
  run.histories = {1000, 8000};
  EXPECT_GT(estimated_seconds(run, pace), 8 * at_1000);
}

TEST(RunEstimate, EstimateIncludesRepetitionsOfShortWork) {
  const ModelPace pace = {1e-5, 1e-5, 0, 0};
  PlannedRun run;
  run.prefills = {8};
  EXPECT_LT(estimated_seconds(run, pace), 1);
  run.prefills = {1000};  // 10 ms, repeated 20 times for at least 0.2 s
  EXPECT_GT(estimated_seconds(run, pace), 0.2);
}

}  // namespace
}  // namespace ibid
