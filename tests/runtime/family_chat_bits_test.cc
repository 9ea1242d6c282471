// Sessions on models with sliding windows, recurrent states, and both beside full and latent attention, as real
// checkpoints with real kernels. After any calls KV, states and logits are those of one cold pass over the tokens, and
// only the tokens that the layers require are prefilled again: none while the conversation grows, and after a change at
// most those since the last state.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/token_prefix.h"
#include "cache/store/lru_kv_cache_store.h"
#include "cache/tier/file_tier.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/runtime/tiny_chat.h"
#include "tests/support/memory_file_ops.h"
#include "tests/support/paths.h"

namespace ibid {
namespace {

struct Family {
  const char* name;
  KvDType kv_dtype;
};

void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

// Every kind of recurrent layer, windows of 16 positions, and every type of keys and values.
constexpr Family kFamilies[] = {{"qwen3_5_text", KvDType::kInt8}, {"jamba", KvDType::kF32},
                                {"lfm2", KvDType::kK8V4},         {"kimi_linear", KvDType::kF16},
                                {"mamba2", KvDType::kInt8},       {"falcon_h1", KvDType::kInt4},
                                {"gemma3_text", KvDType::kInt8},  {"gpt_oss", KvDType::kF16}};

// Options for text that stays the same when rendered as history: no parts of characters, no control tokens. With
// `thinks`, sometimes the end of thinking.
TurnOptions spoken(uint64_t seed, size_t max_tokens, bool thinks = false) {
  static const FakeTokenizer tokenizer = FakeTokenizer::small();
  TurnOptions options{.sampler = {.temperature = 1.0, .min_p = 0, .seed = seed}, .max_tokens = max_tokens};
  for (TokenId id = 128; id < 256; ++id) options.sampler.logit_bias[id] = -100;
  for (const char* piece : {"<|endoftext|>", "<|im_start|>", "<|tool|>", "</think>"}) {
    options.sampler.logit_bias[*tokenizer.find_token(piece)] = -100;
  }
  if (thinks) options.sampler.logit_bias[*tokenizer.find_token("</think>")] = 8;
  return options;
}

class FamilyChatBits : public testing::TestWithParam<Family> {
 protected:
  void SetUp() override {
    if (!shared_dir()) GTEST_SKIP() << "the reference data is not there: set IBID_SHARED to it";
    cold_.emplace(load({}, 1, kTinyContext));
  }

  std::unique_ptr<TransformerModel> load(std::optional<Isa> isa, int n_threads, size_t max_chunk) const {
    const ModelOptions options{
        .kv_dtype = GetParam().kv_dtype, .n_threads = n_threads, .isa = isa, .max_chunk = max_chunk};
    return load_tiny_checkpoint(*shared_dir() + "/reference/tiny/" + GetParam().name, options);
  }
  // Two threads, and passes of at most 48 rows; the cold model has one thread and one pass.
  std::shared_ptr<Engine> engine(const char* chat_template = kChatMl, EngineParts parts = {},
                                 size_t budget = size_t{256} << 20) const {
    return tiny_engine(load({}, 2, 48), chat_template, std::move(parts), budget);
  }
  static ChatSession session(const std::shared_ptr<Engine>& engine, const std::string& system = "be the best") {
    SessionOptions options{.system = system, .now = "2026-01-31T12:00:00", .repair_when_idle = false};
    return *ChatSession::create(engine, std::move(options));
  }

  // Checks a turn after a change: of the common prefix of its prompt and the known tokens, all are reused but those
  // since the last state; without states, all.
  void expect_reuse(const Turn& turn, const ChatSession& chat, const Tokens& known, size_t n_known) {
    const TokenSpan prompt = TokenSpan(chat.ids()).first(turn.usage.n_prompt);
    size_t common = std::min(common_prefix_length(known, prompt), n_known);
    common = std::min(common, prompt.size() - 1);  // the last one is fed for its logits, unless they are cached
    EXPECT_GE(turn.usage.n_cached + chat.engine()->state().state_share().spacing, common);
    EXPECT_EQ(turn.usage.n_cached + turn.usage.n_prefilled, turn.usage.n_prompt);
    expect_cold_bits(chat, *cold_);
  }
  void expect_reuse(const Turn& turn, const ChatSession& chat, const ChatSession& before) {
    expect_reuse(turn, chat, before.ids(), before.ids().size() - 1);
  }

