#include "apps/sessions/session_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/sessions/session_report.h"
#include "tests/support/faulty_file_ops.h"
#include "tests/support/memory_file_ops.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SessionFilesTest : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& question = "Hello") {
    SavedSession session;
    session.model_name = "/models/m.gguf";
    session.messages = {{{"role", "user"}, {"content", question}}, {{"role", "assistant"}, {"content", "Hi."}}};
    session.n_tokens = 12;
    ASSERT_TRUE(memory_.make_directory("/s").ok());
    ASSERT_TRUE(write_session_file(memory_, path, session, nullptr, {}).ok());
  }
  void write_bytes(const std::string& path, const std::string& bytes) {
    ASSERT_TRUE(write_file_atomically(memory_, path, std::as_bytes(std::span(bytes))).ok());
  }

  MemoryFileOps memory_;
  SessionFiles files_{memory_, "/s"};
};

TEST_F(SessionFilesTest, MissingDirectoryIsEmpty) {
  EXPECT_THAT(*files_.names(), IsEmpty());
  EXPECT_THAT(*files_.branches("talk"), IsEmpty());
  EXPECT_FALSE(files_.exists("talk"));
  EXPECT_EQ(files_.rename("talk", "other").code(), ErrorCode::kNotFound);
  EXPECT_EQ(files_.remove("talk").code(), ErrorCode::kNotFound);
}

TEST_F(SessionFilesTest, BranchesAndOtherFilesAreNotListed) {
  for (const char* name : {"talk", "my talk", "talk-2"}) write(files_.path(name));
  write(files_.branch_path("talk", 3));
  write(files_.branch_path("talk", 12));
  write(files_.branch_path("my talk", 1));
  for (const char* other : {"/s/notes.txt", "/s/talk.03.ibid", "/s/a b.ibid", "/s/talk.ibid.tmp", "/s/%41.ibid"}) {
    write_bytes(other, "x");
  }
  EXPECT_THAT(*files_.names(), ElementsAre("my talk", "talk", "talk-2"));
  EXPECT_THAT(*files_.branches("talk"), ElementsAre(3, 12));
  EXPECT_THAT(files_.names_near("tlak"), ElementsAre("talk"));
  EXPECT_THAT(files_.no_such("tlak").message(), HasSubstr("'talk'"));
}

TEST_F(SessionFilesTest, RenameAndRemoveIncludeTheBranches) {
  write(files_.path("talk"));
  write(files_.branch_path("talk", 3));
  write(files_.path("taken"));
  EXPECT_EQ(files_.rename("talk", "taken").code(), ErrorCode::kDuplicate);
  ASSERT_TRUE(files_.rename("talk", "München 2").ok());
  EXPECT_THAT(*files_.names(), ElementsAre("München 2", "taken"));
  EXPECT_THAT(*files_.branches("München 2"), ElementsAre(3));
  EXPECT_THAT(*files_.branches("talk"), IsEmpty());
  ASSERT_TRUE(files_.remove("München 2").ok());
  ASSERT_TRUE(files_.remove("taken").ok());
  EXPECT_THAT(*memory_.list("/s"), Not(testing::Contains(HasSubstr(".ibid")))) << "no lock or branch is left";
}

TEST_F(SessionFilesTest, InterruptedRenameAndRemoveCanBeRepeated) {
  FaultyFileOps faulty(memory_);
  const SessionFiles files(faulty, "/s");
  for (int i = 0; i < 30; ++i) {
    write(files_.path("talk"));
    write(files_.branch_path("talk", 1));
    write(files_.branch_path("talk", 2));
    faulty.fail_call(i, EIO);
    const Status renamed = files.rename("talk", "other");
    faulty.recover();
    if (!renamed.ok() && !files_.exists("other")) {
      ASSERT_TRUE(files_.rename("talk", "other").ok()) << i;
    }
    ASSERT_THAT(*files_.branches("other"), ElementsAre(1, 2)) << i;
    faulty.fail_call(i, EIO);
    const Status removed = files.remove("other");
    faulty.recover();
    if (!removed.ok() && files_.exists("other")) {
      ASSERT_TRUE(files_.remove("other").ok()) << i;
    }
    ASSERT_THAT(*files_.branches("other"), IsEmpty()) << i;
    ASSERT_THAT(*files_.names(), IsEmpty()) << i;
  }
}

