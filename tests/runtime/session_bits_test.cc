// KV equality of sessions on real forward passes: after any calls the stored keys and values and the next logits are
// those of one cold pass over the tokens, and answers are the same, for all types of keys and values, instruction sets
// and numbers of threads.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "cache/store/lru_kv_cache_store.h"
#include "cache/tier/file_tier.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/runtime/tiny_chat.h"
#include "tests/support/memory_file_ops.h"

namespace ibid {
namespace {

const std::string kSystem = "be the best " + std::string(120, 'z');

TurnOptions sampled(uint64_t seed, size_t max_tokens = 18) {
  return {.sampler = {.temperature = 1.0, .min_p = 0, .seed = seed}, .max_tokens = max_tokens};
}

class SessionBits : public testing::TestWithParam<WeightsAndKv> {
 protected:
  using Machine = std::pair<Isa, int>;  // instruction set, threads

  static std::vector<Machine> machines() {
    std::vector<Machine> out;
    for (const Isa isa : kAllIsas) {
      if (!isa_supported(isa)) continue;
      const int n_several = out.size() % 4 == 0 ? 2 : 3;
      out.emplace_back(isa, 1);
      out.emplace_back(isa, n_several);
    }
    return out;
  }

  // Runs the story on every machine. The texts recorded by says() must be the same on all of them.
  void on_every_machine(const std::function<void(const Machine&)>& story) {
    for (const Machine& machine : machines()) {
      SCOPED_TRACE(std::string(isa_name(machine.first)) + ", " + std::to_string(machine.second) + " threads");
      said_.clear();
      story(machine);
      if (HasFatalFailure() || HasFailure()) return;
      if (wanted_.empty()) wanted_ = said_;
      ASSERT_EQ(said_, wanted_);
    }
  }

  std::shared_ptr<Engine> engine(const Machine& machine, const char* chat_template = kChatMl, EngineParts parts = {}) {
    return tiny_engine(GetParam(), machine.first, machine.second, 48, chat_template, std::move(parts));
  }

  ChatSession session(const std::shared_ptr<Engine>& engine, SessionOptions options = {}) {
    options.now = "2026-01-31T12:00:00";
    return *ChatSession::create(engine, std::move(options));
  }
  ChatSession talk(const std::shared_ptr<Engine>& engine) {
    return session(engine, {.system = kSystem, .repair_when_idle = false});
  }

  // Records an answer and checks the session.
  Turn says(Result<Turn> turn, const ChatSession& chat) {
    EXPECT_TRUE(turn.ok()) << turn.status().to_string();
    if (!turn.ok()) return {};
    said_.push_back(turn->text);
    expect_cold_bits(chat, cold_);
    return *std::move(turn);
  }

