// Output of `ibid chat`: wrapped answers and the lines around them, on terminals of several sizes and kinds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "apps/terminal/graphemes.h"
#include "apps/terminal/progress.h"
#include "tests/support/pseudo_terminal.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/scripted_model.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kSky =
    "The sky appears blue because of a phenomenon called Rayleigh scattering, which occurs when light of shorter "
    "wavelengths (blue) is scattered more than light of longer wavelengths (red) by a large amount of air.";
const std::string kCode =
    "Here it is:\n\n```\nfor (int i = 0; i < 10; ++i) { total += values[i] * weights[i]; }  // all of them\n```\nDone.";
const std::string kChinese =
    "\u5929\u7a7a\u662f\u84dd\u8272\u7684\uff0c\u56e0\u4e3a\u6709\u7a7a\u6c14\u3002"
    "\u5929\u7a7a\u662f\u84dd\u8272\u7684\uff0c\u56e0\u4e3a\u6709\u7a7a\u6c14\u3002"
    "\u5929\u7a7a\u662f\u84dd\u8272\u7684\uff0c\u56e0\u4e3a\u6709\u7a7a\u6c14\u3002";

class ChatOutput : public testing::Test {
 protected:
  ChatOutput() {
    write_scripted_model(model_,
                         {{.when = "'sky' in q", .says = kSky},
                          {.when = "'code' in q", .says = kCode},
                          {.when = "'Chinese' in q", .says = kChinese + " ok"},
                          {.when = "'pieces' in q", .says = "cafe\x1f\u0301 \x1f\U0001F469\x1f\u200D\x1f\U0001F467!"},
                          {.says = "Hello there, my friend."}});
  }
  std::vector<std::string> chat(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {IBID_PROGRAM, "chat", model_};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  TempDir dir_;
  const std::string model_ = dir_.file("scripted.gguf");
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST_F(ChatOutput, AnswersAreWrappedAtWordsAtAnyWidth) {
  for (const auto& [rows, columns] : {std::pair<size_t, size_t>{24, 80}, {15, 60}, {30, 100}}) {
    PseudoTerminal terminal(chat(), {.rows = rows, .columns = columns});
    ASSERT_TRUE(terminal.prompts());
    terminal.type("Why is the sky blue?\r");
    ASSERT_TRUE(terminal.shows("turn 1"));
    ASSERT_TRUE(terminal.prompts());
    std::string answer;
    for (const std::string& line : lines_of(terminal.screen().everything())) {
      EXPECT_LE(text_columns(line), columns) << line;
      EXPECT_TRUE(line.starts_with("> ") || !line.ends_with(' ')) << line;
      answer += line + " ";
    }
    EXPECT_THAT(answer, HasSubstr(kSky + " ")) << "no word is split";
    EXPECT_TRUE(terminal.screen().unknown().empty());
  }
}

TEST_F(ChatOutput, CodeAndChineseAndSplitCharactersAreShownCorrectly) {
  PseudoTerminal terminal(chat(), {.rows = 30, .columns = 60});
  ASSERT_TRUE(terminal.prompts());
  terminal.type("code\r");
  ASSERT_TRUE(terminal.shows("turn 1"));
  ASSERT_TRUE(terminal.prompts());
  const std::string line = "for (int i = 0; i < 10; ++i) { total += values[i] * weights[i]; }  // all of them";
  EXPECT_THAT(terminal.screen().text(),
              HasSubstr("\n" + line.substr(0, 60) + "\n" + line.substr(60) + "\n```\nDone.\n"));
  EXPECT_THAT(terminal.bytes(), HasSubstr(line)) << "the terminal wraps the line, so that it can be copied whole";
  terminal.type("Chinese\r");
  ASSERT_TRUE(terminal.shows("turn 2"));
  ASSERT_TRUE(terminal.prompts());
  EXPECT_THAT(terminal.screen().text(),
              HasSubstr("\n" + kChinese.substr(0, 90) + "\n" + kChinese.substr(90) + " ok\n"));
  terminal.type("pieces\r");
  ASSERT_TRUE(terminal.shows("cafe\u0301 \U0001F469\u200D\U0001F467!\n"));
}

TEST_F(ChatOutput, AskWrapsItsAnswer) {
  PseudoTerminal terminal({IBID_PROGRAM, "ask", model_, "Why is the sky blue?"}, {.rows = 15, .columns = 60});
  ASSERT_EQ(terminal.exit_status(), 0);
  const std::string screen = terminal.screen().text();
  EXPECT_THAT(screen, testing::StartsWith("The sky appears blue because of a phenomenon called Rayleigh\nscattering,"));
  EXPECT_THAT(screen, testing::EndsWith("\n(red) by a large amount of air."));
  EXPECT_EQ(terminal.screen().cursor_column(), 0u);
}

TEST_F(ChatOutput, AnswerIsWrappedToTheResizedTerminal) {
  PseudoTerminal terminal(chat(), {.rows = 30, .columns = 100});
  ASSERT_TRUE(terminal.prompts());
  terminal.resize(15, 40);
  terminal.type("Why is the sky blue?\r");
  ASSERT_TRUE(terminal.shows("tok/s"));
  ASSERT_TRUE(terminal.prompts());
  EXPECT_THAT(terminal.screen().everything(), HasSubstr("\nThe sky appears blue because of a\nphenomenon called"));
}

TEST_F(ChatOutput, OutputToAFileIsNotWrapped) {
  const std::string out = dir_.file("out");
  PseudoTerminal terminal(chat(), {.output_file = out});
  ASSERT_TRUE(terminal.prompts());
  terminal.type("Why is the sky blue?\r");
  ASSERT_TRUE(terminal.shows("turn 1"));
  ASSERT_TRUE(terminal.prompts());
  terminal.type("\x04");
  ASSERT_EQ(terminal.exit_status(), 0);
  EXPECT_EQ(read_whole_file(out), kSky + "\n");
}

TEST_F(ChatOutput, HelpNotesAndErrorsFitTheTerminal) {
  for (const size_t columns : {80, 60, 40}) {
    PseudoTerminal terminal(chat({"--max-tokens", "3"}), {.rows = 60, .columns = columns});
    ASSERT_TRUE(terminal.prompts());
    terminal.type("/help\r");
    ASSERT_TRUE(terminal.shows("Ctrl-C"));
    ASSERT_TRUE(terminal.prompts());
    terminal.type("Why is the sky blue?\r");
    ASSERT_TRUE(terminal.shows("length limit"));
    ASSERT_TRUE(terminal.shows("/continue goes on"));
    ASSERT_TRUE(terminal.prompts());
    const std::string bytes = terminal.bytes();
    for (const std::string& line : lines_of(terminal.screen().everything())) {
      if (line.starts_with(">")) continue;
      EXPECT_LE(text_columns(line), columns) << line;
      EXPECT_THAT(bytes, HasSubstr(line)) << "wrapped by the program at a blank, not by the terminal";
      EXPECT_THAT(line, Not(testing::EndsWith(" ")));
    }
  }
}

TEST_F(ChatOutput, NoColorDisablesColours) {
  for (const auto& [name, value, colours] : {std::tuple{"NO_COLOR", "1", false}, {"NO_COLOR", "", true}}) {
    PseudoTerminal terminal(chat(), {.environment = {{name, value}}});
    ASSERT_TRUE(terminal.prompts());
    terminal.type("Hi\r");
    ASSERT_TRUE(terminal.shows("turn 1"));
    EXPECT_EQ(terminal.screen().n_colours() > 0, colours);
  }
  PseudoTerminal empty({"/usr/bin/env", "NO_COLOR=", IBID_PROGRAM, "chat", model_});
  ASSERT_TRUE(empty.prompts());
  EXPECT_GT(empty.screen().n_colours(), 0u) << "an empty NO_COLOR is ignored";
}

TEST_F(ChatOutput, DumbTerminalGetsWrappedTextWithoutSequences) {
  PseudoTerminal terminal(chat(), {.rows = 15, .columns = 60, .environment = {{"TERM", "dumb"}}});
  ASSERT_TRUE(terminal.prompts());
  terminal.type("Why is the sky blue?\r");
  ASSERT_TRUE(terminal.shows("turn 1"));
  EXPECT_THAT(terminal.screen().everything(),
              HasSubstr("The sky appears blue because of a phenomenon called Rayleigh\nscattering, which occurs"));
  EXPECT_EQ(terminal.bytes().find('\x1b'), std::string::npos);
}

// A pseudo-terminal with both ends in the test.
class OpenTerminal {
 public:
  OpenTerminal() { EXPECT_EQ(openpty(&master_, &slave_, nullptr, nullptr, nullptr), 0); }
  ~OpenTerminal() {
    close(master_);
    close(slave_);
  }
  int fd() const { return slave_; }
  // Reads until the condition holds on the screen. Has no timeout of its own.
  void await(const std::function<bool(const ScreenModel&)>& condition) {
    char buffer[256];
    while (!condition(screen_)) {
      const ssize_t n = read(master_, buffer, sizeof(buffer));
      ASSERT_GT(n, 0);
      screen_.feed(std::string_view(buffer, static_cast<size_t>(n)));
    }
  }

 private:
  int master_ = -1, slave_ = -1;
  ScreenModel screen_{24, 80};
};

TEST(ProgressIndicator, AppearsAfterSilenceChangesAndDisappears) {
  const ScopedVariable term("TERM", "xterm");
  OpenTerminal terminal;
  ProgressIndicator sign(terminal.fd());
  sign.show_step("reading 1 of 9 tokens");
  terminal.await([](const ScreenModel& s) { return s.row(0) == "reading 1 of 9 tokens"; });
  sign.show_step("reading 5 of 9 tokens");
  terminal.await([](const ScreenModel& s) { return s.row(0).starts_with("reading 5 of 9 tokens"); });
  terminal.await([](const ScreenModel& s) { return s.row(0).ends_with(" s"); });
  sign.end();
  terminal.await([](const ScreenModel& s) { return s.row(0).empty() && s.cursor_column() == 0; });
}

TEST(ProgressIndicator, FastStepsDoNotFlicker) {
  const ScopedVariable term("TERM", "xterm");
  OpenTerminal terminal;
  {
    ProgressIndicator sign(terminal.fd(), std::chrono::hours(1));
    for (int i = 0; i < 100; ++i) {
      sign.show_step("loading");
      sign.end();
    }
  }
  ASSERT_EQ(write(terminal.fd(), "x", 1), 1);
  terminal.await([](const ScreenModel& s) { return !s.row(0).empty(); });
  terminal.await([](const ScreenModel& s) { return s.row(0) == "x" && s.n_sequences() == 0 && s.n_colours() == 0; });
}

}  // namespace
}  // namespace ibid