  std::optional<ColdModel> cold_;
};

TEST_P(FamilyChatBits, GrowingChatPrefillsNothingAgain) {
  ChatSession chat = session(engine());
  size_t n_before = 0;  // positions after the previous turn
  for (uint64_t i = 0; i < 100; ++i) {
    const Turn turn = must(chat.send(i % 9 == 0 ? "Hello " + std::string(9, 'q') : "Hello", spoken(i + 1, 4)));
    ASSERT_EQ(turn.usage.n_cached, n_before) << i;
    ASSERT_EQ(turn.usage.n_reprefilled, 0u) << i;
    ASSERT_FALSE(turn.lost_prefix.has_value()) << i;
    n_before = turn.usage.n_prompt + turn.usage.n_decoded - 1;  // the answer's last token is fed with the next turn
    if (i % 24 != 3) continue;
    expect_cold_bits(chat, *cold_);
    if (HasFailure()) return;
  }
  EXPECT_GT(n_before, 1600u);
}

TEST_P(FamilyChatBits, AnswerAndLaterTokensArePrefilledAgainAfterThinkingIsStripped) {
  ChatSession chat = session(engine(kStripsThinking), std::string(100, 'z'));
  size_t n_prompt_before = 0, n_end_before = 0, n_stripped = 0;
  bool had_thought = false;
  for (uint64_t i = 0; i < 14; ++i) {
    const Turn turn = must(chat.send(i % 5 == 4 ? std::string(150, 'q') : "Hello", spoken(i + 1, 30, true)));
    // The previous prompt is a prefix of this one; the text after it is rendered anew.
    ASSERT_GE(turn.usage.n_cached, had_thought ? n_prompt_before : n_end_before) << i;
    had_thought = turn.text.find("</think>") != std::string::npos;
    n_stripped += had_thought ? 1 : 0;
    n_prompt_before = turn.usage.n_prompt;
    n_end_before = turn.usage.n_prompt + turn.usage.n_decoded - 1;
    expect_cold_bits(chat, *cold_);
    if (HasFailure()) return;
  }
  EXPECT_GE(n_stripped, 5u);
}

TEST_P(FamilyChatBits, EditResumesFromTheLastStateBeforeTheEdit) {
  ChatSession chat = session(engine(), std::string(300, 'z'));
  for (uint64_t i = 0; i < 6; ++i) must(chat.send(std::string(60 + 40 * i, 'q') + " Hello", spoken(i + 1, 24)));
  ASSERT_GT(chat.ids().size(), chat.engine()->state().state_share().spacing * 2);
  for (const size_t message : {11u, 5u, 1u, 7u, 3u, 9u}) {
    SCOPED_TRACE("message " + std::to_string(message));
    ChatSession fork = *chat.fork();
    expect_reuse(must(fork.edit(message, std::string(30, 'q') + " the other", spoken(20, 12))), fork, chat);
    if (HasFailure()) return;
  }
  ChatSession fork = *chat.fork();
  ASSERT_TRUE(fork.set_system(std::string(200, 'z') + " and more").ok());
  expect_reuse(must(fork.send("x", spoken(21, 12))), fork, chat);
  expect_cold_bits(chat, *cold_);
}

TEST_P(FamilyChatBits, RegenerateForkAndRewindChangeNoBit) {
  ChatSession chat = session(engine(), std::string(80, 'z'));
  for (uint64_t i = 0; i < 4; ++i) must(chat.send(std::string(150, 'q') + " Hello", spoken(i + 1, 40)));
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(must(chat.regenerate(spoken(10 + i, 20))).usage.n_prefilled, 0u) << i;
    expect_cold_bits(chat, *cold_);
  }
  const std::vector<Turn> turns = *chat.send_for_answers("ab", 3, spoken(7, 20));
  EXPECT_EQ(turns[1].usage.n_prefilled + turns[2].usage.n_prefilled, 0u);
  for (const size_t i : {2u, 0u, 1u}) {
    ASSERT_TRUE(chat.choose(i).ok());
    expect_cold_bits(chat, *cold_);
    ChatSession fork = *chat.fork();
    expect_reuse(must(fork.send("Hello", spoken(30, 8))), fork, chat);
  }
  ChatSession fork = *chat.fork();
  const size_t n_held = chat.state().kv().length();
  EXPECT_GE(must(chat.send("one way", spoken(40, 30))).usage.n_cached, n_held);
  EXPECT_GE(must(fork.send("another", spoken(41, 30))).usage.n_cached, n_held);
  expect_cold_bits(chat, *cold_);
  expect_cold_bits(fork, *cold_);
  for (const size_t n_messages : {9u, 5u, 3u}) {
    SCOPED_TRACE("rewound to " + std::to_string(n_messages));
    const ChatSession before = *chat.fork();
    ASSERT_TRUE(chat.rewind_to(n_messages).ok());
    expect_reuse(must(chat.send("one day", spoken(50, 12))), chat, before);
  }
}

TEST_P(FamilyChatBits, CancelledTurnsChangeNothing) {
  ChatSession chat = session(engine());
  must(chat.send(std::string(200, 'q'), spoken(1, 30)));
  for (const StopMode mode : {StopMode::kDiscard, StopMode::kKeepPartial}) {
    for (size_t n_events = 1; n_events < 40; n_events += 6) {
      SCOPED_TRACE(n_events);
      const ChatSession before = *chat.fork();
      std::stop_source stop;
      size_t n_heard = 0;
      TurnOptions options = spoken(n_events, 30);
      options.stop = stop.get_token();
      options.stop_mode = mode;
      static_cast<void>(chat.send(std::string(90, 'w'), options, [&](const TurnEvent&) {
        if (++n_heard == n_events) stop.request_stop();
      }));
      expect_cold_bits(chat, *cold_, false);
      expect_reuse(must(chat.send("Hello", spoken(60, 6))), chat, before);
      ASSERT_TRUE(chat.rewind_to(3).ok());
      if (HasFailure()) return;
    }
  }
}

// A model that says mostly three words: drafts are right, wrong, and partly right.
TEST_P(FamilyChatBits, DraftsChangeNoBit) {
  const FakeTokenizer small = FakeTokenizer::small();
  const auto shared = engine();
  ChatSession with = session(shared), without = session(shared);
  size_t n_accepted = 0, n_refused = 0;
  for (uint64_t i = 0; i < 6; ++i) {
    TurnOptions options = spoken(i / 2 + 1, 60);
    options.sampler.temperature = 3;
    for (const char* piece : {"Hello", "ab", "q"}) options.sampler.logit_bias[*small.find_token(piece)] = 20;
    const Turn guessed = must(with.send("Hello ab Hello ab", options));
    options.speculate = false;
    const Turn plain = must(without.send("Hello ab Hello ab", options));
    ASSERT_EQ(guessed.text, plain.text);
    ASSERT_EQ(with.ids(), without.ids());
    n_accepted += guessed.usage.n_accepted;
    n_refused += guessed.usage.n_drafted - guessed.usage.n_accepted;
    ASSERT_EQ(guessed.usage.n_reprefilled, 0u);
    expect_cold_bits(with, *cold_);
    expect_cold_bits(without, *cold_);
    if (HasFailure()) return;
  }
  EXPECT_GT(n_accepted, 0u);
  EXPECT_GT(n_refused, 0u);
}

TEST_P(FamilyChatBits, OtherSessionsResumeAtDeepestState) {
  const auto shared = engine();
  const std::string system(400, 'z');
  ChatSession first = session(shared, system);
  for (uint64_t i = 0; i < 4; ++i) must(first.send(std::string(100, 'q') + std::to_string(i), spoken(i + 1, 20)));
  // A session with only the same system message.
  ChatSession other = session(shared, system);
  const Turn apart = must(other.send("the other", spoken(9, 10)));
  const std::string opening = "<|im_start|>system\n" + system + "<|im_end|>\n<|im_start|>user\n";
  EXPECT_GE(apart.usage.n_cached, FakeTokenizer::small().template_ids(opening).size());
  expect_cold_bits(other, *cold_);
  // Sessions with the whole conversation, or its beginning.
  for (const size_t n_messages : {9u, 5u, 3u}) {
    SCOPED_TRACE(n_messages);
    ChatSession same = session(shared, "");
    Json history = first.state().messages();
    history.erase(history.begin() + static_cast<std::ptrdiff_t>(n_messages), history.end());
    history.push_back({{"role", "user"}, {"content", "x"}});
    ASSERT_TRUE(same.state().set_history(history).ok());
    expect_reuse(must(same.answer(spoken(10, 10))), same, first);
  }
}

// Each process continues what the previous one wrote.
TEST_P(FamilyChatBits, OtherProcessesResumeTheConversation) {
  for (const bool with_kv : {true, false}) {
    SCOPED_TRACE(with_kv ? "rows in the file" : "a cache directory");
    MemoryFileOps files;
    ASSERT_TRUE(files.make_directory("/s").ok());
    const auto process = [&] {
      EngineParts parts;
      parts.files = &files;
      parts.fingerprint = FingerprintBuilder().add("model", GetParam().name).finish();
      if (!with_kv) parts.cache_directory = "/kv";
      parts.cache_directory_bytes = 64u << 20;
      return engine(kChatMl, std::move(parts));
    };
    {
      ChatSession first = session(process(), std::string(200, 'z'));
      for (uint64_t i = 0; i < 3; ++i) must(first.send(std::string(90, 'q'), spoken(i + 1, 30)));
      ASSERT_TRUE(first.save("/s/talk", {.with_kv = with_kv}).ok());
    }
    for (uint64_t i = 0; i < 2; ++i) {
      Result<ChatSession> chat = ChatSession::load(process(), "/s/talk");
      ASSERT_TRUE(chat.ok()) << chat.status().to_string();
      const size_t n_fed = chat->ids().size() - 1;
      EXPECT_EQ(must(chat->send("the second", spoken(i + 5, 20))).usage.n_cached, n_fed);
      expect_cold_bits(*chat, *cold_);
      if (HasFailure()) return;
      ASSERT_TRUE(chat->save("/s/talk", {.with_kv = with_kv}).ok());
    }
  }
}

// Sessions take turns in a pool that is too small for them: windows, rows and states are evicted, and no bit changes.
TEST_P(FamilyChatBits, EvictedPagesArePrefilledAgainWithSameBits) {
  const std::unique_ptr<TransformerModel> model = load({}, 1, 48);
  const auto shared = engine(kChatMl, {}, model->kv_layout().room_for(1024));
  std::vector<ChatSession> chats;
  for (uint64_t i = 0; i < 3; ++i) chats.push_back(session(shared, std::string(40 * i, 'z')));
  size_t n_reprefilled = 0;
  for (uint64_t i = 0; i < 18; ++i) {
    SCOPED_TRACE(i);
    ChatSession& chat = chats[i * 7 % 3];
    if (i % 5 == 4 && chat.state().messages().size() >= 4) {
      ASSERT_TRUE(chat.rewind_to(chat.state().messages().size() - 2).ok());
    }
    n_reprefilled += must(chat.send(std::string(90, 'q'), spoken(i + 1, 30))).usage.n_reprefilled;
    expect_cold_bits(chat, *cold_, false);
    if (HasFailure()) return;
  }
  EXPECT_GT(n_reprefilled, 0u) << "the pool was large enough";
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, FamilyChatBits, testing::ValuesIn(kFamilies),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace ibid