  ColdModel cold_{GetParam()};
  std::vector<std::string> said_, wanted_;
};

TEST_P(SessionBits, GrowingAndRepeatedConversationsGiveTheSameBits) {
  on_every_machine([&](const Machine& machine) {
    ChatSession chat = talk(engine(machine));
    says(chat.send("Hello world", sampled(1)), chat);
    says(chat.send("the second " + std::string(70, 'q'), sampled(2, 60)), chat);
    says(chat.send("again", sampled(3)), chat);
    const std::string third = said_.back();
    ASSERT_TRUE(chat.rewind_to(5).ok());
    const Turn repeated = says(chat.send("again", sampled(3)), chat);
    EXPECT_EQ(repeated.usage.n_prefilled, 0u);
    EXPECT_EQ(repeated.text, third);
    EXPECT_EQ(says(chat.regenerate(sampled(3)), chat).text, third);
    says(chat.regenerate(sampled(4)), chat);
    // Another session finds all of it.
    ChatSession other = talk(chat.engine());
    EXPECT_GT(says(other.send("Hello world", sampled(1)), other).usage.n_cached, kSystem.size());
  });
}

TEST_P(SessionBits, BranchesGiveTheSameBits) {
  on_every_machine([&](const Machine& machine) {
    ChatSession chat = talk(engine(machine));
    says(chat.send("Hello " + std::string(50, 'q'), sampled(1, 40)), chat);
    ChatSession fork = *chat.fork();
    says(fork.send("one way", sampled(2)), fork);
    says(chat.send("another", sampled(3)), chat);
    says(fork.send("and on", sampled(4)), fork);
    says(chat.edit(3, "anybody", sampled(5)), chat);
    says(chat.edit(1, "Hello " + std::string(45, 'q') + " world", sampled(6)), chat);
    Json history = fork.state().messages();
    history.erase(history.begin() + 5, history.end());
    history.push_back({{"role", "user"}, {"content", "what else"}});
    ASSERT_TRUE(chat.state().set_history(history).ok());
    says(chat.answer(sampled(7)), chat);
    ASSERT_TRUE(fork.rewind_to(3).ok());
    says(fork.send("one day", sampled(8)), fork);
    expect_cold_bits(chat, cold_);
  });
}

TEST_P(SessionBits, SeveralAnswersAndPrefillGiveTheSameBits) {
  on_every_machine([&](const Machine& machine) {
    ChatSession chat = talk(engine(machine));
    ASSERT_TRUE(chat.prefill().ok());
    says(chat.send("Hello", sampled(1)), chat);
    const Result<std::vector<Turn>> turns = chat.send_for_answers("the second", 3, sampled(7));
    ASSERT_TRUE(turns.ok()) << turns.status().to_string();
    for (const size_t i : {2u, 0u, 1u}) {
      ASSERT_TRUE(chat.choose(i).ok());
      expect_cold_bits(chat, cold_);
      said_.push_back((*turns)[i].text);
      EXPECT_EQ(chat.state().messages().back()["content"], said_.back());
    }
    ASSERT_TRUE(chat.state().append({{"role", "user"}, {"content", "what " + std::string(60, 'w')}}).ok());
    ASSERT_TRUE(chat.prefill().ok());
    EXPECT_EQ(says(chat.answer(sampled(8)), chat).usage.n_prefilled, 0u);
    ASSERT_TRUE(chat.state().append({{"role", "user"}, {"content", "this will not be asked"}}).ok());
    ASSERT_TRUE(chat.prefill().ok());
    ASSERT_TRUE(chat.rewind_to(3).ok());
    says(chat.send("this is asked", sampled(9)), chat);
  });
}

TEST_P(SessionBits, RewrittenHistoryGivesTheSameBits) {
  on_every_machine([&](const Machine& machine) {
    // Idle work prefills nothing, a part, and everything.
    const auto shared = engine(machine, kShouts);
    ChatSession none = session(shared, {.system = kSystem, .cache_namespace = "a", .repair_when_idle = false});
    ChatSession some = session(shared, {.system = kSystem, .cache_namespace = "b"});
    ChatSession all = session(shared, {.system = kSystem, .cache_namespace = "c"});
    for (uint64_t turn = 1; turn <= 3; ++turn) {
      const std::string message = "Hello the " + std::to_string(turn);
      const std::string text = says(none.send(message, sampled(turn, 40)), none).text;
      EXPECT_EQ(says(some.send(message, sampled(turn, 40)), some).text, text);
      EXPECT_EQ(says(all.send(message, sampled(turn, 40)), all).text, text);
      ASSERT_TRUE(all.prefill().ok());
    }
    const Turn regenerated = says(some.regenerate(sampled(3, 40)), some);
    EXPECT_EQ(none.state().messages().back()["content"], regenerated.text);
  });
}

// Each machine continues what the previous one wrote.
TEST_P(SessionBits, OtherProcessesResumeWithTheSameBits) {
  for (const bool with_kv : {true, false}) {
    MemoryFileOps files;
    ASSERT_TRUE(files.make_directory("/s").ok());
    const auto process = [&](const Machine& machine) {
      EngineParts parts;
      parts.files = &files;
      parts.fingerprint = FingerprintBuilder().add("model", GetParam().name).finish();
      if (!with_kv) parts.cache_directory = "/kv";
      parts.cache_directory_bytes = 64u << 20;
      return engine(machine, kChatMl, std::move(parts));
    };
    {
      ChatSession first = talk(process(machines().back()));
      says(first.send("Hello world", sampled(1, 40)), first);
      ASSERT_TRUE(first.save("/s/talk", {.with_kv = with_kv}).ok());
    }
    uint64_t seed = 1;
    for (const Machine& machine : machines()) {
      SCOPED_TRACE(std::string(isa_name(machine.first)) + ", " + std::to_string(machine.second) + " threads");
      Result<ChatSession> chat = ChatSession::load(process(machine), "/s/talk");
      ASSERT_TRUE(chat.ok()) << chat.status().to_string();
      expect_cold_bits(*chat, cold_);
      const size_t n_held = chat->state().kv().length();
      const Turn turn = says(chat->send("the second", sampled(++seed)), *chat);
      EXPECT_EQ(turn.usage.n_cached, n_held);
      if (HasFailure()) return;
      ASSERT_TRUE(chat->save("/s/talk", {.with_kv = with_kv}).ok());
    }
  }
}

TEST_P(SessionBits, NamespacesDoNotAffectEachOthersBits) {
  on_every_machine([&](const Machine& machine) {
    const auto shared = engine(machine);
    std::vector<Usage> usages;
    std::vector<const std::byte*> pages;
    for (const char* name : {"alice", "bob"}) {
      ChatSession chat = session(shared, {.system = kSystem, .cache_namespace = name});
      EXPECT_EQ(says(chat.send("Hello world", sampled(1, 40)), chat).usage.n_cached, 0u);
      says(chat.send("again", sampled(2)), chat);
      usages.push_back(chat.usage());
      pages.push_back(chat.state().kv().pages()[0].data());
    }
    EXPECT_EQ(usages[0].n_prefilled, usages[1].n_prefilled);
    EXPECT_NE(pages[0], pages[1]);
    EXPECT_EQ(said_[0], said_[2]) << "both namespaces get the same answers";
    EXPECT_EQ(said_[1], said_[3]);
  });
}

INSTANTIATE_TEST_SUITE_P(All, SessionBits, testing::ValuesIn(kEveryKvType),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ibid
