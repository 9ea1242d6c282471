// The examples of docs/sessions.md, between "BEGIN document" and "END". They are copied verbatim in the document, which
// the test `examples` (check_examples.py) checks. The code around them sets them up and checks what they promise.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <thread>

#include "ibid/chat_session.h"
#include "ibid/turn_stream.h"
#include "tests/api/api_fixture.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

// A conversation on a fake model, in a working directory of its own.
struct SessionExamplesTest : testing::Test {
  SessionExamplesTest() : fixture(kChatMl, {}, 64u << 20, parts()), engine(fixture.engine), chat(session_of(engine)) {
    before = std::filesystem::current_path().string();
    std::filesystem::current_path(directory.path());
  }
  ~SessionExamplesTest() override { std::filesystem::current_path(before); }

  static EngineParts parts() {
    EngineParts parts;
    parts.fingerprint = FingerprintBuilder().add("model", "of the examples").finish();
    return parts;
  }
  // Scripts answers of two tokens, so that the cost of every turn is known.
  void say_little() { fixture.say(std::vector<Tokens>(40, fixture.tokenizer->sampled({"the", "ing"}))); }

  TempDir directory;
  std::string before;
  ChatFixture fixture;
  std::shared_ptr<Engine> engine;
  ChatSession chat;
};

// The same fixture with the default model, as model.gguf in the working directory.
struct RealModelSessionExamplesTest : testing::Test {
  void SetUp() override {
    IBID_NEED_REAL_MODEL(path);
    before = std::filesystem::current_path().string();
    std::filesystem::create_symlink(path, directory.file("model.gguf"));
    std::filesystem::current_path(directory.path());
  }
  void TearDown() override {
    if (!before.empty()) std::filesystem::current_path(before);
  }

  TempDir directory;
  std::string before;
};

TEST_F(RealModelSessionExamplesTest, FirstConversationExampleWorks) {
  // BEGIN docs/sessions.md
  const auto engine = Engine::load("model.gguf");
  if (!engine.ok()) {
    std::cerr << engine.status().message() << '\n';
    return;
  }
  auto chat = ChatSession::create(*engine, {.system = "You are brief."});
  const Result<Turn> first = chat->send("What is a page?", {.max_tokens = 40});
  const Result<Turn> second = chat->send("And of what is it made?", {.sampler = {.temperature = 0}, .max_tokens = 40});
  // END
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(chat->n_messages(), 5u);
  EXPECT_LT(second->usage.n_prefilled, second->usage.n_cached);
}

TEST_F(RealModelSessionExamplesTest, EngineOptionsExampleWorks) {
  // BEGIN docs/sessions.md
  auto engine = Engine::load("model.gguf", {.kv_dtype = KvDType::kK8V4,
                                            .n_threads = 2,
                                            .max_seq_len = 4096,
                                            .scheduling = {.latency_target_ms = 25},
                                            .cache_directory = "kv",
                                            .cache_directory_bytes = 1'000'000'000});
  if (engine.ok() && !(*engine)->cache_directory_status().ok()) {
    std::cerr << "without the directory: " << (*engine)->cache_directory_status().message() << '\n';
  }
  // END
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  EXPECT_TRUE((*engine)->has_cache_directory());
  EXPECT_TRUE((*engine)->flush_cache_directory().ok());
}

TEST_F(SessionExamplesTest, StreamingExampleWorks) {
  fixture.say({fixture.tokenizer->sampled({"Hello", " ", "the"})});
  testing::internal::CaptureStdout();
  // BEGIN docs/sessions.md
  const auto show = [](const TurnEvent& event) {
    switch (event.kind) {
      case TurnEvent::Kind::kLeftOut:  // before anything is computed: a full context made messages go
        std::cerr << event.turn->left_out.n_messages << " messages are left out\n";
        break;
      case TurnEvent::Kind::kPrefill:
        std::cerr << event.n_done << " of " << event.n_total << " positions of the prompt\n";
        break;
      case TurnEvent::Kind::kText: std::cout << event.text << std::flush; break;
      case TurnEvent::Kind::kFinish: std::cout << '\n'; break;
      default: break;  // only a TurnStream emits the others
    }
  };
  const Result<Turn> turn = chat.send("Hello!", {}, show);
  // END
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "Hello the\n");
}

TEST_F(SessionExamplesTest, PullingExampleWorks) {
  say_little();
  testing::internal::CaptureStdout();
  // BEGIN docs/sessions.md
  TurnStream stream(chat, "Hello!", {.max_tokens = 40});
  while (const std::optional<std::string> piece = stream.next()) std::cout << *piece << std::flush;
  const Result<Turn> turn = stream.finish();
  // END
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "theing");
  ASSERT_TRUE(turn.ok()) << turn.status().message();
  EXPECT_EQ(turn->text, "theing");
}

