#include "apps/chat/line_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <optional>
#include <utility>

#include "apps/terminal/line_editor.h"
#include "apps/terminal/line_history.h"
#include "apps/terminal/terminal.h"
#include "apps/terminal/terminal_input.h"
#include "base/check.h"
#include "base/utf8.h"

namespace ibid {

namespace {

// Write end of a self-pipe, so that a Ctrl-C just before poll() also ends poll().
int interrupt_fd = -1;

void note_interrupt(int) {
  const int saved = errno;
  [[maybe_unused]] const ssize_t written = write(interrupt_fd, "i", 1);
  errno = saved;
}

// Returns the terminal that shows the typed text: standard error if possible, because answers are on standard output.
std::optional<int> screen_for_typing() {
  if (supports_escapes(STDERR_FILENO)) return STDERR_FILENO;
  if (supports_escapes(STDOUT_FILENO)) return STDOUT_FILENO;
  return std::nullopt;
}

}  // namespace

struct LineReader::Terminal {
  explicit Terminal(int screen)
      : modes(STDIN_FILENO, screen),
        input(STDIN_FILENO),
        history(line_history_path()),
        editor(input, modes, screen, history) {}

  TerminalModes modes;
  TerminalInput input;
  LineHistory history;
  LineEditor editor;
};

// A terminal without escape sequences. The terminal itself echoes and edits, and there is no history. From the first
// read() on, Ctrl-C ends a line and not the process.
struct LineReader::PlainTerminal {
  PlainTerminal() {
    CHECK(pipe2(interrupts_, O_CLOEXEC | O_NONBLOCK) == 0);
    interrupt_fd = interrupts_[1];
  }
  ~PlainTerminal() {
    if (handles_interrupts_) sigaction(SIGINT, &before_, nullptr);
    interrupt_fd = -1;
    close(interrupts_[0]);
    close(interrupts_[1]);
  }
  PlainTerminal(const PlainTerminal&) = delete;
  PlainTerminal& operator=(const PlainTerminal&) = delete;

  Outcome read(std::string& message);

 private:
  void handle_interrupts();
  // Reads a line without its newline.
  Outcome read_line(std::string& line);

  int interrupts_[2] = {-1, -1};
  bool handles_interrupts_ = false;
  struct sigaction before_ {};
};

LineReader::LineReader(bool interactive) {
  const std::optional<int> screen = screen_for_typing();
  if (interactive && screen) {
    terminal_ = std::make_unique<Terminal>(*screen);
    terminal_->modes.set(TerminalMode::kAnswering);
  } else if (interactive) {
    plain_ = std::make_unique<PlainTerminal>();
  }
}

LineReader::~LineReader() = default;

void LineReader::set_completion(CompletionWords words) {
  if (terminal_ != nullptr) terminal_->editor.set_completion(std::move(words));
}

LineReader::Outcome LineReader::read(std::string& message, bool keep) {
  message.clear();
  if (plain_ != nullptr) return plain_->read(message);
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

void LineReader::PlainTerminal::handle_interrupts() {
  if (std::exchange(handles_interrupts_, true)) return;
  struct sigaction action {};
  action.sa_handler = note_interrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &before_);
}

LineReader::Outcome LineReader::PlainTerminal::read_line(std::string& line) {
  line.clear();
  for (;;) {
    pollfd sources[2] = {{STDIN_FILENO, POLLIN, 0}, {interrupts_[0], POLLIN, 0}};
    if (poll(sources, 2, -1) < 0) continue;  // poll() was interrupted by a signal
    char c = 0;
    if (sources[1].revents != 0 && ::read(interrupts_[0], &c, 1) == 1) return Outcome::kInterrupted;
    if (sources[0].revents == 0) continue;
    const ssize_t n = ::read(STDIN_FILENO, &c, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n == 0 && !line.empty() ? Outcome::kLine : Outcome::kEnd;
    if (c == '\n') return Outcome::kLine;
    line += c;
  }
}

LineReader::Outcome LineReader::PlainTerminal::read(std::string& message) {
  handle_interrupts();
  Outcome outcome = Outcome::kLine;
  std::string typed, line;
  for (const char* prompt = "> ";; prompt = "  ") {
    std::fputs(prompt, stderr);
    outcome = read_line(line);
    if (outcome != Outcome::kLine) {
      std::fputc('\n', stderr);
      break;
    }
    typed += utf8_sanitize(line);
    if (!typed.ends_with('\\') && !is_open_block(typed)) break;
    if (typed.ends_with('\\')) typed.pop_back();
    typed += '\n';
  }
  message = message_of(typed);
  return outcome;
}

}  // namespace ibid
