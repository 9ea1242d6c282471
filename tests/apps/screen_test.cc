#include "apps/chat/screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ibid {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Turn some_turn() {
  Turn turn;
  turn.usage = {.n_prompt = 400, .n_cached = 371, .n_prefilled = 29, .n_decoded = 12};
  turn.timings.ttft_ms = 41.2;
  turn.timings.decode_tps = 98.4;
  return turn;
}

TEST(StatusLine, ShowsTheCostOfTheTurn) {
  EXPECT_EQ(status_line(some_turn(), 3, 100), "turn 3 · 412 tokens · 371 cached · first token 41 ms · 98 tok/s");
}

TEST(StatusLine, OmitsLessImportantPartsOnANarrowTerminal) {
  const Turn turn = some_turn();
  EXPECT_EQ(status_line(turn, 3, 50), "turn 3 · 412 tokens · 371 cached · 98 tok/s");
  EXPECT_EQ(status_line(turn, 3, 42), "412 tokens · 371 cached · 98 tok/s");
  EXPECT_EQ(status_line(turn, 3, 30), "412 tokens · 371 cached");
  EXPECT_EQ(status_line(turn, 3, 10), "412 tokens");
  EXPECT_EQ(status_line(turn, 3, 5), "");
}

TEST(StatusLine, ReasonOfAnEarlyEndIsShownFirst) {
  Turn turn = some_turn();
  turn.timings.decode_tps = 0;  // one token has no rate
  turn.finish_reason = FinishReason::kCancelled;
  EXPECT_EQ(status_line(turn, 1, 100), "stopped · turn 1 · 412 tokens · 371 cached · first token 41 ms");
  turn.finish_reason = FinishReason::kLength;
  EXPECT_EQ(status_line(turn, 1, 100), "length limit · turn 1 · 412 tokens · 371 cached · first token 41 ms");
  EXPECT_EQ(status_line(turn, 1, 59), "length limit · turn 1 · 412 tokens · 371 cached");
  EXPECT_EQ(status_line(turn, 1, 3), "length limit") << "at any width";
  turn.finish_reason = FinishReason::kRepetition;
  EXPECT_EQ(status_line(turn, 1, 30), "stopped: it repeats itself");
}

TEST(EndingLine, AdviceOnATruncatedAnswerDependsOnTheInterface) {
  Turn turn = some_turn();
  const auto in_chat = [&](size_t limit) { return ending_line(turn, limit, AnswerPlace::kChat); };
  const auto elsewhere = [&](size_t limit) {
    EXPECT_EQ(ending_line(turn, limit, AnswerPlace::kPipe), ending_line(turn, limit, AnswerPlace::kAsk));
    return ending_line(turn, limit, AnswerPlace::kAsk);
  };
  EXPECT_EQ(in_chat(12), "");
  EXPECT_EQ(elsewhere(12), "");
  turn.finish_reason = FinishReason::kLength;
  EXPECT_THAT(in_chat(12), AllOf(HasSubstr("cut after 12 tokens"), HasSubstr("/set max-tokens"), Not(HasSubstr("--"))));
  EXPECT_THAT(elsewhere(12),
              AllOf(HasSubstr("cut after 12 tokens"), HasSubstr("--max-tokens"), Not(HasSubstr("/set"))));
  for (const size_t limit : {2000, 0}) {
    EXPECT_THAT(in_chat(limit), HasSubstr("the context is full"));
    EXPECT_THAT(elsewhere(limit), HasSubstr("the context is full"));
  }
  turn.finish_reason = FinishReason::kRepetition;
  EXPECT_THAT(in_chat(0), AllOf(HasSubstr("repeats itself"), HasSubstr("/regen")));
  EXPECT_THAT(elsewhere(0), AllOf(HasSubstr("repeats itself"), HasSubstr("--stop-repetition off")));
  turn.finish_reason = FinishReason::kCancelled;
  EXPECT_EQ(in_chat(12), "");
}

TEST(FailureText, NamesCommandsAndOptionsNotFunctions) {
  const Status full(ErrorCode::kContextFull,
                    "the prompt has 600 tokens, the context has room for 500; make room with rewind_to() or "
                    "reset()");
  for (const AnswerPlace place : {AnswerPlace::kChat, AnswerPlace::kPipe, AnswerPlace::kAsk}) {
    const std::string text = failure_text(full, place);
    EXPECT_THAT(text,
                AllOf(HasSubstr("600 tokens, the context has room for 500\nto fix this: "), Not(HasSubstr("()"))));
    EXPECT_EQ(failure_text({ErrorCode::kIo, "a; b()"}, place), "a; b()") << "other errors are unchanged";
  }
  EXPECT_THAT(failure_text(full, AnswerPlace::kChat), HasSubstr("/when-full drop"));
  EXPECT_THAT(failure_text(full, AnswerPlace::kPipe), HasSubstr("--when-full drop"));
  EXPECT_THAT(failure_text(full, AnswerPlace::kAsk), Not(HasSubstr("when-full")));
}

TEST(FailureText, OmitsAdviceThatWasAlreadyFollowed) {
  const Status full(ErrorCode::kContextFull,
                    "even without all removable turns the conversation has 600 tokens, the context "
                    "has room for 500; shorten the message");
  for (const AnswerPlace place : {AnswerPlace::kChat, AnswerPlace::kPipe}) {
    EXPECT_THAT(failure_text(full, place), AllOf(HasSubstr("when-full cut"), HasSubstr("a shorter message"),
                                                 Not(HasSubstr("when-full drop")), Not(HasSubstr("/undo"))));
  }
}

}  // namespace
}  // namespace ibid
