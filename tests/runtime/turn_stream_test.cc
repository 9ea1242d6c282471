// Answers pulled by TurnStream.
#include "ibid/turn_stream.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/runtime/chat_fixture.h"

namespace ibid {
namespace {

TEST(TurnStreamTest, PiecesAddUpToTheAnswer) {
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
  EXPECT_FALSE(stream.next().has_value()) << "the stream stays over";
  const Turn turn = must(stream.finish());
  EXPECT_EQ(text, "Hello worlothe");
  EXPECT_EQ(turn.text, text);
  EXPECT_GT(n_pieces, 1u);
  expect_replays(chat);
}

TEST(TurnStreamTest, FinishDropsPiecesThatWereNotPulled) {
  ChatFixture f;
  f.say({f.tokenizer->sampled({"Hello"})});
  ChatSession chat = f.session();
  TurnStream stream(chat, "x", greedy());
  EXPECT_EQ(must(stream.finish()).text, "Hello");
}

TEST(TurnStreamTest, FinishReturnsTheErrorOfTheCall) {
  ChatFixture f;
  ChatSession chat = f.session();
  TurnStream stream(chat, "\xff");
  EXPECT_FALSE(stream.next().has_value());
  EXPECT_EQ(stream.finish().status().code(), ErrorCode::kInvalidArgument);
}

TEST(TurnStreamTest, CancelKeepsPartialAnswer) {
  ChatFixture f;
  ChatSession chat = f.session();
  TurnOptions options = greedy(1000);
  options.min_tokens = 1000;
  TurnStream stream(chat, "x", options);
  ASSERT_TRUE(stream.next().has_value());
  stream.cancel();
  const Turn turn = must(stream.finish());
  EXPECT_EQ(turn.finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(chat.state().messages().back()["content"], turn.text);
  expect_replays(chat);
}

TEST(TurnStreamTest, StopTokenAndDestructorCancel) {
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

TEST(TurnStreamTest, OneThreadPullsManyStreamsWithOneWaker) {
  ChatFixture f;
  f.say({f.tokenizer->sampled({"Hello", " wor", "lo", "the"})});
  std::vector<ChatSession> chats;
  for (int i = 0; i < 5; ++i) chats.push_back(f.session());
  const auto waker = std::make_shared<Waker>();
  std::vector<TurnStream> streams;
  for (ChatSession& chat : chats) streams.emplace_back(chat, "x", greedy(), waker);
  std::vector<std::string> texts(streams.size());
  for (size_t n_over = 0; n_over < streams.size();) {
    n_over = 0;
    for (size_t i = 0; i < streams.size(); ++i) {
      while (const auto piece = streams[i].poll()) texts[i] += *piece;
      n_over += streams[i].is_over() ? 1 : 0;
    }
    if (n_over < streams.size()) waker->wait();
  }
  for (size_t i = 0; i < streams.size(); ++i) {
    EXPECT_EQ(texts[i], "Hello worlothe");
    EXPECT_EQ(must(streams[i].finish()).text, texts[i]);
    expect_replays(chats[i]);
  }
}

TEST(TurnStreamTest, EveryKindOfTurnCanBePulledWhileSessionIsBusy) {
  ChatFixture f;
  ChatSession chat = f.session(), twin = f.session();
  EXPECT_EQ(TurnStream(chat, TurnStart::answer(), greedy()).finish().status().code(), ErrorCode::kInvalidArgument);
  ASSERT_TRUE(chat.state().append({{"role", "user"}, {"content", "x"}}).ok());
  EXPECT_EQ(must(TurnStream(chat, TurnStart::answer(), greedy()).finish()).text, must(twin.send("x", greedy())).text);
  {
    TurnStream again = TurnStream(chat, TurnStart::regenerate(), greedy());
    EXPECT_EQ(chat.send("y").status().code(), ErrorCode::kBusy);
    EXPECT_EQ(must(again.finish()).text, must(twin.regenerate(greedy())).text);
  }
  EXPECT_EQ(must(TurnStream(chat, TurnStart::edit(0, "z"), greedy()).finish()).text,
            must(twin.edit(0, "z", greedy())).text);
  EXPECT_EQ(chat.state().messages(), twin.state().messages());
  const SessionSnapshot before(chat);
  TurnOptions discards = greedy(1000);
  discards.min_tokens = 1000;
  discards.stop_mode = StopMode::kDiscard;
  { const TurnStream dropped = TurnStream(chat, TurnStart::regenerate(), discards); }
  { const TurnStream dropped = TurnStream(chat, TurnStart::edit(0, "q"), discards); }
  EXPECT_TRUE(SessionSnapshot(chat) == before) << "discarded turns restore the messages";
  expect_replays(chat);
}

}  // namespace
}  // namespace ibid
