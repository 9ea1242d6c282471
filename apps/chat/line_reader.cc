#include "apps/chat/line_reader.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <optional>
#include <utility>

#include "apps/terminal/line_editor.h"
#include "apps/terminal/line_history.h"
#include "apps/terminal/terminal_input.h"
#include "apps/terminal/terminal_modes.h"
#include "apps/terminal/terminal_traits.h"
#include "base/utf8.h"

namespace ibid {

namespace {

volatile sig_atomic_t interrupted = 0;

void note_interrupt(int) { interrupted = 1; }

// Where what is typed is shown: with everything else that is no answer, if that can be.
std::optional<int> screen_for_typing() {
  if (obeys_sequences(STDERR_FILENO)) return STDERR_FILENO;
  if (obeys_sequences(STDOUT_FILENO)) return STDOUT_FILENO;
  return std::nullopt;
}

// A line from the terminal without its end; false at the end of input, and when a signal came.
bool read_terminal_line(std::string& line) {
  line.clear();
  char c = 0;
  for (;;) {
    const ssize_t n = ::read(STDIN_FILENO, &c, 1);
    if (n < 0 && errno == EINTR && interrupted == 0) continue;
    if (n <= 0) return n == 0 && !line.empty();
    if (c == '\n') return true;
    line += c;
  }
}

}  // namespace

struct LineReader::Terminal {
  explicit Terminal(int screen)
      : modes(STDIN_FILENO, screen), input(STDIN_FILENO), history(line_history_path()),
        editor(input, modes, screen, history) {}

  TerminalModes modes;
  TerminalInput input;
  LineHistory history;
  LineEditor editor;
};

LineReader::LineReader(bool interactive) : interactive_(interactive) {
  const std::optional<int> screen = screen_for_typing();
  if (interactive && screen) terminal_ = std::make_unique<Terminal>(*screen);
}

LineReader::~LineReader() = default;

void LineReader::set_completion(CompletionWords words) {
  if (terminal_ != nullptr) terminal_->editor.set_completion(std::move(words));
}

LineReader::Outcome LineReader::read(std::string& message, bool keep) {
  message.clear();
  if (terminal_ == nullptr && interactive_) return read_plainly(message);
  if (terminal_ == nullptr) {
    if (!std::getline(std::cin, message)) return Outcome::kEnd;
    if (!message.empty() && message.back() == '\r') message.pop_back();
    return Outcome::kLine;
  }
  terminal_->modes.set(TerminalMode::kTyping);
  std::string typed;
  const LineEditor::Outcome outcome = terminal_->editor.read(typed);
  terminal_->modes.set(TerminalMode::kAnswering);
  if (outcome == LineEditor::Outcome::kEnd) return Outcome::kEnd;
  if (outcome == LineEditor::Outcome::kInterrupted) return Outcome::kInterrupted;
  if (keep) terminal_->history.add(typed);
  message = message_of(typed);
  return Outcome::kLine;
}

// The terminal's own editing; nothing is kept.
LineReader::Outcome LineReader::read_plainly(std::string& message) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = note_interrupt;  // without SA_RESTART: the read ends
  sigaction(SIGINT, &action, &before);
  interrupted = 0;
  Outcome outcome = Outcome::kLine;
  std::string typed, line;
  for (const char* prompt = "> ";; prompt = "  ") {
    std::fputs(prompt, stderr);
    const bool read = read_terminal_line(line);
    if (!read) {
      std::fputc('\n', stderr);
      outcome = interrupted != 0 ? Outcome::kInterrupted : Outcome::kEnd;
      break;
    }
    typed += utf8_sanitize(line);
    if (!typed.ends_with('\\') && !is_open_block(typed)) break;
    if (typed.ends_with('\\')) typed.pop_back();
    typed += '\n';
  }
  sigaction(SIGINT, &before, nullptr);
  message = message_of(typed);
  return outcome;
}

}  // namespace ibid
