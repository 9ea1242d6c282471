// Typing into `ibid chat`: pastes, editing, history, keys. Each test sends the bytes of a keyboard and reads the
// screen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "tests/support/pseudo_terminal.h"
#include "tests/support/scripted_model.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kFamily = "\U0001F469\u200D\U0001F469\u200D\U0001F467";
const std::string kThumb = "\U0001F44D\U0001F3FD";
const std::string kUp = "\x1b[A", kLeft = "\x1b[D", kRight = "\x1b[C";

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t i = text.find(what); i != std::string::npos; i = text.find(what, i + what.size())) ++n;
  return n;
}

// The model answers each message that it knows exactly; so the answer shows which message it received.
class ChatTyping : public testing::Test {
 protected:
  ChatTyping() {
    write_scripted_model(model_,
                         {{.when = "q == 'Fix this function:\ndef add(a, b):\n\treturn a - b\n\nWhat is wrong?'",
                           .says = "You sent five lines."},
                          {.when = "q|length == 50000", .says = "Fifty thousand characters arrived."},
                          {.when = "q == 'one\ntwo'", .says = "Two lines came."},
                          {.when = "q == 'a" + kThumb + "b" + kFamily + "c'", .says = "Emoji are whole."},
                          {.when = "q == 'ab" + kFamily + "c'", .says = "One of them is gone."},
                          {.when = "q == 'first second third'", .says = "In their order."},
                          {.when = "'story' in q", .says = "Once upon a time there was", .endless = true},
                          {.says = "Hello there, my friend."}},
                         60000);
  }

