#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "apps/sessions/session_files.h"
#include "tests/apps/command_line_fixture.h"
#include "tests/support/pseudo_terminal.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/scripted_model.h"

namespace ibid {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class SessionsCommand : public CommandLine {
 protected:
  SessionsCommand() {
    write_scripted_model(model_, {{.when = "q == 'first'", .says = "Answer one.\nIn two lines."},
                                  {.when = "q == 'second'", .says = "Answer two."},
                                  {.says = "Hello there."}});
  }

  Outcome chat(const std::string& options, const std::string& input) const {
    return run("chat " + model_ + " " + options, input);
  }
  SessionFiles files() const { return {system_file_ops(), dir_.file("state") + "/ibid/sessions"}; }

  const std::string model_ = dir_.file("scripted.gguf");
  const ScopedVariable state_{"XDG_STATE_HOME", dir_.file("state")};
  const ScopedVariable cache_{"XDG_CACHE_HOME", dir_.file("cache")};
};

TEST_F(SessionsCommand, PipedAnswersAreSeparatedAndErrorsNameTheMessage) {
  const Outcome outcome = chat("", "first\n\nsecond\n/help\n");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "Answer one.\nIn two lines.\n\nAnswer two.\n\nHello there.\n")
      << "a piped line is a message even if it begins with a slash";
  const Outcome failed = chat("--context 100 --when-full error", "second\n" + std::string(200, 'x') + "\nsecond\n");
  EXPECT_EQ(failed.status, 1);
  EXPECT_EQ(failed.out, "Answer two.\n\nAnswer two.\n");
  EXPECT_THAT(failed.err, HasSubstr("ibid: message 2: "));
  EXPECT_THAT(failed.err, HasSubstr("--when-full drop"));
}

TEST_F(SessionsCommand, ResumeReportsADifferentModelButNotARenamedFile) {
  const std::string said = "saved with scripted.gguf: ";
  const std::string long_message(100, 'x');
  ASSERT_EQ(chat("--resume talk", "first\n" + long_message + "\n").status, 0);
  EXPECT_THAT(chat("--resume talk", "").err, Not(HasSubstr("saved with")));
  const std::string same = dir_.file("renamed.gguf");
  std::filesystem::copy_file(model_, same);
  const Outcome renamed = run("chat " + same + " --resume talk");
  EXPECT_THAT(renamed.err, HasSubstr("resumed 'talk': 4 messages"));
  EXPECT_THAT(renamed.err, Not(HasSubstr("saved with"))) << "the cache is found by content";

  const std::string other = dir_.file("other.gguf");
  write_scripted_model(other, {{.when = "q == 'second'", .says = "Answer by another."}});
  const Outcome resumed = run("chat " + other + " --resume talk", "second\n");
  EXPECT_EQ(resumed.status, 0);
  EXPECT_EQ(resumed.out, "Answer by another.\n");
  EXPECT_THAT(resumed.err, HasSubstr(said + "other.gguf prefills all of it again, once"));
  EXPECT_THAT(resumed.err, Not(HasSubstr("the cache has no keys"))) << "only one reason is shown";
  EXPECT_THAT(run("chat " + other + " --resume talk").err, Not(HasSubstr("saved with"))) << "now saved with this model";
}

TEST_F(SessionsCommand, CommandListsShowsExportsRenamesAndDeletesConversations) {
  EXPECT_THAT(run("sessions").out, HasSubstr("no conversations are kept yet"));
  EXPECT_EQ(run("sessions --json").out, "");
  ASSERT_EQ(chat("--resume 'my talk'", "first\nsecond\n").status, 0);
  ASSERT_EQ(chat("--resume other", "second\n").status, 0);
  const Outcome list = run("sessions list");
  EXPECT_EQ(list.status, 0);
  EXPECT_THAT(list.out, StartsWith("NAME"));
  EXPECT_THAT(list.out, HasSubstr("my talk"));
  EXPECT_THAT(list.out, HasSubstr("scripted.gguf"));
  const Outcome lines = run("sessions --json");
  const Result<Json> newest = parse_json(lines.out.substr(0, lines.out.find('\n')), "line");
  ASSERT_TRUE(newest.ok()) << lines.out;
  EXPECT_EQ((*newest)["name"], "other") << "newest first";
  EXPECT_EQ((*newest)["n_turns"], 1);
  EXPECT_GT((*newest)["n_tokens"], 5);

  EXPECT_THAT(run("sessions show 'my talk'").out, HasSubstr("You:\nsecond\n\nAssistant:\nAnswer two.\n"));
  EXPECT_THAT(run("sessions export 'my talk'").out, StartsWith("# my talk\n"));
  EXPECT_EQ(run("sessions export 'my talk' --format json --out " + dir_.file("x.json")).status, 0);
  EXPECT_EQ((*parse_json(read_whole_file(dir_.file("x.json")), "x"))["messages"].size(), 4u);
  EXPECT_EQ(run("sessions export 'my talk' --out " + dir_.file("x.json")).status, 1) << "an existing file needs --yes";
  EXPECT_EQ(run("sessions export 'my talk' --yes --out " + dir_.file("x.json")).status, 0);

  EXPECT_EQ(run("sessions rename 'my talk' other").status, 1);
  EXPECT_EQ(run("sessions rename 'my talk' München").status, 0);
  EXPECT_THAT(chat("--resume München", "").err, HasSubstr("resumed 'München': 4 messages"));
  const Outcome unasked = run("sessions delete München");
  EXPECT_EQ(unasked.status, 1);
  EXPECT_THAT(unasked.err, HasSubstr("--yes"));
  EXPECT_TRUE(files().exists("München"));
  EXPECT_EQ(run("sessions delete München other --yes").status, 0);
  EXPECT_TRUE(std::filesystem::is_empty(dir_.file("state") + "/ibid/sessions"));
}

