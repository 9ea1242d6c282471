// Random conversations: sessions send, edit, regenerate, fork, rewind, choose, are cancelled, saved and loaded, on
// pools that are too small and models with arbitrary output; random_conversation_laws.h is checked after each call.
// Some have recurrent layers or windows in pools too small for one sequence, slow listeners, and other sessions that
// take the pages: there a cut may lose rows that the turn did not compute.
//
// A failure prints its seed and the calls that led there. Environment variables for longer runs:
//   IBID_RANDOM_SEED           the first seed; with IBID_RANDOM_CONVERSATIONS=1 that conversation again
//   IBID_RANDOM_CONVERSATIONS  how many, for hours of them: IBID_RANDOM_CONVERSATIONS=1000000
//   IBID_RANDOM_CALLS          calls of each
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "base/file_ops.h"
#include "tests/runtime/random_conversation.h"
#include "tests/support/memory_file_ops.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr size_t kConversations = 60;
#elif defined(__SANITIZE_ADDRESS__)
constexpr size_t kConversations = 250;
#else
constexpr size_t kConversations = 1200;
#endif
constexpr size_t kConversationsInShortPools = kConversations / 4;
constexpr size_t kConversationsOnCheckpoints = kConversations / 40;
constexpr size_t kConversationsWithAnother = 8;
constexpr size_t kCalls = 25;
constexpr size_t kTurnsElsewhere = 4;
constexpr int kNoRoom = 77;  // exit status
constexpr const char* kOther = "RandomConversationInAnotherProcess.DISABLED_ProcessContinuesTheSavedConversation";

uint64_t variable(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? std::strtoull(value, nullptr, 10) : otherwise;
}

size_t n_calls() { return variable("IBID_RANDOM_CALLS", kCalls); }

void expect_every_law(RandomKind kind, size_t n_conversations) {
  const uint64_t first = variable("IBID_RANDOM_SEED", 1);
  const uint64_t n = variable("IBID_RANDOM_CONVERSATIONS", n_conversations);
  RandomConversation::Totals sum;
  for (uint64_t seed = first; seed < first + n; ++seed) {
    MemoryFileOps files;
    RandomConversation conversation(seed, files, "/talks", kind);
    conversation.run(n_calls());
    sum.n_turns += conversation.totals().n_turns;
    sum.n_answered += conversation.totals().n_answered;
    sum.n_reprefilled += conversation.totals().n_reprefilled;
    ASSERT_FALSE(testing::Test::HasFailure()) << "IBID_RANDOM_SEED=" << seed << " IBID_RANDOM_CONVERSATIONS=1, after\n"
                                              << conversation.calls();
  }
  std::cout << sum.n_turns << " turns in " << n << " conversations from seed " << first << ", " << sum.n_answered
            << " of them answered, " << sum.n_reprefilled << " tokens prefilled again\n";
  if (n < n_conversations) return;
  EXPECT_GT(sum.n_answered, sum.n_turns / 4) << "the pools are too small to say anything";
  EXPECT_GT(sum.n_reprefilled, 0u) << "the pools are too large";
}

TEST(RandomConversationTest, SessionLawsHoldAfterEveryCall) { expect_every_law(RandomKind::kAny, kConversations); }

TEST(RandomConversationTest, SessionLawsHoldInPoolTooSmallForTheModel) {
  expect_every_law(RandomKind::kShortPool, kConversationsInShortPools);
}

TEST(RandomConversationTest, CheckpointInTooSmallPoolGivesBitsOfColdPass) {
  if (!shared_dir()) GTEST_SKIP() << "the reference data is not there: set IBID_SHARED to it";
  expect_every_law(RandomKind::kCheckpoint, kConversationsOnCheckpoints);
}

// Runs this program again for the test that continues the saved session. Returns its exit status, or -1.
int run_elsewhere(const std::string& directory, uint64_t seed) {
  const std::string program = "/proc/self/exe";
  const std::string filter = std::string("--gtest_filter=").append(kOther);
  std::vector<std::string> words = {program, filter, "--gtest_also_run_disabled_tests", "--gtest_brief=1"};
  std::vector<std::string> variables = {"IBID_RANDOM_DIRECTORY=" + directory,
                                        "IBID_RANDOM_SEED=" + std::to_string(seed)};
  std::vector<char*> arguments, environment;
  for (std::string& word : words) arguments.push_back(word.data());
  for (std::string& each : variables) environment.push_back(each.data());
  arguments.push_back(nullptr);
  environment.push_back(nullptr);
  pid_t child = 0;
  if (::posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments.data(), environment.data()) != 0) return -1;
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

TEST(RandomConversationTest, ConversationContinuesTheSameInAnotherProcess) {
  const uint64_t first = variable("IBID_RANDOM_SEED", 1);
  const uint64_t n = variable("IBID_RANDOM_CONVERSATIONS", kConversationsWithAnother);
  size_t n_compared = 0;
  for (uint64_t seed = first; seed < first + n; ++seed) {
    const TempDir dir;
    RandomConversation conversation(seed, system_file_ops(), dir.file("talks"));
    conversation.run(n_calls());
    const bool had_room = !HasFailure() && conversation.leave("left", seed, kTurnsElsewhere);
    ASSERT_FALSE(HasFailure()) << "seed " << seed << ", after\n" << conversation.calls();
    if (!had_room) continue;
    const int status = run_elsewhere(dir.file("talks"), seed);
    if (status == kNoRoom) continue;
    ASSERT_EQ(status, 0) << "seed " << seed;
    conversation.come_back("back");
    ASSERT_FALSE(HasFailure()) << "seed " << seed << ", after\n" << conversation.calls();
    ++n_compared;
  }
  EXPECT_TRUE(n < kConversationsWithAnother || n_compared > 0);
}

// Not a separate test: run by ConversationContinuesTheSameInAnotherProcess in another process.
TEST(RandomConversationInAnotherProcess, DISABLED_ProcessContinuesTheSavedConversation) {
  const char* directory = std::getenv("IBID_RANDOM_DIRECTORY");
  if (directory == nullptr) GTEST_SKIP() << "run by RandomConversationTest";
  const uint64_t seed = variable("IBID_RANDOM_SEED", 0);
  const RandomProcess process(RandomSetting(seed), system_file_ops(), directory);
  Result<ChatSession> session = process.load("left");
  ASSERT_TRUE(session.ok()) << session.status().to_string();
  if (!go_on_with(*session, process.tokenizer(), seed, kTurnsElsewhere)) ::_exit(kNoRoom);
  expect_session_laws(*session, process.tokenizer());
  const Status saved = process.save(*session, "back", true);
  ASSERT_TRUE(saved.ok()) << saved.to_string();
}

}  // namespace
}  // namespace ibid
