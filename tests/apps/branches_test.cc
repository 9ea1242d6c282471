// Branches of a conversation: which branches exist, where /undo returns to, and how they are saved.
#include "apps/chat/branches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/chat/chat_backend.h"
#include "apps/sessions/message_text.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/faulty_file_ops.h"
#include "tests/support/memory_file_ops.h"

namespace ibid {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

EngineParts parts_on(FileOps& files) {
  EngineParts parts;
  parts.files = &files;
  return parts;
}

// A process, with an engine, that saves conversations in `files`.
struct Process : ChatFixture {
  explicit Process(FileOps& files) : ChatFixture(kChatMl, {}, 64u << 20, parts_on(files)) {
    say({tokenizer->sampled({"a"}), tokenizer->sampled({"b"}), tokenizer->sampled({"c"}), tokenizer->sampled({"d"})});
  }
};

class BranchesTest : public testing::Test {
 protected:
  BranchesTest() { EXPECT_TRUE(memory_.make_directory("/s").ok()); }

  static void say(Branches& branches, const std::string& text) {
    const size_t n_before = branches.messages().size();
    must(branches.now().send(text, greedy(), {}));
    branches.has_grown(n_before, "say " + text);
  }
  static std::unique_ptr<ChatBackend> talk_of(Process& process) {
    return std::make_unique<LocalBackend>(process.session());
  }
  static Tokens ids_of(const Branches& branches) {
    return dynamic_cast<const LocalBackend&>(branches.now()).session().ids();
  }
  static void begin_anew(Branches& branches) {
    std::unique_ptr<ChatBackend> fresh = *branches.now().fork();
    ASSERT_TRUE(fresh->reset().ok());
    branches.replace(std::move(fresh), "/clear");
  }
  // Returns the questions of a branch, concatenated.
  static std::string questions(const Json& messages) {
    std::string text;
    for (const Json& message : messages) text += role_of(message) == "user" ? text_of(message) : "";
    return text;
  }
  static std::string now(const Branches& branches) { return questions(branches.messages()); }
  static std::vector<std::string> others(Branches& branches) {
    std::vector<std::string> all;
    for (const Branches::View& view : branches.others()) all.push_back(questions(*view.messages));
    return all;
  }

