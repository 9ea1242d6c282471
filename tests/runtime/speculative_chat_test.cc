// Sessions with and without speculation are the same after any calls.
#include <gtest/gtest.h>

#include <random>

#include "tests/runtime/chat_fixture.h"

namespace ibid {
namespace {

// Two conversations with the same calls, one with drafts. The model repeats the token after an earlier occurrence of
// its last three tokens, or samples a new one.
class Twins {
 public:
  Twins() {
    for (ChatFixture* f : {&on_, &off_}) {
      f->model->change_logits = [](TokenSpan prefix, std::span<float> row) {
        for (size_t next = prefix.size(); next-- > 3;) {
          const TokenSpan before = prefix.subspan(next - 3, 3);
          if (!std::equal(before.begin(), before.end(), prefix.end() - 3)) continue;
          row[static_cast<size_t>(prefix[next])] += 9;
          return;
        }
      };
    }
    chats_.emplace_back(on_.session({.system = "be the best"}));
    twins_.emplace_back(off_.session({.system = "be the best"}));
  }

  void send(size_t which, const std::string& message, TurnOptions options) {
    const auto call = [&](ChatSession& chat, const TurnCallback& on_event) {
      return chat.send(message, options, on_event);
    };
    finish(call, which, options);
  }
  void regenerate(size_t which, TurnOptions options) {
    const auto call = [&](ChatSession& chat, const TurnCallback& on_event) {
      return chat.regenerate(options, on_event);
    };
    finish(call, which, options);
  }
  void rewind_to(size_t which, size_t n) {
    EXPECT_EQ(chats_[which].rewind_to(n).code(), twins_[which].rewind_to(n).code());
  }
  void fork(size_t which) {
    chats_.push_back(*chats_[which].fork());
    twins_.push_back(*twins_[which].fork());
  }
  void reset(size_t which) {
    EXPECT_TRUE(chats_[which].reset().ok());
    EXPECT_TRUE(twins_[which].reset().ok());
  }

  void expect_same() {
    for (size_t i = 0; i < chats_.size(); ++i) {
      SCOPED_TRACE("conversation " + std::to_string(i));
      ASSERT_TRUE(SessionSnapshot(chats_[i]) == SessionSnapshot(twins_[i]));
      ASSERT_EQ(chats_[i].usage().n_decoded, twins_[i].usage().n_decoded);
      ASSERT_EQ(chats_[i].usage().n_cached, twins_[i].usage().n_cached);
      ASSERT_EQ(twins_[i].usage().n_drafted, 0u);
      ASSERT_EQ(on_.engine->state().pool().bytes_in_use(), off_.engine->state().pool().bytes_in_use());
      expect_replays(chats_[i]);
    }
  }

  size_t n_conversations() const { return chats_.size(); }
  size_t n_messages(size_t which) const { return chats_[which].state().messages().size(); }
  size_t n_accepted() const { return n_accepted_; }
  size_t n_rejected() const { return n_rejected_; }

 private:
  template <typename Call>
  void finish(Call call, size_t which, TurnOptions& options) {
    const bool cancelled = options.max_tokens % 5 == 0;
    const size_t n_events = cancelled ? options.max_tokens / 2 : SIZE_MAX;
    const auto run = [&](ChatSession& chat, bool speculate, std::vector<std::string>& pieces) {
      std::stop_source source;
      options.stop = source.get_token();
      options.speculate = speculate;
      return call(chat, [&](const TurnEvent& event) {
        if (event.kind != TurnEvent::Kind::kText) return;
        pieces.emplace_back(event.text);
        if (pieces.size() == n_events) source.request_stop();
      });
    };
    std::vector<std::string> pieces, twin_pieces;
    const Result<Turn> turn = run(chats_[which], true, pieces), twin = run(twins_[which], false, twin_pieces);
    ASSERT_EQ(turn.status().code(), twin.status().code());
    EXPECT_EQ(pieces, twin_pieces);
    if (!turn.ok()) return;
    EXPECT_EQ(turn->text, twin->text);
    EXPECT_EQ(turn->finish_reason, twin->finish_reason);
    EXPECT_EQ(turn->work.n_forward + turn->usage.n_accepted, twin->work.n_forward);
    EXPECT_EQ(turn->work.pages_touched, twin->work.pages_touched);
    EXPECT_EQ(turn->work.kv_bytes_copied, twin->work.kv_bytes_copied);
    n_accepted_ += turn->usage.n_accepted;
    n_rejected_ += turn->usage.n_drafted - turn->usage.n_accepted;
  }