TEST_F(SessionExamplesTest, ScoresExampleWorks) {
  testing::internal::CaptureStdout();
  // BEGIN docs/sessions.md
  const Result<Tokens> question = engine->encode("The capital of France is");
  const Result<Tokens> answer = engine->encode(" Paris");
  Tokens ids = *question;
  ids.insert(ids.end(), answer->begin(), answer->end());
  const Result<Scored> scores = engine->score(ids, {.first = question->size(), .n_top = 3});
  double sum = 0;
  for (const TokenLogprobs& token : scores->tokens) sum += token.logprob;
  std::cout << "log-probability of the answer: " << sum << '\n';
  // END
  EXPECT_NE(testing::internal::GetCapturedStdout().find("log-probability of the answer: -"), std::string::npos);
  ASSERT_EQ(scores->tokens.size(), answer->size());
  for (size_t i = 0; i < answer->size(); ++i) EXPECT_EQ(scores->tokens[i].id, (*answer)[i]);
  EXPECT_EQ(scores->tokens[0].top.size(), 3u);
}

TEST_F(SessionExamplesTest, UsageAndLogprobsExampleWorks) {
  say_little();
  testing::internal::CaptureStdout();
  // BEGIN docs/sessions.md
  const Result<Turn> turn = chat.send("Hello!", {.n_logprobs = 2});
  const Usage& usage = turn->usage;
  std::cout << usage.n_prompt << " tokens, " << usage.n_cached << " of them read before, " << usage.n_prefilled
            << " now; said: " << usage.n_decoded << "; first token after " << turn->timings.ttft_ms << " ms\n";
  if (turn->lost_prefix) std::cout << turn->lost_prefix->to_string() << '\n';
  for (const TokenLogprobs& token : turn->logprobs) {
    std::cout << engine->token_bytes(token.id) << ": " << token.logprob << '\n';
  }
  // END
  EXPECT_NE(testing::internal::GetCapturedStdout().find("0 of them read before"), std::string::npos);
  EXPECT_EQ(usage.n_prompt, usage.n_cached + usage.n_prefilled);
  ASSERT_EQ(turn->logprobs.size(), 2u) << "the token that ended the turn has none";
  EXPECT_EQ(turn->logprobs[0].top.size(), 2u);
}

