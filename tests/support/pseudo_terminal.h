// Runs a program in a pseudo-terminal of a given size, types into it and reads its screen.
//   PseudoTerminal terminal({IBID_PROGRAM, "chat", model}, {.rows = 24, .columns = 80});
//   ASSERT_TRUE(terminal.shows("> "));           // waits until the screen contains it, or fails with the screen
//   terminal.type("Hello\r");                    // keys as a keyboard sends them: Enter is \r, Ctrl-C is \x03
//   ASSERT_TRUE(terminal.shows("Hi there."));
//   terminal.paste("two\nlines");                // bracketed if the program enabled bracketed paste
//   terminal.type("\x04");
//   EXPECT_EQ(terminal.exit_status(), 0);
//   EXPECT_EQ(terminal.screen().row(0), "...");
// There are no fixed sleeps: every wait is for visible output, and fails after kPatience. To test
// that some output does *not* appear, wait for output after it (a prompt, the answer to the next message)
// and check the screen then. tests/support/scripted_model.h writes a model with scripted answers, without a
// download.
//
// The program gets the environment of the test and TERM=xterm-256color, with HOME and the XDG directories in a
// separate temporary directory unless `environment` sets them. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/screen_model.h"
#include "tests/support/temp_dir.h"

namespace ibid {

struct TerminalOptions {
  size_t rows = 24;
  size_t columns = 80;
  std::map<std::string, std::string> environment = {};  // variables to set; an empty value unsets one
  std::string input_file = {};                          // file used as standard input instead of the terminal
  std::string output_file = {};                         // file used as standard output instead of the terminal
};

class PseudoTerminal {
 public:
  static constexpr std::chrono::seconds kPatience{20};

  explicit PseudoTerminal(const std::vector<std::string>& command, TerminalOptions options = {});
  ~PseudoTerminal();  // kills the program if it still runs
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  // Writes all keys, and meanwhile reads the program's output.
  void type(std::string_view keys);
  void paste(std::string_view text);
  void resize(size_t rows, size_t columns);

  // Waits until the screen, including rows that scrolled out, contains `text`. The failure message contains the screen.
  testing::AssertionResult shows(std::string_view text);
  // As shows(), for any condition on the screen; `what` is for the failure message.
  testing::AssertionResult until(const std::function<bool(const ScreenModel&)>& condition, std::string_view what);
  // Waits until the last row that is not empty is `prompt` without input after it, and the cursor is there.
  testing::AssertionResult prompts(std::string_view prompt = ">");

  const ScreenModel& screen() const { return screen_; }
  // All bytes that the program wrote.
  const std::string& bytes() const { return bytes_; }
  pid_t pid() const { return pid_; }
  // Waits until the program has stopped itself (Ctrl-Z); resume() continues it.
  testing::AssertionResult stops();
  void resume();
  // True if the terminal is in its initial mode (echo, line editing), which a program should restore when it ends.
  bool is_as_found() const;

  // Waits for the program's end. Returns 128 + n for signal n; nullopt if it does not end.
  std::optional<int> exit_status();

 private:
  using Clock = std::chrono::steady_clock;
  // Reads output until `deadline`. Returns false without output.
  bool read_some(Clock::time_point deadline);
  void start(const std::vector<std::string>& command, const TerminalOptions& options);
  [[noreturn]] void be_shell(const std::vector<char*>& arguments, const TerminalOptions& options, int changes);
  // Waits until the program stops or ends (then status_ is set); returns false if it does neither.
  bool await_change();

  TempDir home_;
  ScreenModel screen_;
  std::string bytes_;
  pid_t pid_ = -1;
  pid_t shell_ = -1;
  int changes_ = -1;  // pipe from the shell with the program's id, then its status changes
  int master_ = -1;
  int slave_ = -1;  // kept open, so that the terminal's modes can be read
  std::optional<int> status_;
};

}  // namespace ibid