TEST_F(SessionFilesTest, BusyErrorNamesTheProcess) {
  write(files_.path("talk"));
  const Result<std::unique_ptr<FileLock>> lock = files_.lock("talk");
  ASSERT_TRUE(lock.ok());
  for (const Status& refused : {files_.lock("talk").status(), files_.rename("talk", "other"), files_.remove("talk")}) {
    EXPECT_EQ(refused.code(), ErrorCode::kBusy);
    EXPECT_THAT(refused.message(), HasSubstr("process " + std::to_string(getpid())));
    EXPECT_THAT(refused.message(), HasSubstr("'talk'"));
  }
  EXPECT_TRUE(files_.exists("talk"));
}

TEST_F(SessionFilesTest, TableFitsTheTerminalAndShowsWholeNames) {
  const std::string long_name(64, 'n');
  write(files_.path("talk"), "Why is the sky blue, and why is it red in the evening? \x1b[2J");
  write(files_.path(long_name));
  write_bytes(files_.path("broken"), "x");
  const std::vector<SessionSummary> sessions = *summarize_sessions(files_);
  ASSERT_EQ(sessions.size(), 3u);
  const std::string table = sessions_as_table(sessions, 0);
  EXPECT_THAT(table, HasSubstr(long_name + "\n"));
  EXPECT_THAT(table, HasSubstr("Why is the sky"));
  EXPECT_THAT(table, HasSubstr("cannot be read"));
  EXPECT_THAT(table, Not(HasSubstr("\x1b")));
  for (size_t begin = 0; begin < table.size(); begin = table.find('\n', begin) + 1) {
    EXPECT_LE(table.find('\n', begin) - begin, 78u) << table.substr(begin);
  }
  for (const SessionSummary& session : sessions) {
    const Json json = summary_as_json(session);
    EXPECT_EQ(json["name"], session.name);
    if (session.name == "talk") {
      EXPECT_EQ(json["n_turns"], 1);
      EXPECT_EQ(json["n_tokens"], 12);
    }
    EXPECT_EQ(json.contains("error"), session.name == "broken");
  }
}

TEST_F(SessionFilesTest, MarkdownExportHasMessagesAndJsonExportAlsoBranches) {
  write(files_.path("talk"), "Why?\nBecause.");
  write(files_.branch_path("talk", 3), "What?");
  const SavedSession session = *read_saved_session(memory_, files_.path("talk"));
  EXPECT_EQ(session_as_markdown("talk", session),
            "# talk\n\n*m.gguf*\n\n## You\n\nWhy?\nBecause.\n\n## Assistant\n\nHi.\n");
  const Json json = session_as_json("talk", session, files_);
  EXPECT_EQ(json["messages"].size(), 2u);
  EXPECT_EQ(json["branches"][0]["number"], 3);
  EXPECT_EQ(json["branches"][0]["messages"][0]["content"], "What?");
}

TEST(MessageContent, ContentOfAnyKindIsShown) {
  SavedSession session;
  session.messages = *parse_json(R"([{"role":"system","content":null},{"role":"user","content":7},
      {"role":"user","content":[{"type":"text","text":"a"},{"type":"image"}]},{"role":"tool"}])",
                                 "messages");
  const std::string text = session_as_text("x", session);
  EXPECT_THAT(text, HasSubstr("You:\n7\n"));
  EXPECT_THAT(text, HasSubstr("You:\na\n{\"type\":\"image\"}\n"));
  EXPECT_THAT(text, HasSubstr("Tool:\n"));
}

}  // namespace
}  // namespace ibid
