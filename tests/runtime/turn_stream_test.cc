// Answers that are pulled.
#include "runtime/turn_stream.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "tests/runtime/chat_fixture.h"

namespace ibid {
namespace {

TEST(TurnStreamTest, ThePiecesAreTheAnswer) {
  ChatFixture f;
  f.say({f.tokenizer->sampled({"Hello", " wor", "lo", "the"})});
  ChatSession chat = f.session();
  TurnStream stream(chat, "x", greedy());
  std::string text;
  size_t n_pieces = 0;
  while (std::optional<std::string> piece = stream.next()) {
    text += *piece;
    ++n_pieces;
  }
  EXPECT_FALSE(stream.next().has_value()) << "over is over";
  const Turn turn = must(stream.finish());
  EXPECT_EQ(text, "Hello worlothe");
  EXPECT_EQ(turn.text, text);
  EXPECT_GT(n_pieces, 1u);
  expect_replays(chat);
}

TEST(TurnStreamTest, WhatIsNotPulledIsNoReasonToWait) {
  ChatFixture f;
  f.say({f.tokenizer->sampled({"Hello"})});
  ChatSession chat = f.session();
  TurnStream stream(chat, "x", greedy());
  EXPECT_EQ(must(stream.finish()).text, "Hello");
}

TEST(TurnStreamTest, AFailureIsWhatTheCallWouldSay) {
  ChatFixture f;
  ChatSession chat = f.session();
  TurnStream stream(chat, "\xff");
  EXPECT_FALSE(stream.next().has_value());
  EXPECT_EQ(stream.finish().status().code(), ErrorCode::kInvalidArgument);
}

TEST(TurnStreamTest, CancellingKeepsWhatWasSaid) {
  ChatFixture f;
  ChatSession chat = f.session();
  TurnOptions options = greedy(1000);
  options.min_tokens = 1000;
  TurnStream stream(chat, "x", options);
  ASSERT_TRUE(stream.next().has_value());
  stream.cancel();
  const Turn turn = must(stream.finish());
  EXPECT_EQ(turn.finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(chat.messages().back()["content"], turn.text);
  expect_replays(chat);
}

TEST(TurnStreamTest, TheCallersStopTokenAndTheDestructorCancelToo) {
  ChatFixture f;
  ChatSession chat = f.session();
  std::stop_source source;
  TurnOptions options = greedy(1000);
  options.min_tokens = 1000;
  options.stop = source.get_token();
  {
    TurnStream stream(chat, "x", options);
    ASSERT_TRUE(stream.next().has_value());
    source.request_stop();
    while (stream.next().has_value()) {
    }
    EXPECT_EQ(must(stream.finish()).finish_reason, FinishReason::kCancelled);
  }
  options.stop = {};
  options.stop_mode = StopMode::kDiscard;
  const SessionSnapshot before(chat);
  {
    TurnStream stream(chat, "y", options);
    ASSERT_TRUE(stream.next().has_value());
  }
  EXPECT_EQ(SessionSnapshot(chat), before);
}

}  // namespace
}  // namespace ibid
