#include "apps/terminal/terminal_input.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include "apps/terminal/terminal_text.h"
#include "base/check.h"
#include "base/utf8.h"

namespace ibid {

namespace {

TerminalInput* the_input = nullptr;

// Self-pipe, to which signal handlers write bytes, so that poll() can wait for keys and signals together.
int signal_pipe[2] = {-1, -1};
struct sigaction size_before, continue_before;

void write_signal_byte(char what) {
  const int saved = errno;
  [[maybe_unused]] const ssize_t written = write(signal_pipe[1], &what, 1);
  errno = saved;
}

void on_size(int) { write_signal_byte('s'); }

void size_after_stop(int signal) {
  const auto before = continue_before.sa_handler;
  if (before != SIG_DFL && before != SIG_IGN) before(signal);
  write_signal_byte('c');
}

}  // namespace

// REQUIRES: the TerminalModes outlives this object, because size_after_stop() calls the SIGCONT handler of
// TerminalModes.
TerminalInput::TerminalInput(int keys_fd) : keys_(keys_fd) {
  CHECK(the_input == nullptr) << "one TerminalInput at a time";
  CHECK(pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) == 0);
  struct sigaction action {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = on_size;
  sigaction(SIGWINCH, &action, &size_before);
  action.sa_handler = size_after_stop;
  sigaction(SIGCONT, &action, &continue_before);
  the_input = this;
}

TerminalInput::~TerminalInput() {
  sigaction(SIGWINCH, &size_before, nullptr);
  sigaction(SIGCONT, &continue_before, nullptr);
  the_input = nullptr;
  close(signal_pipe[0]);
  close(signal_pipe[1]);
}

TerminalInput* TerminalInput::current() { return the_input; }

bool TerminalInput::has_byte() {
  {
    const std::lock_guard lock(mutex_);
    if (taken_ < waiting_.size()) return true;
  }
  pollfd readable{keys_, POLLIN, 0};
  return poll(&readable, 1, 0) > 0 && collect() && taken_ < waiting_.size();
}

bool TerminalInput::collect() {
  char buffer[4096];
  const ssize_t n = read(keys_, buffer, sizeof(buffer));
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  if (n == 0) return false;
  const std::lock_guard lock(mutex_);
  waiting_.erase(0, taken_);
  taken_ = 0;
  waiting_.append(buffer, static_cast<size_t>(n));
  return true;
}

void TerminalInput::discard() {
  tcflush(keys_, TCIFLUSH);
  const std::lock_guard lock(mutex_);
  waiting_.clear();
  taken_ = 0;
}

TerminalInput::Event TerminalInput::next(char& byte, std::optional<std::chrono::milliseconds> patience) {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (taken_ < waiting_.size()) {
        byte = waiting_[taken_++];
        return Event::kByte;
      }
    }
    pollfd sources[2] = {{keys_, POLLIN, 0}, {signal_pipe[0], POLLIN, 0}};
    const int n = poll(sources, 2, patience ? static_cast<int>(patience->count()) : -1);
    if (n == 0) return Event::kTimeout;
    if (n < 0 && errno != EINTR) return Event::kEnd;
    if (n < 0) continue;
    char what = 0;
    if ((sources[1].revents & POLLIN) != 0 && read(signal_pipe[0], &what, 1) == 1) {
      return what == 's' ? Event::kSizeChanged : Event::kContinued;
    }
    if (sources[0].revents != 0 && !collect()) return Event::kEnd;
  }
}