TEST_F(SessionsCommand, UnknownAndInvalidNamesAreExplained) {
  ASSERT_EQ(chat("--resume talk", "second\n").status, 0);
  for (const char* command : {"show", "export", "delete --yes"}) {
    const Outcome outcome = run("sessions " + std::string(command) + " tlak");
    EXPECT_EQ(outcome.status, 1) << command;
    EXPECT_THAT(outcome.err, HasSubstr("unknown conversation 'tlak'; similar names: 'talk'")) << command;
    EXPECT_EQ(run("sessions " + std::string(command) + " ../evil").status, 1);
  }
  EXPECT_EQ(run("sessions rename talk ../evil").status, 1);
  EXPECT_EQ(run("sessions nonsense").status, 2);
  EXPECT_EQ(run("sessions show").status, 2);
  EXPECT_EQ(run("sessions export talk --format pdf").status, 2);
  EXPECT_THAT(chat("--resume tlak", "").err, HasSubstr("a new conversation, kept as 'tlak' (similar names: 'talk')"));
  EXPECT_EQ(chat("--resume ../evil", "").status, 1);
}

TEST_F(SessionsCommand, OpenConversationIsNotChanged) {
  ASSERT_EQ(chat("--resume talk", "second\n").status, 0);
  const Result<std::unique_ptr<FileLock>> lock = files().lock("talk");
  ASSERT_TRUE(lock.ok());
  for (const std::string& command : {std::string("sessions delete talk --yes"),
                                     std::string("sessions rename talk other"), "chat " + model_ + " --resume talk"}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, 1) << command;
    EXPECT_THAT(outcome.err, HasSubstr("another ibid (process " + std::to_string(getpid()) + ")")) << command;
  }
  EXPECT_EQ(run("sessions show talk").status, 0) << "reading needs no lock";
}

TEST_F(SessionsCommand, DeleteAsksOnATerminal) {
  ASSERT_EQ(chat("--resume talk", "second\n").status, 0);
  const TerminalOptions options{.environment = {{"XDG_STATE_HOME", dir_.file("state")}}};
  {
    PseudoTerminal terminal({IBID_PROGRAM, "sessions", "delete", "talk"}, options);
    ASSERT_TRUE(terminal.shows("delete 'talk' (2 messages) for good? [y/N]"));
    terminal.type("\r");
    EXPECT_EQ(terminal.exit_status(), 0);
    EXPECT_TRUE(files().exists("talk"));
  }
  PseudoTerminal terminal({IBID_PROGRAM, "sessions", "delete", "talk"}, options);
  ASSERT_TRUE(terminal.shows("[y/N]"));
  terminal.type("y\r");
  EXPECT_EQ(terminal.exit_status(), 0);
  EXPECT_FALSE(files().exists("talk"));
}

TEST_F(SessionsCommand, WhenFullOfASavedConversationCanBeChanged) {
  ASSERT_EQ(chat("--resume talk --when-full error", "second\n").status, 0);
  EXPECT_EQ(read_saved_session(system_file_ops(), files().path("talk"))->when_full, WhenFull::kError);
  const Outcome changed = chat("--resume talk --when-full drop", "second\n");
  EXPECT_EQ(changed.status, 0) << changed.err;
  EXPECT_EQ(read_saved_session(system_file_ops(), files().path("talk"))->when_full, WhenFull::kDropOldestTurns);
  ASSERT_EQ(chat("--resume talk", "second\n").status, 0);
  EXPECT_EQ(read_saved_session(system_file_ops(), files().path("talk"))->when_full, WhenFull::kDropOldestTurns)
      << "the policy is saved";
}

TEST_F(SessionsCommand, SystemMessageOfAnyKindGivesAReadableError) {
  SavedSession saved;
  saved.messages = *parse_json(R"([{"role":"system","content":{"a":1}}])", "messages");
  ASSERT_TRUE(system_file_ops().make_directory(dir_.file("state") + "/ibid/sessions").ok());
  ASSERT_TRUE(write_session_file(system_file_ops(), files().path("odd"), saved, nullptr, {}).ok());
  const Outcome outcome = chat("--resume odd --system other", "second\n");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("another system message"));
}

}  // namespace
}  // namespace ibid