  std::vector<std::string> chat(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {IBID_PROGRAM, "chat", model_};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  static size_t n_prompts(const PseudoTerminal& terminal) { return count(terminal.bytes(), "\r\x1b[J> "); }

  TempDir dir_;
  const std::string model_ = dir_.file("scripted.gguf");
};

const std::string kFiveLines = "Fix this function:\ndef add(a, b):\n\treturn a - b\n\nWhat is wrong?";

TEST_F(ChatTyping, MultiLinePasteIsOneMessage) {
  PseudoTerminal terminal(chat());
  ASSERT_TRUE(terminal.prompts());
  terminal.paste(kFiveLines);
  ASSERT_TRUE(terminal.shows("What is wrong?"));
  EXPECT_THAT(terminal.screen().text(), HasSubstr("> Fix this function:\n  def add(a, b):\n        return a - b\n\n"));
  EXPECT_THAT(terminal.screen().text(), Not(HasSubstr("turn 1"))) << "nothing is sent before Enter";
  terminal.type("\r");
  ASSERT_TRUE(terminal.shows("You sent five lines.\n"));
  ASSERT_TRUE(terminal.prompts());
  EXPECT_THAT(terminal.screen().everything(), Not(HasSubstr("turn 2")));
  EXPECT_TRUE(terminal.screen().unknown().empty());
}

TEST_F(ChatTyping, PasteIsNormalizedAndLosesControlCharacters) {
  PseudoTerminal terminal(chat());
  ASSERT_TRUE(terminal.prompts());
  terminal.type("\x1b[200~a\r\nb\nc\td\x07\x1b[31me\rf\x1b[201~");
  ASSERT_TRUE(terminal.shows("> a\n  b\n  c     d[31me\n  f"));
  terminal.type("\x03");
  ASSERT_TRUE(terminal.prompts());
  terminal.type("\x1b[200~one\r\ntwo\n\x1b[201~");
  terminal.type("\r");
  ASSERT_TRUE(terminal.shows("Two lines came.\n")) << "\\r\\n is one newline, and the last newline is dropped";
  EXPECT_TRUE(terminal.screen().unknown().empty()) << "no escape sequence of a paste reaches the terminal";
}

TEST_F(ChatTyping, LargePasteIsOneMessage) {
  std::string text;
  while (text.size() < 50000) text += "This is line " + std::to_string(text.size()) + " of a long text.\n";
  text.resize(49999);
  text += "!";
  PseudoTerminal terminal(chat());
  ASSERT_TRUE(terminal.prompts());
  terminal.paste(text);
  terminal.type("\r");
  ASSERT_TRUE(terminal.shows("Fifty thousand characters arrived.\n"));
  ASSERT_TRUE(terminal.prompts());
  EXPECT_EQ(count(terminal.screen().everything(), "turn "), 1u);
  EXPECT_LT(terminal.bytes().size(), 50000u) << "the text is not redrawn for every key";
}

TEST_F(ChatTyping, PasteDuringAnAnswerIsOneMessage) {
  PseudoTerminal terminal(chat());
  ASSERT_TRUE(terminal.prompts());
  terminal.type("Tell me a story\r");
  ASSERT_TRUE(terminal.shows("upon"));
  EXPECT_TRUE(terminal.screen().bracketed_paste());
  terminal.type("\x03");
  ASSERT_TRUE(terminal.shows("stopped"));
  ASSERT_TRUE(terminal.prompts());
  terminal.type("Hi\r");
  terminal.paste(kFiveLines);
  terminal.type("\r");
  ASSERT_TRUE(terminal.shows("You sent five lines.\n"));
}

TEST_F(ChatTyping, ControlCDiscardsTheRestOfAnUnbracketedPaste) {
  PseudoTerminal terminal(chat());
  ASSERT_TRUE(terminal.prompts());
  std::string lines = "Tell me a story\r";
  for (int i = 0; i < 2000; ++i) lines += "line " + std::to_string(i) + " of a text in no brackets\r";
  terminal.type(lines);  // more than the system's input queue can hold
  ASSERT_TRUE(terminal.shows("upon"));
  terminal.type("\x03");
  ASSERT_TRUE(terminal.shows("stopped"));
  terminal.type("one\x1b\rtwo\r");
  ASSERT_TRUE(terminal.shows("Two lines came.\n"));
  ASSERT_TRUE(terminal.prompts());
  EXPECT_EQ(count(terminal.bytes(), "Hello there"), 0u) << "no queued line was answered";
}

TEST_F(ChatTyping, TypeAheadLinesAreAnsweredInOrder) {
  PseudoTerminal terminal(chat());
  ASSERT_TRUE(terminal.prompts());
  terminal.type("Hi\rfirst second third\r");
  ASSERT_TRUE(terminal.shows("In their order.\n"));
  EXPECT_THAT(terminal.screen().everything(), HasSubstr("Hello there, my friend.\n"));
}

TEST_F(ChatTyping, TripleQuotesAndBackslashesInsertNewlines) {
  PseudoTerminal terminal(chat());
  ASSERT_TRUE(terminal.prompts());
  terminal.type("\"\"\"one\rtwo\"\"\"\r");
  ASSERT_TRUE(terminal.shows("Two lines came.\n"));
  ASSERT_TRUE(terminal.prompts());
  terminal.type("\"\"\"\rone\rtwo\r\"\"\"\r");
  ASSERT_TRUE(terminal.until([](const ScreenModel& s) { return count(s.everything(), "Two lines came.") == 2; }, "2"));
  ASSERT_TRUE(terminal.prompts());
  terminal.type("one\\\rtwo\r");
  ASSERT_TRUE(terminal.until([](const ScreenModel& s) { return count(s.everything(), "Two lines came.") == 3; }, "3"));
}

TEST_F(ChatTyping, EmojiAreEditedAsOneCharacter) {
  PseudoTerminal terminal(chat());
  ASSERT_TRUE(terminal.prompts());
  terminal.type("a" + kThumb + "b" + kFamily + "c");
  ASSERT_TRUE(terminal.shows("> a" + kThumb + "b" + kFamily + "c"));
  for (int i = 0; i < 5; ++i) terminal.type(kLeft);
  for (int i = 0; i < 5; ++i) terminal.type(kRight);
  ASSERT_TRUE(
      terminal.until([](const ScreenModel& s) { return s.cursor_column() == 2 + 1 + 2 + 1 + 2 + 1; }, "columns"));
  EXPECT_EQ(terminal.screen().row(terminal.screen().cursor_row()), "> a" + kThumb + "b" + kFamily + "c");
  terminal.type("\r");
  ASSERT_TRUE(terminal.shows("Emoji are whole.\n"));
  ASSERT_TRUE(terminal.prompts());
  terminal.type(kUp + kLeft + kLeft + kLeft + "\x7f\r");  // moves to the position after the thumb
  ASSERT_TRUE(terminal.shows("One of them is gone.\n"));
  EXPECT_THAT(terminal.screen().everything(), HasSubstr("> ab" + kFamily + "c\n"));
}

TEST_F(ChatTyping, CombiningMarksAreErasedWithTheirLetter) {
  PseudoTerminal terminal(chat());
  ASSERT_TRUE(terminal.prompts());
  terminal.type("cafe\u0301s");
  ASSERT_TRUE(terminal.shows("> cafe\u0301s"));
  terminal.type(kLeft + "\x7f");
  ASSERT_TRUE(terminal.shows("> cafs"));
  EXPECT_EQ(terminal.screen().cursor_column(), 5u);
}

TEST_F(ChatTyping, WrappedWideTextCanBeEdited) {
  PseudoTerminal terminal(chat(), {.rows = 15, .columns = 20});
  ASSERT_TRUE(terminal.prompts());
  std::string text;
  for (int i = 0; i < 15; ++i) text += "\u4e2d";  // nine fit after the prompt, the tenth wraps
  terminal.type(text);
  ASSERT_TRUE(terminal.until([](const ScreenModel& s) { return s.cursor_column() == 12; }, "six in the second row"));
  const size_t row = terminal.screen().cursor_row();
  terminal.type(
      "\x01"
      "ab");
  ASSERT_TRUE(terminal.shows("> ab\u4e2d"));
  EXPECT_EQ(terminal.screen().row(row - 1), "> ab" + text.substr(0, 24));
  EXPECT_EQ(terminal.screen().row(row), text.substr(0, 21)) << "no blanks at the wrap";
  terminal.type("c\x05");
  ASSERT_TRUE(terminal.until([](const ScreenModel& s) { return s.cursor_column() == 16; }, "the end"));
  EXPECT_EQ(terminal.screen().row(row - 1), "> abc" + text.substr(0, 21));
  EXPECT_EQ(terminal.screen().row(row), text.substr(0, 24));
}

TEST_F(ChatTyping, LongTextScrollsWithTheCursor) {
  PseudoTerminal terminal(chat(), {.rows = 6, .columns = 30});
  ASSERT_TRUE(terminal.prompts());
  std::string text = "top";
  for (int i = 0; i < 20; ++i) text += "\nline " + std::to_string(i);
  terminal.paste(text);
  ASSERT_TRUE(terminal.until([](const ScreenModel& s) { return s.row(5) == "  line 19"; }, "the last line"));
  EXPECT_EQ(terminal.screen().row(0), "  line 14");
  for (int i = 0; i < 20; ++i) terminal.type(kUp);
  ASSERT_TRUE(terminal.until([](const ScreenModel& s) { return s.row(0) == "> top"; }, "the first line"));
  EXPECT_EQ(terminal.screen().row(5), "  line 4");
  terminal.type("!\x1b[F");
  ASSERT_TRUE(terminal.until([](const ScreenModel& s) { return s.row(0) == "> top!"; }, "the change"));
}

TEST_F(ChatTyping, ControlGOpensTheEditorWithTheTypedText) {
  const std::string editor =
      dir_.write("editor", "#!/bin/sh\nstat -c %a \"$1\" >\"" + dir_.file("mode") + "\"\ncp \"$1\" \"" +
                               dir_.file("seen") + "\"\nprintf 'one\\ntwo\\n' >\"$1\"\n");
  chmod(editor.c_str(), 0700);
  PseudoTerminal terminal(chat(), {.environment = {{"EDITOR", editor}, {"VISUAL", ""}, {"TMPDIR", dir_.path()}}});
  ASSERT_TRUE(terminal.prompts());
  terminal.type("draft");
  ASSERT_TRUE(terminal.shows("> draft"));
  terminal.type("\x07");
  ASSERT_TRUE(terminal.shows("> one\n  two"));
  EXPECT_EQ(read_whole_file(dir_.file("seen")), "draft\n");
  EXPECT_EQ(read_whole_file(dir_.file("mode")), "600\n");
  terminal.type("\r");
  ASSERT_TRUE(terminal.shows("Two lines came.\n"));
  EXPECT_NE(std::system(("ls " + dir_.path() + "/ibid-* 2>/dev/null").c_str()), 0) << "the temporary file is removed";
}

TEST_F(ChatTyping, FailingEditorChangesNothing) {
  PseudoTerminal terminal(chat(), {.environment = {{"VISUAL", "false"}}});
  ASSERT_TRUE(terminal.prompts());
  terminal.type("first second third\x07");
  ASSERT_TRUE(terminal.shows("the editor 'false' failed"));
  terminal.type("\r");
  ASSERT_TRUE(terminal.shows("In their order.\n"));
}

TEST_F(ChatTyping, HistoryIsSavedAndSearchable) {
  const std::string path = dir_.file("history");
  {
    PseudoTerminal terminal(chat(), {.environment = {{"IBID_HISTORY", path}}});
    ASSERT_TRUE(terminal.prompts());
    terminal.paste("one\ntwo");
    terminal.type("\r");
    ASSERT_TRUE(terminal.shows("Two lines came.\n"));
    ASSERT_TRUE(terminal.prompts());
    terminal.type("back\\slash\r");
    ASSERT_TRUE(terminal.shows("Hello there, my friend.\n"));
    terminal.type("\x04");
    ASSERT_EQ(terminal.exit_status(), 0);
  }
  EXPECT_EQ(read_whole_file(path), "one\\ntwo\nback\\\\slash\n");
  struct stat file {};
  ASSERT_EQ(stat(path.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  PseudoTerminal terminal(chat(), {.environment = {{"IBID_HISTORY", path}}});
  ASSERT_TRUE(terminal.prompts());
  terminal.type(kUp);
  ASSERT_TRUE(terminal.shows("> back\\slash"));
  terminal.type(kUp);
  ASSERT_TRUE(terminal.shows("> one\n  two"));
  terminal.type("\r");
  ASSERT_TRUE(terminal.shows("Two lines came.\n"));
  ASSERT_TRUE(terminal.prompts());
  terminal.type(
      "\x12"
      "slash");
  ASSERT_TRUE(terminal.shows("(search) slash: back\\slash"));
  terminal.type("\r");
  ASSERT_TRUE(terminal.shows("> back\\slash"));
}

TEST_F(ChatTyping, HistoryIsInTheStateFolderAndCanBeDisabled) {
  const std::string state = dir_.file("state");
  for (const bool on : {false, true}) {
    std::map<std::string, std::string> environment = {{"XDG_STATE_HOME", state}};
    std::vector<std::string> command = chat();
    if (!on) command = {"/usr/bin/env", "IBID_HISTORY=", IBID_PROGRAM, "chat", model_};
    PseudoTerminal terminal(command, {.environment = environment});
    ASSERT_TRUE(terminal.prompts());
    terminal.type("Hi\r");
    ASSERT_TRUE(terminal.shows("Hello there"));
    ASSERT_TRUE(terminal.prompts());
    terminal.type(kUp);
    ASSERT_TRUE(
        terminal.until([](const ScreenModel& s) { return s.row(s.cursor_row()) == "> Hi"; }, "it within the chat"));
    terminal.type("\x15\x04");
    ASSERT_EQ(terminal.exit_status(), 0);
    EXPECT_EQ(access((state + "/ibid/history").c_str(), F_OK) == 0, on);
  }
}

TEST_F(ChatTyping, ControlCClearsTheLineAndControlDDeletesOrExits) {
  PseudoTerminal terminal(chat());
  ASSERT_TRUE(terminal.prompts());
  terminal.type("never sent\x03");
  ASSERT_TRUE(terminal.shows("> never sent\n/exit or Ctrl-D leaves\n> "));
  terminal.type("ab" + kLeft + "\x04");
  ASSERT_TRUE(terminal.until([](const ScreenModel& s) { return s.row(s.cursor_row()) == "> a"; }, "Ctrl-D deleting"));
  terminal.type("\x7f\x04");
  EXPECT_EQ(terminal.exit_status(), 0);
  EXPECT_TRUE(terminal.is_as_found());
  EXPECT_FALSE(terminal.screen().bracketed_paste());
}

TEST_F(ChatTyping, ControlZRestoresTheTerminalModesUntilResumed) {
  PseudoTerminal terminal(chat());
  ASSERT_TRUE(terminal.prompts());
  terminal.type("first sec\x1a");
  ASSERT_TRUE(terminal.stops());
  EXPECT_TRUE(terminal.is_as_found());
  EXPECT_FALSE(terminal.screen().bracketed_paste());
  terminal.resume();
  ASSERT_TRUE(terminal.until([](const ScreenModel& s) { return s.row(s.cursor_row()) == "> first sec"; }, "it again"));
  terminal.type("ond third\r");
  ASSERT_TRUE(terminal.shows("In their order.\n"));
  EXPECT_EQ(count(terminal.screen().everything(), "> first"), 2u) << "drawn once before and once after";
  EXPECT_TRUE(terminal.screen().bracketed_paste());
  terminal.type("Tell me a story\r");
  ASSERT_TRUE(terminal.shows("upon"));
  terminal.type("\x1a");
  ASSERT_TRUE(terminal.stops());
  EXPECT_TRUE(terminal.is_as_found());
  EXPECT_FALSE(terminal.screen().bracketed_paste());
  terminal.resume();
  terminal.type("\x03");
  ASSERT_TRUE(terminal.shows("stopped"));
  ASSERT_TRUE(terminal.prompts());
}

TEST_F(ChatTyping, FatalSignalsRestoreTheTerminal) {
  for (const int signal : {SIGTERM, SIGHUP, SIGABRT, SIGSEGV, SIGINT}) {
    PseudoTerminal terminal(chat());
    ASSERT_TRUE(terminal.prompts());
    ASSERT_FALSE(terminal.is_as_found());
    kill(terminal.pid(), signal);
    EXPECT_EQ(terminal.exit_status(), 128 + signal);
    EXPECT_TRUE(terminal.is_as_found()) << signal;
    EXPECT_FALSE(terminal.screen().bracketed_paste()) << signal;
  }
}

TEST_F(ChatTyping, DumbTerminalGetsNoSequences) {
  for (const char* term : {"dumb", ""}) {
    PseudoTerminal terminal(chat(), {.environment = {{"TERM", term}}});
    ASSERT_TRUE(terminal.prompts());
    terminal.type("one\\\rtwo\r");
    ASSERT_TRUE(terminal.shows("Two lines came.\n"));
    ASSERT_TRUE(terminal.prompts());
    terminal.type("\"\"\"one\rtwo\"\"\"\r");
    ASSERT_TRUE(
        terminal.until([](const ScreenModel& s) { return count(s.everything(), "Two lines came.") == 2; }, "2"));
    ASSERT_TRUE(terminal.prompts());
    terminal.type("abc\x03");
    ASSERT_TRUE(terminal.shows("/exit or Ctrl-D leaves"));
    terminal.type("\x04");
    EXPECT_EQ(terminal.exit_status(), 0);
    EXPECT_EQ(terminal.screen().n_sequences(), 0u);
    EXPECT_EQ(terminal.screen().n_colours(), 0u);
  }
}

TEST_F(ChatTyping, LineIsRedrawnAfterResizing) {
  PseudoTerminal terminal(chat());
  ASSERT_TRUE(terminal.prompts());
  terminal.type("first sec");
  ASSERT_TRUE(terminal.shows("> first sec"));
  terminal.resize(15, 60);
  terminal.type("ond third");
  ASSERT_TRUE(terminal.shows("> first second third"));
  EXPECT_EQ(count(terminal.screen().everything(), "> first"), 1u);
  terminal.type("\r");
  ASSERT_TRUE(terminal.shows("In their order.\n"));
}

TEST_F(ChatTyping, TypeAheadWhileLoadingIsKeptForThePrompt) {
  PseudoTerminal terminal(chat());
  terminal.type("first second third\r");
  ASSERT_TRUE(terminal.shows("In their order.\n"));
  ASSERT_TRUE(terminal.prompts());
  EXPECT_EQ(count(terminal.screen().everything(), "> first second third"), 1u);
  // Echo is off and bracketed paste on before the model is loaded.
  EXPECT_LT(terminal.bytes().find("\x1b[?2004h"), terminal.bytes().find("context 60000"));
}

TEST_F(ChatTyping, FirstMessageComesFromThePromptOption) {
  PseudoTerminal terminal(chat({"-p", "first second third"}));
  ASSERT_TRUE(terminal.shows("> first second third\nIn their order.\n"));
  ASSERT_TRUE(terminal.prompts());
  terminal.type("Hi\r");
  ASSERT_TRUE(terminal.shows("Hello there, my friend.\n"));
}

TEST_F(ChatTyping, TabCompletesCommandArguments) {
  PseudoTerminal terminal(chat());
  ASSERT_TRUE(terminal.prompts());
  terminal.type("/set stop-\ton\r");
  ASSERT_TRUE(terminal.shows("stop-repetition on from the next answer on"));
  ASSERT_TRUE(terminal.prompts());
  terminal.type("/when-full d\t\r");
  ASSERT_TRUE(terminal.shows("when the context is full: drop"));
  ASSERT_TRUE(terminal.prompts());
  terminal.type("/show see\t\r");
  ASSERT_TRUE(terminal.shows("seed random: "));
}

TEST_F(ChatTyping, TabCompletesFileNames) {
  dir_.write("notes of today.txt", "");
  PseudoTerminal terminal(chat());
  ASSERT_TRUE(terminal.prompts());
  terminal.type("look at @" + dir_.path() + "/no\t");
  ASSERT_TRUE(terminal.shows("notes\\ of\\ today.txt"));
}

}  // namespace
}  // namespace ibid
