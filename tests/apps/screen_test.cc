#include "apps/chat/screen.h"

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

TEST(StatusLine, LeavesOutWholePartsOnANarrowTerminal) {
  const Turn turn = some_turn();
  EXPECT_EQ(status_line(turn, 3, 40), "turn 3 · 412 tokens · 371 cached");
  EXPECT_EQ(status_line(turn, 3, 6), "turn 3");
  EXPECT_EQ(status_line(turn, 3, 5), "");
}

TEST(StatusLine, SaysWhenAnAnswerWasCutShort) {
  Turn turn = some_turn();
  turn.timings.decode_tps = 0;  // one token: no rate
  turn.finish_reason = FinishReason::kCancelled;
  EXPECT_EQ(status_line(turn, 1, 100), "turn 1 · 412 tokens · 371 cached · first token 41 ms · stopped");
  turn.finish_reason = FinishReason::kLength;
  EXPECT_EQ(status_line(turn, 1, 100), "turn 1 · 412 tokens · 371 cached · first token 41 ms · length limit");
}

}  // namespace
}  // namespace ibid