namespace {

using Event = TerminalInput::Event;

// Maximum wait for the rest of an escape sequence; long enough for a slow line, because Escape alone has no function.
constexpr std::chrono::milliseconds kSequencePatience{500};
constexpr std::string_view kPasteEnd = "\x1b[201~";

Key control_key(char c) {
  switch (c) {
    case '\x01': return Key::kHome;
    case '\x02': return Key::kLeft;
    case '\x03': return Key::kInterrupt;
    case '\x04': return Key::kDeleteOrEnd;
    case '\x05': return Key::kEnd;
    case '\x06': return Key::kRight;
    case '\x07': return Key::kEditor;
    case '\x08':
    case '\x7f': return Key::kBackspace;
    case '\t': return Key::kTab;
    case '\n':
    case '\r': return Key::kEnter;
    case '\x0b': return Key::kKillToEnd;
    case '\x0c': return Key::kClearScreen;
    case '\x0e': return Key::kDown;
    case '\x10': return Key::kUp;
    case '\x12': return Key::kSearch;
    case '\x14': return Key::kTranspose;
    case '\x15': return Key::kKillLine;
    case '\x17': return Key::kEraseArgument;
    case '\x19': return Key::kYank;
    case '\x1a': return Key::kSuspend;
    case '\x1f': return Key::kUndo;
    default: return Key::kNone;
  }
}

// Returns the key for ESC and the character `c`, which terminals send for Alt and a key.
Key alt_key(char c) {
  switch (c) {
    case 'b': return Key::kWordLeft;
    case 'f': return Key::kWordRight;
    case 'd': return Key::kDeleteWord;
    case '\x08':
    case '\x7f': return Key::kEraseWord;
    case '\n':
    case '\r': return Key::kNewline;
    case '<': return Key::kOldest;
    case '>': return Key::kNewest;
    default: return Key::kNone;
  }
}

// Decodes an ESC [ or ESC O sequence, given without these two characters.
Key sequence_key(std::string_view s) {
  const bool by_words = s.find(";5") != std::string_view::npos || s.find(";3") != std::string_view::npos;
  switch (s.back()) {
    case 'A': return Key::kUp;
    case 'B': return Key::kDown;
    case 'C': return by_words ? Key::kWordRight : Key::kRight;
    case 'D': return by_words ? Key::kWordLeft : Key::kLeft;
    case 'H': return Key::kHome;
    case 'F': return Key::kEnd;
    case 'M': return Key::kEnter;  // Enter on the numeric keypad
    default: break;
  }
  if (s == "1~" || s == "7~") return Key::kHome;
  if (s == "4~" || s == "8~") return Key::kEnd;
  if (s == "3~") return Key::kDelete;
  if (s == "3;5~" || s == "3;3~") return Key::kDeleteWord;
  return Key::kNone;
}

// Reads pasted text up to its closing bracket, or until no more bytes arrive.
std::string read_paste(TerminalInput& input) {
  std::string text;
  char c = 0;
  for (;;) {
    const Event event = input.next(c, std::chrono::seconds(5));
    if (event == Event::kSizeChanged || event == Event::kContinued) continue;
    if (event != Event::kByte) break;
    text += c;
    if (c == '~' && text.ends_with(kPasteEnd)) {
      text.resize(text.size() - kPasteEnd.size());
      break;
    }
  }
  return clean_paste(text);
}

KeyPress read_escape(TerminalInput& input) {
  char c = 0;
  if (input.next(c, kSequencePatience) != Event::kByte) return {};
  if (c != '[' && c != 'O') return {alt_key(c)};
  const bool single = c == 'O';
  std::string sequence;
  do {
    if (input.next(c, kSequencePatience) != Event::kByte) return {};
    sequence += c;
  } while (!single && (c < '@' || c > '~') && sequence.size() < 32);
  if (!single && sequence == "200~") return {Key::kPaste, read_paste(input)};
  return {sequence_key(sequence)};
}

// Ctrl-X Ctrl-E opens the editor, as in shells.
KeyPress read_after_control_x(TerminalInput& input) {
  char c = 0;
  const bool editor = input.next(c, kSequencePatience) == Event::kByte && c == '\x05';
  return {editor ? Key::kEditor : Key::kNone};
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

std::string clean_paste(std::string_view text) {
  std::string lines;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    lines += text[i] == '\r' ? '\n' : text[i];
  }
  return without_controls(utf8_sanitize(lines));
}

KeyPress read_key(TerminalInput& input) {
  char c = 0;
  switch (input.next(c)) {
    case Event::kByte: break;
    case Event::kSizeChanged: return {Key::kSizeChanged};
    case Event::kContinued: return {Key::kContinued};
    case Event::kTimeout: return {};
    case Event::kEnd: return {Key::kClosed};
  }
  if (c == '\x1b') return read_escape(input);
  if (c == '\x18') return read_after_control_x(input);
  if (is_control(c)) return {control_key(c)};
  std::string text(1, c);
  while (utf8_incomplete_tail(text) > 0 && input.next(c, kSequencePatience) == Event::kByte) text += c;
  return {Key::kText, without_controls(utf8_sanitize(text))};
}

}  // namespace ibid