  MemoryFileOps memory_;
};

TEST_F(BranchesTest, UndoAndRedoMoveOneChangeAtATime) {
  Process process(memory_);
  Branches branches(talk_of(process));
  say(branches, "x");
  say(branches, "y");
  begin_anew(branches);
  say(branches, "z");
  const Tokens ids = ids_of(branches);
  std::vector<std::string> seen;
  while (branches.undo().ok()) seen.push_back(now(branches));
  EXPECT_THAT(seen, ElementsAre("", "xy", "x", ""));
  EXPECT_EQ(branches.undo().status().code(), ErrorCode::kNotFound);
  seen.clear();
  while (branches.redo().ok()) seen.push_back(now(branches));
  EXPECT_THAT(seen, ElementsAre("x", "xy", "", "z"));
  EXPECT_EQ(ids_of(branches), ids) << "redo keeps the sampled tokens";
}

TEST_F(BranchesTest, AbandonedMessagesBecomeABranchUnlessPrefixOfAnother) {
  Process process(memory_);
  Branches branches(talk_of(process));
  say(branches, "x");
  say(branches, "y");
  EXPECT_THAT(others(branches), IsEmpty());
  ASSERT_TRUE(branches.undo().ok());
  EXPECT_THAT(others(branches), ElementsAre("xy"));
  say(branches, "z");
  EXPECT_THAT(others(branches), ElementsAre("xy"));
  const Branches::View view = branches.others()[0];
  EXPECT_EQ(view.n_common, 2u);
  ASSERT_TRUE(branches.go({view.number, SIZE_MAX}, "/goto").ok());
  EXPECT_EQ(now(branches), "xy");
  EXPECT_THAT(others(branches), ElementsAre("xz"));
  ASSERT_TRUE(branches.undo().ok());
  EXPECT_EQ(now(branches), "xz");
  EXPECT_THAT(others(branches), ElementsAre("xy"));
  EXPECT_EQ(branches.go({99, 0}, "/goto").code(), ErrorCode::kNotFound);
}

TEST_F(BranchesTest, TakeBackRestoresTheConversationBeforeAFailedChange) {
  Process process(memory_);
  Branches branches(talk_of(process));
  say(branches, "x");
  say(branches, "y");
  ASSERT_TRUE(branches.go({branches.here().branch, 0}, "/edit").ok());
  EXPECT_EQ(now(branches), "");
  branches.take_back();
  EXPECT_EQ(now(branches), "xy");
  EXPECT_THAT(others(branches), IsEmpty());
  ASSERT_TRUE(branches.undo().ok());
  EXPECT_EQ(now(branches), "x") << "earlier undo steps are unchanged";
}

TEST_F(BranchesTest, BranchMayEndWithAnUnansweredQuestion) {
  Process process(memory_);
  Branches branches(talk_of(process));
  say(branches, "x");
  ASSERT_TRUE(branches.now().append({{"role", "user"}, {"content", "y"}}).ok());
  say(branches, "z");
  EXPECT_EQ(now(branches), "xyz");
  ASSERT_TRUE(branches.undo().ok());
  EXPECT_EQ(now(branches), "xy");
  EXPECT_EQ(role_of(branches.messages().back()), "user");
}

TEST_F(BranchesTest, CountsAnswersToAQuestionInAllBranches) {
  Process process(memory_);
  Branches branches(talk_of(process));
  say(branches, "x");
  EXPECT_EQ(branches.n_answers_to(1), 1u);
  for (const char* text : {"other", "another"}) {
    std::unique_ptr<ChatBackend> next = *branches.now().fork();
    Json history = Json::array();
    history.push_back(next->messages()[0]);
    history.push_back({{"role", "assistant"}, {"content", text}});
    ASSERT_TRUE(next->set_history(history).ok());
    branches.replace(std::move(next), "/regen");
  }
  EXPECT_EQ(branches.n_answers_to(1), 3u);
  EXPECT_EQ(branches.n_answers_to(0), 1u);
}

TEST_F(BranchesTest, ForgetAllButNRemovesTheOldestBranches) {
  Process process(memory_);
  Branches branches(talk_of(process));
  for (const char* text : {"x", "y", "z"}) {
    say(branches, text);
    begin_anew(branches);
  }
  EXPECT_EQ(branches.forget_all_but(3), 0u);
  EXPECT_EQ(branches.forget_all_but(2), 1u);
  EXPECT_THAT(others(branches), ElementsAre("y", "z"));
}

class KeptBranchesTest : public BranchesTest {
 protected:
  SessionFiles files(FileOps& ops) const { return {ops, "/s"}; }
  // Saves the conversation "talk": current branch xz, other branch xy.
  void have_a_talk() {
    Process process(memory_);
    SavedConversation kept = *SavedConversation::take(files(memory_), "talk");
    EXPECT_TRUE(kept.is_new());
    Branches branches(std::make_unique<LocalBackend>(*kept.open(process.engine, {})));
    say(branches, "x");
    say(branches, "y");
    ASSERT_TRUE(kept.save(branches).ok());
    ASSERT_TRUE(branches.undo().ok());
    say(branches, "z");
    ASSERT_TRUE(kept.save(branches).ok());
  }
};

TEST_F(KeptBranchesTest, BranchesSurviveARestart) {
  have_a_talk();
  Process process(memory_);
  SavedConversation kept = *SavedConversation::take(files(memory_), "talk");
  EXPECT_FALSE(kept.is_new());
  Branches branches(std::make_unique<LocalBackend>(*kept.open(process.engine, {})));
  kept.add_branches(branches);
  EXPECT_EQ(now(branches), "xz");
  EXPECT_THAT(others(branches), ElementsAre("xy"));
  ASSERT_TRUE(branches.go({branches.others()[0].number, SIZE_MAX}, "/goto").ok());
  EXPECT_EQ(now(branches), "xy");
  ASSERT_TRUE(kept.save(branches).ok());
  EXPECT_EQ(files(memory_).branches("talk")->size(), 1u) << "the current branch is no longer among the other branches";
  EXPECT_EQ(questions(read_saved_session(memory_, "/s/talk.ibid")->messages), "xy");
}

TEST_F(KeptBranchesTest, DamagedBranchIsReportedAndKept) {
  have_a_talk();
  const size_t number = files(memory_).branches("talk")->at(0);
  const std::string path = files(memory_).branch_path("talk", number);
  ASSERT_TRUE(write_file_atomically(memory_, path, std::as_bytes(std::span("x", 1))).ok());
  Process process(memory_);
  SavedConversation kept = *SavedConversation::take(files(memory_), "talk");
  Branches branches(std::make_unique<LocalBackend>(*kept.open(process.engine, {})));
  kept.add_branches(branches);
  ASSERT_EQ(branches.others().size(), 1u);
  EXPECT_EQ(branches.others()[0].messages, nullptr);
  EXPECT_FALSE(branches.others()[0].problem.empty());
  EXPECT_FALSE(branches.go({number, SIZE_MAX}, "/goto").ok());
  begin_anew(branches);
  ASSERT_TRUE(kept.save(branches).ok());
  EXPECT_EQ(files(memory_).branches("talk")->size(), 2u);
}

TEST_F(KeptBranchesTest, InterruptedSaveLosesNoMessages) {
  for (int i = 0; i < 40; ++i) {
    MemoryFileOps memory;
    ASSERT_TRUE(memory.make_directory("/s").ok());
    FaultyFileOps faulty(memory);
    Process process(faulty);
    SavedConversation kept = *SavedConversation::take(files(faulty), "talk");
    Branches branches(std::make_unique<LocalBackend>(*kept.open(process.engine, {})));
    say(branches, "x");
    say(branches, "y");
    ASSERT_TRUE(kept.save(branches).ok());
    begin_anew(branches);
    say(branches, "z");
    faulty.fail_call(i, ENOSPC);
    const Status status = kept.save(branches);
    faulty.recover();
    std::vector<std::string> in_files = {questions(read_saved_session(memory, "/s/talk.ibid")->messages)};
    const std::vector<size_t> numbers = *files(memory).branches("talk");
    for (const size_t number : numbers) {
      in_files.push_back(questions(read_saved_session(memory, files(memory).branch_path("talk", number))->messages));
    }
    EXPECT_THAT(in_files, testing::Contains("xy")) << i << " " << status.to_string();
    ASSERT_TRUE(kept.save(branches).ok()) << i << ": the next save completes the failed one";
    EXPECT_EQ(questions(read_saved_session(memory, "/s/talk.ibid")->messages), "z");
    EXPECT_EQ(files(memory).branches("talk")->size(), 1u);
  }
}

TEST_F(KeptBranchesTest, MoveToRenamesAllBranchesAndKeepsTheUndoHistory) {
  have_a_talk();
  Process process(memory_);
  SavedConversation kept = *SavedConversation::take(files(memory_), "talk");
  Branches branches(std::make_unique<LocalBackend>(*kept.open(process.engine, {})));
  kept.add_branches(branches);
  EXPECT_EQ(free_name_like(files(memory_), "talk"), "talk-2");
  EXPECT_EQ(kept.move_to("talk", branches).code(), ErrorCode::kDuplicate);
  EXPECT_EQ(kept.move_to("../talk", branches).code(), ErrorCode::kInvalidArgument);
  ASSERT_TRUE(kept.move_to("talk-2", branches).ok());
  EXPECT_EQ(free_name_like(files(memory_), "talk"), "talk-3");
  begin_anew(branches);
  ASSERT_TRUE(kept.save(branches).ok());
  EXPECT_EQ(questions(read_saved_session(memory_, "/s/talk-2.ibid")->messages), "xz");
  EXPECT_EQ(files(memory_).branches("talk-2")->size(), 1u);
  EXPECT_EQ(questions(read_saved_session(memory_, "/s/talk.ibid")->messages), "");
  EXPECT_THAT(*files(memory_).branches("talk"), IsEmpty());
  EXPECT_THAT(others(branches), IsEmpty()) << "moved branches do not belong to the new conversation";
  ASSERT_TRUE(branches.undo().ok());
  EXPECT_EQ(now(branches), "xz");
}

TEST_F(KeptBranchesTest, OpenRefusesToReplaceASystemMessageThatIsNotAString) {
  SavedSession saved;
  saved.messages = *parse_json(R"([{"role":"system","content":[{"type":"text","text":"be"}]}])", "messages");
  ASSERT_TRUE(write_session_file(memory_, "/s/odd.ibid", saved, nullptr, {}).ok());
  Process process(memory_);
  const SavedConversation kept = *SavedConversation::take(files(memory_), "odd");
  EXPECT_EQ(kept.open(process.engine, {.system = "other"}).status().code(), ErrorCode::kInvalidArgument);
}

// Between lookup and lock no other process may save. A process that waits for the lock must see what was saved before.
TEST_F(KeptBranchesTest, TakeLocksTheNameBeforeLookingForItsFile) {
  class Ops : public FaultyFileOps {
   public:
    explicit Ops(MemoryFileOps& memory) : FaultyFileOps(memory), memory_(memory) {}
    Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
      if (at_lock) at_lock();
      return memory_.lock(path);
    }
    std::function<void()> at_lock;

   private:
    MemoryFileOps& memory_;
  } ops(memory_);
  ops.at_lock = [&] {  // another process saves for the first time and exits, as late as possible
    ops.at_lock = {};
    have_a_talk();
  };
  Process process(memory_);
  const SavedConversation kept = *SavedConversation::take(files(ops), "talk");
  EXPECT_FALSE(kept.is_new());
  EXPECT_EQ(questions(kept.open(process.engine, {})->state().messages()), "xz");
}

}  // namespace
}  // namespace ibid