  ChatFixture on_, off_;
  std::vector<ChatSession> chats_, twins_;
  size_t n_accepted_ = 0, n_rejected_ = 0;
};

TEST(SpeculativeChatTest, RandomConversationsAreTheSameWithAndWithoutDrafts) {
  size_t n_accepted = 0, n_rejected = 0;
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Twins reference_kernels;
    for (int step = 0; step < 25; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      const size_t which = random() % reference_kernels.n_conversations();
      TurnOptions options{.sampler = {.temperature = random() % 2 == 0 ? 0.0 : 1.0, .min_p = 0.02, .seed = random()},
                          .max_tokens = 1 + random() % 60};
      if (random() % 4 == 0) options.stop_strings = {"th", "\n\n", "o w"};
      if (random() % 3 == 0) options.stop_mode = StopMode::kDiscard;
      const auto action = random() % 10;
      if (action < 6) {
        reference_kernels.send(which, "Hello the world " + std::to_string(random() % 3), options);
      } else if (action == 6 && reference_kernels.n_messages(which) > 1) {
        reference_kernels.regenerate(which, options);
      } else if (action == 7) {
        reference_kernels.rewind_to(which, 1 + 2 * (random() % (reference_kernels.n_messages(which) / 2 + 1)));
      } else if (action == 8 && reference_kernels.n_conversations() < 3) {
        reference_kernels.fork(which);
      } else if (action == 9 && random() % 3 == 0) {
        reference_kernels.reset(which);
      }
      reference_kernels.expect_same();
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
    n_accepted += reference_kernels.n_accepted();
    n_rejected += reference_kernels.n_rejected();
  }
  EXPECT_GT(n_accepted, 300u);
  EXPECT_GT(n_rejected, 50u);
}

// The index adds new tokens, and drops tokens that are rolled back.
TEST(SpeculativeChatTest, IndexingCostDoesNotGrowWithConversation) {
  ChatFixture f;
  ChatSession chat = f.session({.system = "be the best"});
  f.say(std::vector<Tokens>(60, f.tokenizer->sampled({"ab", "c", " wor", "th", "lo"})));
  std::optional<size_t> third;
  size_t n_accepted = 0;
  for (int k = 0; k < 50; ++k) {
    const size_t n_before = chat.ids().size();
    const Turn turn = must(chat.send("Hello there", greedy()));
    EXPECT_EQ(turn.work.tokens_indexed, chat.ids().size() - n_before);
    n_accepted += turn.usage.n_accepted;
    if (k == 2) third = turn.work.tokens_indexed;
    if (k > 2) {
      EXPECT_EQ(turn.work.tokens_indexed, *third) << k;
    }
  }
  EXPECT_GT(n_accepted, 50u) << "every answer repeats the first one";
  const Turn again = must(chat.regenerate(greedy()));
  EXPECT_LE(again.work.tokens_indexed, again.usage.n_decoded + 1);
}

// A session that did not speculate for a while indexes the missing tokens once.
TEST(SpeculativeChatTest, LateSpeculationIndexesMissingTokens) {
  ChatFixture f;
  ChatSession chat = f.session();
  f.say(std::vector<Tokens>(9, f.tokenizer->sampled({"ab", "c", " wor", "th", "lo", "the", "x", "y"})));
  TurnOptions off = greedy();
  off.speculate = false;
  for (int k = 0; k < 3; ++k) EXPECT_EQ(must(chat.send("x", off)).work.tokens_indexed, 0u);
  Turn turn = must(chat.send("x", greedy()));
  EXPECT_EQ(turn.work.tokens_indexed, chat.ids().size());
  EXPECT_GT(turn.usage.n_accepted, 0u);
  must(chat.send("x", off));
  const size_t n_before = turn.work.tokens_indexed;
  turn = must(chat.send("x", greedy()));
  EXPECT_EQ(turn.work.tokens_indexed, chat.ids().size() - n_before);
  expect_replays(chat);
}

// A failed turn was partly indexed, without effect on the next one.
TEST(SpeculativeChatTest, FailedTurnDoesNotChangeDrafts) {
  ChatFixture f, never;
  for (ChatFixture* fixture : {&f, &never}) {
    fixture->say(std::vector<Tokens>(9, f.tokenizer->sampled({"ab", "c", " wor", "th", "lo", "the", "x", "y"})));
  }
  ChatSession chat = f.session(), other = never.session();
  for (ChatSession* session : {&chat, &other}) must(session->send("one", greedy()));
  const size_t first_call = f.model->n_calls();
  f.model->before_layer = [&](size_t call, size_t) {
    return call >= first_call + 3 ? Status(ErrorCode::kOutOfMemory, "injected") : Status();
  };
  EXPECT_FALSE(chat.send("something else altogether", greedy()).ok());
  f.model->before_layer = nullptr;
  const Turn turn = must(chat.send("two", greedy())), expected = must(other.send("two", greedy()));
  EXPECT_EQ(turn.work.tokens_indexed, expected.work.tokens_indexed);
  EXPECT_GT(turn.usage.n_accepted, 0u);
  EXPECT_TRUE(SessionSnapshot(chat) == SessionSnapshot(other));
}

}  // namespace
}  // namespace ibid
