// LineEditor compared with the screen: after random keys, the rows and the cursor on the screen match the text.
#include "apps/terminal/line_editor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/scoped_variable.h"
#include "tests/support/screen_model.h"

namespace ibid {
namespace {

constexpr unsigned short kRows = 12, kColumns = 24;

// A LineEditor on one end of a pseudo-terminal; the test has the other end.
class EditorAtTerminal {
 public:
  EditorAtTerminal() {
    const winsize size{kRows, kColumns, 0, 0};
    EXPECT_EQ(openpty(&master_, &slave_, nullptr, nullptr, &size), 0);
    fcntl(master_, F_SETFL, O_NONBLOCK);
    thread_ = std::thread([this] { edit(); });
  }
  ~EditorAtTerminal() {
    type("\x03");
    thread_.join();
    close(master_);
    close(slave_);
  }

  void type(const std::string& keys) {
    ASSERT_EQ(write(master_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }

  // Waits until the screen is as wanted; returns false after 10 seconds.
  bool shows(const LaidOutText& wanted) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!is_as(wanted)) {
      pollfd readable{master_, POLLIN, 0};
      char buffer[4096];
      const ssize_t n = poll(&readable, 1, 100) > 0 ? read(master_, buffer, sizeof(buffer)) : 0;
      if (n > 0) screen_.feed(std::string_view(buffer, static_cast<size_t>(n)));
      if (n <= 0 && std::chrono::steady_clock::now() > deadline) return false;
    }
    return screen_.unknown().empty();
  }
  const ScreenModel& screen() const { return screen_; }

 private:
  // If the text is longer than the screen, a window with the cursor must be visible.
  bool is_as(const LaidOutText& wanted) const {
    const size_t n = std::min<size_t>(wanted.rows.size(), kRows);
    if (screen_.cursor_column() != wanted.cursor_column) return false;
    for (size_t top = 0; top + n <= wanted.rows.size(); ++top) {
      if (wanted.cursor_row < top || wanted.cursor_row >= top + n) continue;
      for (size_t first = 0; first + n <= kRows; ++first) {
        bool same = screen_.cursor_row() == first + wanted.cursor_row - top;
        for (size_t i = 0; same && i < n; ++i) same = screen_.row(first + i) == wanted.rows[top + i];
        for (size_t i = first + n; same && i < kRows; ++i) same = screen_.row(i).empty();
        if (same) return true;
      }
    }
    return false;
  }

  void edit() {
    TerminalModes modes(slave_, slave_);
    TerminalInput input(slave_);
    LineHistory history;
    LineEditor editor(input, modes, slave_, history);
    modes.set(TerminalMode::kTyping);
    std::string text;
    editor.read(text);
  }

  int master_ = -1, slave_ = -1;
  ScreenModel screen_{kRows, kColumns};
  std::thread thread_;
};

struct KeyAndMeaning {
  std::string bytes;
  std::function<void(EditBuffer&)> meaning;
};

std::vector<KeyAndMeaning> keys() {
  std::vector<KeyAndMeaning> all;
  for (const std::string text : {"a", "b ", " ", "word", "\u00e9", "\u4e2d", "\u6587\u5b57", "\U0001F600",
                                 "a long text that goes on", "z\u0301"}) {
    all.push_back({"\x1b[200~" + text + "\x1b[201~", [text](EditBuffer& b) { b.insert(text); }});
  }
  all.push_back({"\x1b[200~two\tlines\rhere\x1b[201~", [](EditBuffer& b) { b.insert("two\tlines\nhere"); }});
  const std::pair<const char*, void (EditBuffer::*)()> moves[] = {{"\x1b[D", &EditBuffer::left},
                                                                  {"\x1b[D", &EditBuffer::left},
                                                                  {"\x1b[C", &EditBuffer::right},
                                                                  {"\x7f", &EditBuffer::erase_left},
                                                                  {"\x1b[3~", &EditBuffer::erase_right},
                                                                  {"\x01", &EditBuffer::to_line_begin},
                                                                  {"\x05", &EditBuffer::to_line_end},
                                                                  {"\x17", &EditBuffer::erase_argument_left},
                                                                  {"\x0b", &EditBuffer::kill_to_end},
                                                                  {"\x19", &EditBuffer::yank},
                                                                  {"\x14", &EditBuffer::transpose},
                                                                  {"\x1f", &EditBuffer::undo},
                                                                  {"\x1b"
                                                                   "b",
                                                                   &EditBuffer::word_left},
                                                                  {"\x1b"
                                                                   "f",
                                                                   &EditBuffer::word_right},
                                                                  {"\x1b[1;5C", &EditBuffer::word_right},
                                                                  {"\x1b"
                                                                   "d",
                                                                   &EditBuffer::erase_word_right}};
  for (const auto& [bytes, move] : moves) {
    all.push_back({bytes, [move = move](EditBuffer& b) { (b.*move)(); }});
  }
  all.push_back({"\x1b\r", [](EditBuffer& b) { b.insert("\n"); }});
  all.push_back({"\x1b[A", [](EditBuffer& b) { b.up(); }});  // the history is empty
  all.push_back({"\x1b[B", [](EditBuffer& b) { b.down(); }});
  return all;
}

TEST(LineEditor, ScreenMatchesTheTextAfterRandomKeys) {
  const ScopedVariable term("TERM", "xterm");
  const std::vector<KeyAndMeaning> all = keys();
  for (unsigned seed = 1; seed <= 8; ++seed) {
    std::mt19937 random(seed);
    EditorAtTerminal terminal;
    EditBuffer twin;
    std::string last;
    for (int i = 0; i < 120; ++i) {
      const KeyAndMeaning& key = all[random() % all.size()];
      terminal.type(key.bytes);
      key.meaning(twin);
      ASSERT_TRUE(terminal.shows(lay_out("> ", twin.text(), twin.cursor(), kColumns)))
          << "seed " << seed << ", key " << i << "\nthe text:\n"
          << twin.text() << "\nthe screen:\n"
          << terminal.screen().text();
    }
  }
}

TEST(LineEditor, TripleQuotedBlocksEndAtTheClosingQuotes) {
  EXPECT_TRUE(is_open_block("\"\"\""));
  EXPECT_TRUE(is_open_block("  \"\"\"one\ntwo"));
  EXPECT_FALSE(is_open_block("\"\"\"one\ntwo\"\"\""));
  EXPECT_FALSE(is_open_block("one \"\"\" two"));
  EXPECT_EQ(message_of("\"\"\"\none\ntwo\n\"\"\""), "one\ntwo");
  EXPECT_EQ(message_of("\"\"\"one\"\"\" \n"), "one");
  EXPECT_EQ(message_of("\"\"\"A docstring.\"\"\"\ndef f(): ..."), "\"\"\"A docstring.\"\"\"\ndef f(): ...");
  EXPECT_EQ(message_of(" as it is \n\n"), " as it is ");
}

}  // namespace
}  // namespace ibid