TEST_F(SessionExamplesTest, CancellingExampleWorks) {
  const Tokens story =
      fixture.tokenizer->sampled({"Hello", " wor", "lo", "the", "ing", "abc", "Hello", "the", "ing", "abc"});
  fixture.say({story, story});
  // BEGIN docs/sessions.md
  std::stop_source stop;
  size_t n_bytes = 0;
  const auto until_long_enough = [&](const TurnEvent& event) {
    n_bytes += event.text.size();
    if (n_bytes > 10) stop.request_stop();  // any thread may
  };
  const Result<Turn> kept = chat.send("Tell me a story", {.stop = stop.get_token()}, until_long_enough);

  stop = std::stop_source();
  n_bytes = 0;
  const Result<Turn> never_was =
      chat.send("Another", {.stop = stop.get_token(), .stop_mode = StopMode::kDiscard}, until_long_enough);
  // END
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(kept->finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(never_was.status().code(), ErrorCode::kCancelled);
  EXPECT_EQ(chat.n_messages(), 2u);
  expect_replays(chat);
}

TEST_F(SessionExamplesTest, BranchesExampleWorks) {
  say_little();
  must(chat.send("first", greedy()));
  // BEGIN docs/sessions.md
  Result<Turn> turn = chat.send("Name a river.");
  turn = chat.regenerate({.sampler = {.temperature = 1.2}});  // another answer to it
  turn = chat.edit(2, "Name a mountain.");                    // message 2 says something else, and is answered
  Status status = chat.rewind_to(2);                          // the first turn is what is left

  Result<ChatSession> other = chat.fork();  // goes on from here on its own
  turn = other->send("Name a lake.");

  const auto answers = chat.send_for_answers("Name a colour.", 3, {.sampler = {.seed = 7}});
  status = chat.choose(2);  // the third; its seed was 9
  // END
  EXPECT_EQ(other->n_messages(), 4u);
  EXPECT_EQ(other->message(2).content, "Name a lake.");
  ASSERT_TRUE(answers.ok());
  EXPECT_EQ(answers->at(2).seed, 9u);
  EXPECT_EQ(chat.message(2).content, "Name a colour.");
  expect_replays(chat);
}

TEST_F(SessionExamplesTest, PrefillAheadExampleWorks) {
  say_little();
  // BEGIN docs/sessions.md
  Result<Usage> read = chat.prefill();  // the system message, and what the template writes around it
  Status status = chat.append({"user", "Here is the report: ..."});
  status = chat.append({"user", "What does it say?"});
  read = chat.prefill({}, Priority::kLow);
  const Result<Turn> turn = chat.answer();
  // END
  ASSERT_TRUE(read.ok() && turn.ok());
  EXPECT_GT(read->n_prefilled, 0u);
  EXPECT_EQ(turn->usage.n_prefilled, 0u);
}

TEST_F(SessionExamplesTest, HistoriesExampleWorks) {
  say_little();
  // BEGIN docs/sessions.md
  std::vector<Message> history = {{"system", "You are brief."}, {"user", "Name a river."}};
  Status status = chat.set_history(history);
  Result<Turn> turn = chat.answer();

  history = chat.messages();  // with the answer
  history.push_back({"user", "And another."});
  status = chat.set_history(history);
  turn = chat.answer();  // reads what is new
  // END
  ASSERT_TRUE(turn.ok());
  EXPECT_EQ(turn->usage.n_prefilled, 1 + fixture.next_prompt("And another.").size()) << "and the end-of-turn token";
  EXPECT_FALSE(turn->lost_prefix);
}

TEST_F(SessionExamplesTest, NamespacesExampleWorks) {
  say_little();
  // BEGIN docs/sessions.md
  const SessionOptions of_alice{.system = "You are brief.", .cache_namespace = "alice"};
  const SessionOptions of_bob{.system = "You are brief.", .cache_namespace = "bob"};
  const Result<Turn> alices = ChatSession::create(engine, of_alice)->send("Hello!");
  const Result<Turn> again = ChatSession::create(engine, of_alice)->send("Hello!");  // found: n_prefilled == 0
  const Result<Turn> bobs = ChatSession::create(engine, of_bob)->send("Hello!");     // not found: n_cached == 0
  // END
  EXPECT_EQ(alices->usage.n_cached, 0u);
  EXPECT_EQ(again->usage.n_prefilled, 0u);
  EXPECT_EQ(bobs->usage.n_cached, 0u);
}

TEST(SessionExamplesFullContextTest, FullContextExampleWorks) {
  ChatFixture fixture(kChatMl, {.max_seq_len = 160});
  const std::shared_ptr<Engine> engine = fixture.engine;
  fixture.say(std::vector<Tokens>(40, fixture.tokenizer->sampled({"the", "ing"})));
  // BEGIN docs/sessions.md
  auto chat = ChatSession::create(engine, {.when_full = WhenFull::kDropOldestTurns});
  Result<Turn> turn = chat->send("My name is Ada.");
  const Status pinned = chat->pin(0);
  for (int i = 0; i < 10; ++i) {
    turn = chat->send("Number " + std::to_string(i));
    if (turn.ok() && turn->left_out.any()) std::cerr << turn->left_out.n_messages << " messages are gone\n";
  }
  // END
  EXPECT_LT(chat->n_messages(), 22u);
  EXPECT_EQ(chat->message(0).content, "My name is Ada.");
}

TEST(SessionExamplesManyTest, ManySessionsExampleWorks) {
  ChatFixture fixture;
  const std::shared_ptr<Engine> engine = fixture.engine;
  fixture.say(std::vector<Tokens>(1, fixture.tokenizer->sampled({"the", "ing"})));
  // BEGIN docs/sessions.md
  const auto talk = [&engine](const std::string& question, Priority priority) {
    auto own = ChatSession::create(engine);
    const Result<Turn> turn = own->send(question, {.priority = priority});
    return turn.ok() ? turn->text : turn.status().message();
  };
  {
    std::jthread somebody_waits(talk, "Hello!", Priority::kHigh);
    std::jthread another(talk, "What is a page?", Priority::kNormal);
    std::jthread nobody_waits(talk, "Summarise this: ...", Priority::kLow);
  }
  const SchedulerStats stats = engine->scheduler_stats();  // passes, and how many of them were shared
  // END
  EXPECT_GE(stats.n_passes, 1u);
  EXPECT_LE(stats.n_shared_passes, stats.n_passes);
}

TEST_F(SessionExamplesTest, SavingExampleWorks) {
  say_little();
  must(chat.send("Hello!", greedy()));
  // BEGIN docs/sessions.md
  Status saved = chat.save("talk.ibid");              // messages, and the ids of the answers
  saved = chat.save("talk.ibid", {.with_kv = true});  // and the keys and values
  Result<ChatSession> resumed = ChatSession::load(engine, "talk.ibid");
  if (resumed.ok()) const Result<Turn> turn = resumed->send("Where were we?");
  // END
  ASSERT_TRUE(resumed.ok()) << resumed.status().message();
  EXPECT_EQ(resumed->n_messages(), 4u);
  expect_replays(*resumed);
  // BEGIN docs/sessions.md
  const Result<ChatSession> kept = ChatSession::load(engine, "talk.ibid");
  if (kept.ok() && kept->load_warnings().any()) std::cerr << "without " << kept->load_warnings().to_string() << '\n';
  // END
  EXPECT_TRUE(kept.ok() && !kept->load_warnings().any());
}

TEST_F(SessionExamplesTest, ErrorsExampleWorks) {
  say_little();
  const std::vector<Message> messages = chat.messages();
  testing::internal::CaptureStderr();
  // BEGIN docs/sessions.md
  const Result<Turn> turn = chat.send("broken \xff text");
  if (!turn.ok()) {
    switch (turn.status().code()) {
      case ErrorCode::kContextFull:
      case ErrorCode::kOutOfMemory: break;  // say less, or wait; the session is as it was
      case ErrorCode::kCancelled: break;
      default: std::cerr << turn.status().message() << '\n';
    }
  }
  // END
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "the message is not valid UTF-8\n");
  EXPECT_EQ(chat.messages(), messages);
}

