// Commands of `ibid chat` typed at a terminal, with invalid input for each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "apps/sessions/session_files.h"
#include "tests/support/pseudo_terminal.h"
#include "tests/support/scripted_model.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using testing::HasSubstr;
using testing::Not;

class ChatCommands : public testing::Test {
 protected:
  ChatCommands() {
    write_scripted_model(
        model_, {{.when = "q == 'Name a colour'", .says = "red blue green grey", .endless = true},
                 {.when = "'story' in q", .says = "Once upon a time there was", .endless = true},
                 {.when = "q == 'first'", .says = "Answer one."},
                 {.when = "q == 'second'", .says = "Answer two."},
                 {.when = "q == 'third'", .says = "Answer three."},
                 {.when = "q == '/etc/passwd'", .says = "A slash arrived."},
                 {.when = "q == 'Sum up notes.txt\n\nnotes.txt:\n```\none\ntwo\n```'", .says = "The file came."},
                 {.says = "Hello there."}});
  }

  std::vector<std::string> chat(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {IBID_PROGRAM, "chat", model_};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  // Options for a terminal whose conversations are saved in dir_.
  TerminalOptions keeping() const { return {.rows = 40, .environment = {{"XDG_STATE_HOME", dir_.file("state")}}}; }
  SessionFiles files() const { return {system_file_ops(), dir_.file("state") + "/ibid/sessions"}; }

  // Types a line, and waits for the expected output and the next prompt.
  static testing::AssertionResult says(PseudoTerminal& terminal, const std::string& line, const std::string& brings) {
    const size_t before = terminal.screen().everything().size();
    terminal.type(line + "\r");
    const auto came = [&](const ScreenModel& screen) {
      const std::string all = screen.everything();
      return all.size() > before && all.find(brings, before > 200 ? before - 200 : 0) != std::string::npos;
    };
    if (const testing::AssertionResult result = terminal.until(came, line + " brings " + brings); !result)
      return result;
    return terminal.prompts();
  }

  TempDir dir_;
  const std::string model_ = dir_.file("scripted.gguf");
};

TEST_F(ChatCommands, HelpFitsAndExplainsEachCommand) {
  PseudoTerminal terminal(chat(), {.rows = 60, .columns = 80});
  ASSERT_TRUE(terminal.prompts());
  ASSERT_TRUE(says(terminal, "/help", "Ctrl-C "));
  for (size_t i = 0; i < terminal.screen().rows(); ++i) EXPECT_LE(terminal.screen().row(i).size(), 80u);
  ASSERT_TRUE(says(terminal, "/HELP edit", "replaces message N (your last one) with TEXT"));
  ASSERT_TRUE(says(terminal, "/? /regen", "SEED + 1000"));
  ASSERT_TRUE(says(terminal, "/help nonsense", "/nonsense: unknown command"));
}

TEST_F(ChatCommands, UnknownCommandsAndWrongArgumentsAreExplained) {
  PseudoTerminal terminal(chat(), {.rows = 60});
  ASSERT_TRUE(terminal.prompts());
  ASSERT_TRUE(says(terminal, "/hepl", "similar: /help"));
  ASSERT_TRUE(says(terminal, "/exit now", "too many arguments: /exit"));
  ASSERT_TRUE(says(terminal, "/clear everything", "too many arguments: /clear"));
  ASSERT_TRUE(says(terminal, "/choose", "an argument is missing: /choose K"));
  ASSERT_TRUE(says(terminal, "/choose 1", "no answers to choose from"));
  ASSERT_TRUE(says(terminal, "/back", "no place to return to"));
  ASSERT_TRUE(says(terminal, "/undo", "nothing to undo"));
  ASSERT_TRUE(says(terminal, "/redo", "nothing to redo"));
  ASSERT_TRUE(says(terminal, "/goto 1", "/goto N: the number of a branch"));
  ASSERT_TRUE(says(terminal, "/goto x", "/goto N: the number of a branch"));
  ASSERT_TRUE(says(terminal, "/regen", "nothing to answer yet"));
  ASSERT_TRUE(says(terminal, "/edit 3 text", "none of your messages has this number"));
  ASSERT_TRUE(says(terminal, "/answers three text", "/answers N TEXT: the number of answers"));
  ASSERT_TRUE(says(terminal, "/answers 17 text", "answers: 17, allowed: 1 to 16"));
  ASSERT_TRUE(says(terminal, "/answers 0 text", "answers: 0, allowed: 1 to 16"));
  ASSERT_TRUE(says(terminal, "/history 99999999999999999999", "no message has this number"));
  ASSERT_TRUE(says(terminal, "/pin x", "/pin N: the number of a message"));
  ASSERT_TRUE(says(terminal, "/when-full never", "is not one of error, drop, cut"));
  ASSERT_TRUE(says(terminal, "/set nonsense 1", "'nonsense' is not a setting"));
  ASSERT_TRUE(says(terminal, "/set top-p 2", "allowed: "));
  ASSERT_TRUE(says(terminal, "/read nowhere.txt", "nowhere.txt"));
  ASSERT_TRUE(says(terminal, "/save ../evil", "no / and no"));
  ASSERT_TRUE(says(terminal, "/etc/passwd what is this", "not a command; to send"));
  EXPECT_THAT(terminal.screen().everything(), Not(HasSubstr("turn 1"))) << "none of them is sent as a message";
  ASSERT_TRUE(says(terminal, "//etc/passwd", "A slash arrived."));
}

TEST_F(ChatCommands, UndoAndRedoWorkForEveryCommand) {
  PseudoTerminal terminal(chat(), {.rows = 60});
  ASSERT_TRUE(terminal.prompts());
  ASSERT_TRUE(says(terminal, "first", "Answer one."));
  ASSERT_TRUE(says(terminal, "second", "Answer two."));
  ASSERT_TRUE(says(terminal, "/edit 0 third", "Answer three."));
  ASSERT_TRUE(says(terminal, "/clear", "a new conversation"));
  ASSERT_TRUE(says(terminal, "/system Be brief.", "with this system message"));
  ASSERT_TRUE(says(terminal, "/system", "Be brief."));
  ASSERT_TRUE(says(terminal, "/undo", "undone: /system; 0 messages"));
  ASSERT_TRUE(says(terminal, "/undo", "undone: /clear; 2 messages"));
  ASSERT_TRUE(says(terminal, "/undo", "undone: /edit; 4 messages"));
  ASSERT_TRUE(says(terminal, "/undo", "undone: the last message and its answer; 2 messages"));
  ASSERT_TRUE(says(terminal, "/redo", "redone: the last message and its answer; 4 messages"));
  ASSERT_TRUE(says(terminal, "/branches", "2 messages, different from 0 on: Answer three."));
  ASSERT_TRUE(says(terminal, "/history", "2  user: second"));
  ASSERT_TRUE(says(terminal, "/history 3", "assistant:\nAnswer two."));
}

TEST_F(ChatCommands, BranchesAreListedAndReachedByGotoAndBack) {
  PseudoTerminal terminal(chat(), {.rows = 60});
  ASSERT_TRUE(terminal.prompts());
  ASSERT_TRUE(says(terminal, "first", "Answer one."));
  ASSERT_TRUE(says(terminal, "/fork", "/back returns"));
  ASSERT_TRUE(says(terminal, "second", "Answer two."));
  ASSERT_TRUE(says(terminal, "/back", "back at the last /fork, with 2 messages"));
  ASSERT_TRUE(says(terminal, "third", "Answer three."));
  ASSERT_TRUE(says(terminal, "/branches", "1  4 messages, different from 2 on: Answer two."));
  ASSERT_TRUE(says(terminal, "/goto 1", "this is branch 1, with 4 messages"));
  ASSERT_TRUE(says(terminal, "/history", "user: second"));
  ASSERT_TRUE(says(terminal, "/branches", "different from 2 on: Answer three."));
}

TEST_F(ChatCommands, CutAnswerIsContinued) {
  PseudoTerminal terminal(chat({"--max-tokens", "2"}), {.rows = 60});
  ASSERT_TRUE(terminal.prompts());
  ASSERT_TRUE(says(terminal, "/continue", "there is no answer to continue"));
  ASSERT_TRUE(says(terminal, "first", "cut after 2 tokens; /continue goes on"));
  ASSERT_TRUE(says(terminal, "/set max-tokens 100", "max-tokens 100"));
  ASSERT_TRUE(says(terminal, "/continue", "turn 1"));
  ASSERT_TRUE(says(terminal, "/history", "assistant: Answer one."));
  ASSERT_TRUE(says(terminal, "/undo", "undone: /continue"));
}

TEST_F(ChatCommands, SeededTurnsAndRegenerationsDifferAndAreReproducible) {
  const auto talk = [&] {
    PseudoTerminal terminal(chat({"--seed", "3", "--temperature", "1", "--max-tokens", "12"}), {.rows = 60});
    EXPECT_TRUE(terminal.prompts());
    EXPECT_TRUE(says(terminal, "Name a colour", "turn 1"));
    EXPECT_TRUE(says(terminal, "/regen", "turn 1"));
    EXPECT_TRUE(says(terminal, "/undo", "undone: /regen"));
    EXPECT_TRUE(says(terminal, "/regen", "turn 1"));
    EXPECT_TRUE(says(terminal, "Name a colour", "turn 2"));
    terminal.type("\x04");
    EXPECT_EQ(terminal.exit_status(), 0);
    // An answer is the row above its status line.
    std::vector<std::string> answers;
    std::istringstream rows(terminal.screen().everything());
    for (std::string row, above; std::getline(rows, row); above = row) {
      if (row.find("turn ") < row.find(" tokens · ") && row.find(" tokens · ") != std::string::npos) {
        answers.push_back(above);
      }
    }
    return answers;
  };
  const std::vector<std::string> answers = talk();
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(std::set<std::string>(answers.begin(), answers.end()).size(), 4u) << testing::PrintToString(answers);
  EXPECT_EQ(talk(), answers) << "the same seed and the same inputs give the same conversation";
}

TEST_F(ChatCommands, SeveralAnswersShowTheirSeedsAndStayAsBranches) {
  PseudoTerminal terminal(chat({"--seed", "5", "--temperature", "1", "--max-tokens", "8"}), {.rows = 60});
  ASSERT_TRUE(terminal.prompts());
  ASSERT_TRUE(says(terminal, "/answers 3 Name a colour", "continues with answer 1"));
  const std::string all = terminal.screen().everything();
  EXPECT_THAT(all,
              testing::ContainsRegex("answer 1 of 3, seed 5(.|\n)*answer 2 of 3, seed 6(.|\n)*answer 3 of 3, seed 7"));
  ASSERT_TRUE(says(terminal, "/branches", "/goto N selects another"));
  ASSERT_TRUE(says(terminal, "/choose 4", "no answer 4 to choose; the number of answers is 3"));
  ASSERT_TRUE(says(terminal, "/choose 3", "continues with answer 3, with 2 messages"));
  ASSERT_TRUE(says(terminal, "first", "Answer one."));
  ASSERT_TRUE(says(terminal, "/choose 2", "continues with answer 2, with 2 messages"));
  ASSERT_TRUE(says(terminal, "/undo", "undone: /choose; 4 messages"));
}

TEST_F(ChatCommands, FirstOfSeveralAnswersIsStreamedBeforeTheOthersFinish) {
  // Answers that end by themselves would already be finished when they are shown.
  write_scripted_model(model_, {{.says = "Once upon a time there was", .endless = true}}, 1 << 15);
  PseudoTerminal terminal(chat({"--max-tokens", "unlimited", "--stop-repetition", "off"}), {.rows = 20});
  ASSERT_TRUE(terminal.prompts());
  terminal.type("/answers 2 Tell me a story\r");
  // Waits until the second answer has begun too, because stopping earlier would cancel both.
  ASSERT_TRUE(terminal.until([](const ScreenModel& s) { return s.everything().size() > 8000; }, "a long answer"));
  EXPECT_THAT(terminal.screen().everything(), Not(HasSubstr("answer 2 of 2")));
  terminal.type("\x03");
  ASSERT_TRUE(terminal.shows("answer 2 of 2"));
  ASSERT_TRUE(terminal.prompts());
}

TEST_F(ChatCommands, SettingsMatchTheCommandLineOptions) {
  PseudoTerminal terminal(chat({"--seed", "5", "--temperature", "1"}), {.rows = 60});
  ASSERT_TRUE(terminal.prompts());
  ASSERT_TRUE(says(terminal, "/show", "temperature 1"));
  ASSERT_TRUE(says(terminal, "/set max-tokens 3", "max-tokens 3 from the next answer on"));
  ASSERT_TRUE(says(terminal, "Tell me a story", "length limit"));
  ASSERT_TRUE(says(terminal, "/set --temp=0.5", "temperature 0.5 from the next answer on"));
  ASSERT_TRUE(says(terminal, "/set temperature", "temperature 0.5: "));
  ASSERT_TRUE(says(terminal, "/set temperature -1", "allowed: "));
  ASSERT_TRUE(says(terminal, "/show", "temperature 0.5"));
  ASSERT_TRUE(says(terminal, "/model", "scripted.gguf"));
  ASSERT_TRUE(says(terminal, "/stats", "keys and values"));
}

TEST_F(ChatCommands, AttachedFilesAreSentOnce) {
  dir_.write("notes.txt", "one\ntwo\n");
  const std::string here = std::filesystem::current_path();
  std::filesystem::current_path(dir_.path());
  PseudoTerminal terminal(chat(), {.rows = 60});
  std::filesystem::current_path(here);
  ASSERT_TRUE(terminal.prompts());
  ASSERT_TRUE(says(terminal, "Sum up @notes.txt", "The file came."));
  ASSERT_TRUE(says(terminal, "/read notes.txt Sum up notes.txt", "The file came."));
  ASSERT_TRUE(says(terminal, "/read notes.txt", "attached to your next message"));
  ASSERT_TRUE(says(terminal, "/undo", "notes.txt is no longer attached"));
  ASSERT_TRUE(says(terminal, "/read notes.txt", "attached to your next message"));
  ASSERT_TRUE(says(terminal, "Sum up notes.txt", "The file came."));
  ASSERT_TRUE(says(terminal, "Sum up notes.txt", "Hello there.")) << "the file is attached to one message only";
}

TEST_F(ChatCommands, ResumeShowsTheLastExchangeAndKeepsBranches) {
  {
    PseudoTerminal terminal(chat({"--resume", "my talk"}), keeping());
    ASSERT_TRUE(terminal.prompts());
    EXPECT_THAT(terminal.screen().text(), HasSubstr("a new conversation, kept as 'my talk'"));
    ASSERT_TRUE(says(terminal, "first", "Answer one."));
    ASSERT_TRUE(says(terminal, "/edit second", "Answer two."));
    terminal.type("\x04");
    EXPECT_EQ(terminal.exit_status(), 0);
  }
  {
    PseudoTerminal terminal(chat({"--resume", "my talk"}), keeping());
    ASSERT_TRUE(terminal.prompts());
    EXPECT_THAT(terminal.screen().text(), HasSubstr("resumed 'my talk': 2 messages"));
    EXPECT_THAT(terminal.screen().text(), HasSubstr("> second\nAnswer two."));
    ASSERT_TRUE(says(terminal, "/branches", "1  2 messages, different from 0 on: Answer one."));
    ASSERT_TRUE(says(terminal, "/goto 1", "this is branch 1"));
    terminal.type("/exit\r");
    EXPECT_EQ(terminal.exit_status(), 0);
  }
  PseudoTerminal terminal(chat({"--resume", "my tlak"}), keeping());
  ASSERT_TRUE(terminal.prompts());
  EXPECT_THAT(terminal.screen().text(), HasSubstr("a new conversation, kept as 'my tlak' (similar names: 'my talk')"));
}

TEST_F(ChatCommands, QuestionIsSavedBeforeTheProgramIsKilled) {
  {
    PseudoTerminal terminal(chat({"--resume", "talk"}), keeping());
    ASSERT_TRUE(terminal.prompts());
    ASSERT_TRUE(says(terminal, "first", "Answer one."));
    terminal.type("Tell me a story\r");
    ASSERT_TRUE(terminal.shows("upon"));
    kill(terminal.pid(), SIGKILL);
    ASSERT_TRUE(terminal.exit_status().has_value());
  }
  PseudoTerminal terminal(chat({"--resume", "talk", "--max-tokens", "9"}), keeping());
  ASSERT_TRUE(terminal.prompts());
  EXPECT_THAT(terminal.screen().text(), HasSubstr("> Tell me a story\n(it has no answer yet"));
  ASSERT_TRUE(says(terminal, "/regen", "turn 2"));
  ASSERT_TRUE(says(terminal, "/history", "3  assistant: "));
}

TEST_F(ChatCommands, ClearAsksForANameUnderWhichToKeepTheSavedConversation) {
  PseudoTerminal terminal(chat({"--resume", "talk"}), keeping());
  ASSERT_TRUE(terminal.prompts());
  ASSERT_TRUE(says(terminal, "first", "Answer one."));
  terminal.type("/clear\r");
  ASSERT_TRUE(terminal.shows("Enter: 'talk-2'"));
  ASSERT_TRUE(terminal.prompts());
  terminal.type("\x03");
  ASSERT_TRUE(terminal.shows("nothing has changed"));
  ASSERT_TRUE(terminal.prompts());
  EXPECT_TRUE(files().exists("talk"));
  terminal.type("/clear\r");
  ASSERT_TRUE(terminal.shows("Enter: 'talk-2'"));
  ASSERT_TRUE(says(terminal, "a/b", "no / and no"));
  ASSERT_TRUE(says(terminal, "", "kept as 'talk-2'"));
  EXPECT_EQ(read_saved_session(system_file_ops(), files().path("talk-2"))->messages.size(), 2u);
  EXPECT_EQ(read_saved_session(system_file_ops(), files().path("talk"))->messages.size(), 0u);
  ASSERT_TRUE(says(terminal, "second", "Answer two."));
  terminal.type("/system Be brief.\r");
  ASSERT_TRUE(terminal.shows("Enter: 'talk-3'"));
  ASSERT_TRUE(says(terminal, "-", "with this system message"));
  EXPECT_EQ(files().branches("talk")->size(), 1u) << "kept as a branch";
  EXPECT_FALSE(files().exists("talk-3"));
  ASSERT_TRUE(says(terminal, "/undo", "undone: /system"));
  EXPECT_EQ(read_saved_session(system_file_ops(), files().path("talk"))->messages.size(), 2u);
}

TEST_F(ChatCommands, SaveNamesAConversationLater) {
  PseudoTerminal terminal(chat(), keeping());
  ASSERT_TRUE(terminal.prompts());
  ASSERT_TRUE(says(terminal, "first", "Answer one."));
  ASSERT_TRUE(says(terminal, "/edit second", "Answer two."));
  ASSERT_TRUE(says(terminal, "/save München 1", "`ibid chat --resume 'München 1'`"));
  EXPECT_EQ(files().branches("München 1")->size(), 1u);
  ASSERT_TRUE(says(terminal, "third", "Answer three."));
  EXPECT_EQ(read_saved_session(system_file_ops(), files().path("München 1"))->messages.size(), 4u);
  ASSERT_TRUE(says(terminal, "/save copy", "a copy is kept as 'copy'"));
  ASSERT_TRUE(says(terminal, "/save copy", "a conversation 'copy' already exists"));
  EXPECT_TRUE(files().exists("copy"));
}

TEST_F(ChatCommands, SlashWhenFullSetsThePolicy) {
  PseudoTerminal terminal(chat({"--context", "128", "--when-full", "error", "--max-tokens", "8"}), {.rows = 60});
  ASSERT_TRUE(terminal.prompts());
  const std::string filler(100, 'x');
  ASSERT_TRUE(says(terminal, "first " + filler, "turn 1"));
  ASSERT_TRUE(says(terminal, "second " + filler, "to fix this: /when-full drop"));
  ASSERT_TRUE(says(terminal, "/when-full", "when the context is full: error"));
  ASSERT_TRUE(says(terminal, "/when-full drop", "when the context is full: drop"));
  ASSERT_TRUE(says(terminal, "second " + filler, "left out"));
  ASSERT_TRUE(says(terminal, "/branches", "1  2 messages")) << "the state before is a branch";
  ASSERT_TRUE(says(terminal, "/undo", "2 messages now"));
  ASSERT_TRUE(says(terminal, "/history 0", "user:\nfirst\nxxx"));
}

}  // namespace
}  // namespace ibid
