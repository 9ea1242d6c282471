// Runs a program in a terminal of a given size, types into it and reads its screen.
//
//   PseudoTerminal terminal({IBID_PROGRAM, "chat", model}, {.rows = 24, .columns = 80});
//   ASSERT_TRUE(terminal.shows("> "));           // waits until the screen holds it, or fails with the screen
//   terminal.type("Hello\r");                    // keys as a keyboard sends them: Enter is \r, Ctrl-C is \x03
//   ASSERT_TRUE(terminal.shows("Hi there."));
//   terminal.paste("two\nlines");                // as a terminal pastes: in brackets if the program asked for them
//   terminal.type("\x04");
//   EXPECT_EQ(terminal.exit_status(), 0);
//   EXPECT_EQ(terminal.screen().row(0), "...");
//
// Nothing sleeps and hopes: every wait is for something that is seen, and gives up after kPatience. To show
// that something does *not* come, wait for what comes behind it (a prompt, the answer to the next message)
// and look at the screen then. A model that needs no download and says what the test wants:
// tests/support/scripted_model.h.
//
// The program gets this environment and TERM=xterm-256color, with HOME and the XDG directories below a
// temporary directory of its own unless `environment` says otherwise. One terminal is for one thread.
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
  std::map<std::string, std::string> environment = {};  // on top of what is said above; an empty value unsets
  std::string input_file = {};                          // standard input, where it is no terminal
  std::string output_file = {};                         // standard output, where it is no terminal
};

class PseudoTerminal {
 public:
  static constexpr std::chrono::seconds kPatience{20};

  explicit PseudoTerminal(const std::vector<std::string>& command, TerminalOptions options = {});
  ~PseudoTerminal();  // ends the program if it still runs
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  // Writes all of it, and reads what the program writes meanwhile.
  void type(std::string_view keys);
  void paste(std::string_view text);
  void resize(size_t rows, size_t columns);

  // Waits until the screen, or what scrolled out of it, holds `text`; else the screen is in the failure.
  testing::AssertionResult shows(std::string_view text);
  // The same for whatever a test can say of the screen; `what` is for the failure.
  testing::AssertionResult until(const std::function<bool(const ScreenModel&)>& condition, std::string_view what);
  // Waits until the cursor stands behind `prompt` in the last row that is not empty, with nothing typed.
  testing::AssertionResult prompts(std::string_view prompt = ">");

  const ScreenModel& screen() const { return screen_; }
  // Everything the program wrote, as bytes.
  const std::string& bytes() const { return bytes_; }
  pid_t pid() const { return pid_; }
  // Waits until the program has stopped itself (Ctrl-Z); resume() lets it go on.
  testing::AssertionResult stops();
  void resume();
  // Whether the terminal echoes and edits by itself, which is how a program should leave it.
  bool is_as_found() const;

  // Waits for the end. 128 + n for signal n; nothing when it does not come.
  std::optional<int> exit_status();

 private:
  using Clock = std::chrono::steady_clock;
  // Takes what comes until then; false when nothing came.
  bool read_some(Clock::time_point deadline);
  void start(const std::vector<std::string>& command, const TerminalOptions& options);
  [[noreturn]] void be_shell(const std::vector<char*>& arguments, const TerminalOptions& options, int changes);
  // The next time the program stops or ends (then status_ is set); false when it does neither.
  bool await_change();

  TempDir home_;
  ScreenModel screen_;
  std::string bytes_;
  pid_t pid_ = -1;
  pid_t shell_ = -1;
  int changes_ = -1;  // from the shell: the program's id, then what became of it
  int master_ = -1;
  int slave_ = -1;   // kept open, so that its modes can be looked at
  std::optional<int> status_;
};

}  // namespace ibid
