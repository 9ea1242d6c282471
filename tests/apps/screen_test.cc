#include "apps/chat/screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ibid {
namespace {

Turn some_turn() {
  Turn turn;
  turn.usage = {.n_prompt = 400, .n_cached = 371, .n_prefilled = 29, .n_decoded = 12};
  turn.timings.ttft_ms = 41.2;
  turn.timings.decode_tps = 98.4;
  return turn;
}

TEST(StatusLine, SaysWhatTheTurnCost) {
  EXPECT_EQ(status_line(some_turn(), 3, 100), "turn 3 · 412 tokens · 371 cached · first token 41 ms · 98 tok/s");
}

TEST(StatusLine, LeavesOutWhatIsLeastImportantOnANarrowTerminal) {
  const Turn turn = some_turn();
  EXPECT_EQ(status_line(turn, 3, 50), "turn 3 · 412 tokens · 371 cached · 98 tok/s");
  EXPECT_EQ(status_line(turn, 3, 42), "412 tokens · 371 cached · 98 tok/s");
  EXPECT_EQ(status_line(turn, 3, 30), "412 tokens · 371 cached");
  EXPECT_EQ(status_line(turn, 3, 10), "412 tokens");
  EXPECT_EQ(status_line(turn, 3, 5), "");
}

TEST(StatusLine, SaysFirstWhyAnAnswerWasCutShort) {
  Turn turn = some_turn();
  turn.timings.decode_tps = 0;  // one token: no rate
  turn.finish_reason = FinishReason::kCancelled;
  EXPECT_EQ(status_line(turn, 1, 100), "stopped · turn 1 · 412 tokens · 371 cached · first token 41 ms");
  turn.finish_reason = FinishReason::kLength;
  EXPECT_EQ(status_line(turn, 1, 100), "length limit · turn 1 · 412 tokens · 371 cached · first token 41 ms");
  EXPECT_EQ(status_line(turn, 1, 59), "length limit · turn 1 · 412 tokens · 371 cached");
  EXPECT_EQ(status_line(turn, 1, 3), "length limit") << "whatever the width";
  turn.finish_reason = FinishReason::kRepetition;
  EXPECT_EQ(status_line(turn, 1, 30), "stopped: it repeats itself");
}

TEST(EndingLine, SaysWhatToDoAboutAnAnswerThatWasCut) {
  Turn turn = some_turn();
  EXPECT_EQ(ending_line(turn, 12), "");
  turn.finish_reason = FinishReason::kLength;
  EXPECT_THAT(ending_line(turn, 12), testing::HasSubstr("cut at 12 tokens"));
  EXPECT_THAT(ending_line(turn, 12), testing::HasSubstr("--max-tokens"));
  EXPECT_THAT(ending_line(turn, 2000), testing::HasSubstr("the context is full"));
  EXPECT_THAT(ending_line(turn, 0), testing::HasSubstr("the context is full"));
  EXPECT_THAT(ending_line(turn, std::nullopt), testing::HasSubstr("at its length limit"));
  turn.finish_reason = FinishReason::kRepetition;
  EXPECT_THAT(ending_line(turn, 0), testing::HasSubstr("repeats itself"));
  turn.finish_reason = FinishReason::kCancelled;
  EXPECT_EQ(ending_line(turn, 12), "");
}

}  // namespace
}  // namespace ibid