// BEGIN docs/sessions.md
// An answer that is one of a list: each choice is a sequence of ids.
class OneOf : public TokenConstraint {
 public:
  explicit OneOf(std::vector<Tokens> choices) : choices_(std::move(choices)) {}

  void allowed(TokenMask& mask) const override {
    for (const Tokens& choice : choices_) {
      if (choice.size() > n_) mask.add(choice[n_]);
    }
  }
  bool may_end() const override {
    return std::any_of(choices_.begin(), choices_.end(), [&](const Tokens& choice) { return choice.size() == n_; });
  }
  void push(TokenId id) override {
    std::erase_if(choices_, [&](const Tokens& choice) { return choice.size() <= n_ || choice[n_] != id; });
    ++n_;
  }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<OneOf>(*this); }

 private:
  std::vector<Tokens> choices_;  // that are still possible
  size_t n_ = 0;                 // ids so far
};
// END

TEST_F(SessionExamplesTest, ConstraintsExampleWorks) {
  // BEGIN docs/sessions.md
  std::vector<Tokens> choices;
  for (const char* text : {"yes", "no", "not sure"}) {
    choices.push_back(*engine->encode(text));
  }
  const Result<Turn> turn = chat.send("Is water wet?", {.constraint = std::make_shared<OneOf>(std::move(choices))});
  // END
  ASSERT_TRUE(turn.ok()) << turn.status().message();
  EXPECT_TRUE(turn->text == "yes" || turn->text == "no" || turn->text == "not sure") << turn->text;
  EXPECT_EQ(turn->finish_reason, FinishReason::kStop);
  expect_replays(chat);
}

}  // namespace
}  // namespace ibid
