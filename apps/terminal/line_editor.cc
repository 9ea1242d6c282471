#include "apps/terminal/line_editor.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "apps/terminal/graphemes.h"
#include "apps/terminal/terminal.h"
#include "apps/terminal/terminal_input.h"
#include "apps/terminal/terminal_text.h"
#include "base/file_ops.h"
#include "base/result.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/write_all.h"

namespace ibid {

namespace {

constexpr uint64_t kMaxBytes = 16'000'000;

std::string editor_command() {
  for (const char* name : {"VISUAL", "EDITOR"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != 0) return value;
  }
  return "vi";
}

// A temporary file. The destructor removes it and the usual backup files of editors.
class EditedFile {
 public:
  static Result<EditedFile> create(const std::string& text) {
    const char* directory = std::getenv("TMPDIR");
    std::string path = (directory == nullptr || *directory == 0 ? "/tmp" : directory) + std::string("/ibid-XXXXXX.md");
    const int fd = mkstemps(path.data(), 3);  // mkstemps() creates the file with mode 0600
    if (fd < 0) return errno_status(errno, path, "create");
    EditedFile file(path);
    const std::string content = text.empty() ? text : text + "\n";
    const bool written = write_all(fd, content);
    if (close(fd) != 0 || !written) return Status(ErrorCode::kIo, path + ": cannot be written");
    return file;
  }
  EditedFile(EditedFile&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  EditedFile& operator=(EditedFile&&) = delete;
  ~EditedFile() {
    if (path_.empty()) return;
    unlink(path_.c_str());
    unlink((path_ + "~").c_str());
  }
  const std::string& path() const { return path_; }

 private:
  explicit EditedFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Runs the editor and returns its exit status. Ctrl-C only reaches the editor.
int run(const std::string& editor, const std::string& path) {
  struct sigaction ignore {};
  struct sigaction before_interrupt {
  }, before_quit{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGINT, &ignore, &before_interrupt);
  sigaction(SIGQUIT, &ignore, &before_quit);
  const std::string command = editor + " \"$1\"";
  const pid_t child = fork();
  if (child == 0) {
    for (const int signal : {SIGINT, SIGQUIT, SIGTSTP, SIGPIPE}) ::signal(signal, SIG_DFL);
    dup2(STDERR_FILENO, STDOUT_FILENO);  // standard output is only for answers
    execl("/bin/sh", "sh", "-c", command.c_str(), "ibid", path.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = -1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  sigaction(SIGINT, &before_interrupt, nullptr);
  sigaction(SIGQUIT, &before_quit, nullptr);
  return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Edits `text` in the user's editor ($VISUAL, else $EDITOR, else vi), through a temporary file of mode 0600, and
// returns the result without trailing newlines. REQUIRES: the terminal has its original mode. Errors: kIo;
// kInvalidArgument if the editor failed or the result is not valid text. On error nothing has changed.
Result<std::string> edit_externally(const std::string& text) {
  const std::string editor = editor_command();
  TRY_ASSIGN(const EditedFile file, EditedFile::create(text));
  if (run(editor, file.path()) != 0) {
    return {ErrorCode::kInvalidArgument, "the editor '" + editor + "' failed; $VISUAL or $EDITOR names another"};
  }
  TRY_ASSIGN(const std::string edited, read_file(system_file_ops(), file.path(), kMaxBytes));
  if (!utf8_is_valid(edited)) return {ErrorCode::kInvalidArgument, "the text from the editor is not UTF-8"};
  std::string clean = clean_paste(edited);
  while (clean.ends_with('\n')) clean.pop_back();
  return clean;
}

constexpr std::string_view kPrompt = "> ";
constexpr std::string_view kBlock = "\"\"\"";
constexpr size_t kMaxCandidatesShown = 200;

}  // namespace

bool is_open_block(std::string_view typed) {
  const std::string_view text = trimmed(typed);
  return text.starts_with(kBlock) && text.find(kBlock, kBlock.size()) == std::string_view::npos;
}

std::string message_of(std::string_view typed) {
  std::string_view text = trimmed(typed);
  const bool block = text.size() >= 2 * kBlock.size() && text.starts_with(kBlock) && text.ends_with(kBlock) &&
                     text.find(kBlock, kBlock.size()) == text.size() - kBlock.size();
  if (block) {
    text = text.substr(kBlock.size(), text.size() - 2 * kBlock.size());
    if (text.starts_with('\n')) text.remove_prefix(1);
  } else {
    text = typed;
  }
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text);
}

LineEditor::LineEditor(TerminalInput& input, TerminalModes& modes, int screen_fd, LineHistory& history)
    : input_(input), modes_(modes), screen_(screen_fd), history_(history) {}

LineEditor::Outcome LineEditor::read(std::string& text) {
  buffer_.reset();
  recalled_ = history_.entries().size();
  unsent_.clear();
  last_key_ = Key::kNone;
  forget_drawing();
  draw();
  Step step = Step::kGoOn;
  while (step == Step::kGoOn) {
    const KeyPress press = read_key(input_);
    step = handle(press);
    last_key_ = press.key;
    // Draw only once for keys that arrive together.
    if (step == Step::kGoOn && !input_.has_byte()) draw();
  }
  if (step != Step::kEnd) {
    buffer_.to_end();
    draw();
  }
  end_line();
  if (step == Step::kEnd) return Outcome::kEnd;
  if (step == Step::kInterrupted) {
    input_.discard();
    return Outcome::kInterrupted;
  }
  text = buffer_.text();
  return Outcome::kText;
}

LineEditor::Step LineEditor::handle(const KeyPress& press) {
  if (edit(press)) return Step::kGoOn;
  switch (press.key) {
    case Key::kEnter: return enter();
    case Key::kInterrupt: return Step::kInterrupted;
    case Key::kClosed: return Step::kEnd;
    case Key::kDeleteOrEnd:
      if (buffer_.text().empty()) return Step::kEnd;
      buffer_.erase_right();
      break;
    case Key::kTab: complete_word(last_key_ == Key::kTab); break;
    case Key::kSearch: search(); break;
    case Key::kEditor: edit_outside(); break;
    case Key::kSuspend: suspend(); break;
    case Key::kClearScreen:
      write("\x1b[H\x1b[2J");
      forget_drawing();
      break;
    case Key::kSizeChanged: size_changed(); break;
    case Key::kContinued:
      if (!expects_continued_) forget_drawing();
      expects_continued_ = false;
      break;
    default: break;
  }
  return Step::kGoOn;
}

bool LineEditor::edit(const KeyPress& press) {
  switch (press.key) {
    case Key::kText:
    case Key::kPaste: buffer_.insert(press.text); break;
    case Key::kNewline: buffer_.insert("\n"); break;
    case Key::kBackspace: buffer_.erase_left(); break;
    case Key::kDelete: buffer_.erase_right(); break;
    case Key::kLeft: buffer_.left(); break;
    case Key::kRight: buffer_.right(); break;
    case Key::kUp:
      if (!buffer_.up()) recall(true);
      break;
    case Key::kDown:
      if (!buffer_.down()) recall(false);
      break;
    case Key::kHome: buffer_.to_line_begin(); break;
    case Key::kEnd: buffer_.to_line_end(); break;
    case Key::kWordLeft: buffer_.word_left(); break;
    case Key::kWordRight: buffer_.word_right(); break;
    case Key::kDeleteWord: buffer_.erase_word_right(); break;
    case Key::kEraseWord: buffer_.erase_word_left(); break;
    case Key::kEraseArgument: buffer_.erase_argument_left(); break;
    case Key::kKillLine: buffer_.kill_to_begin(); break;
    case Key::kKillToEnd: buffer_.kill_to_end(); break;
    case Key::kYank: buffer_.yank(); break;
    case Key::kTranspose: buffer_.transpose(); break;
    case Key::kUndo: buffer_.undo(); break;
    default: return false;
  }
  return true;
}

LineEditor::Step LineEditor::enter() {
  const std::string& text = buffer_.text();
  if (is_open_block(text)) {
    buffer_.insert("\n");
    return Step::kGoOn;
  }
  if (!text.ends_with('\\')) return Step::kSend;
  buffer_.to_end();
  buffer_.replace_before_cursor(text.size() - 1, "\n");
  return Step::kGoOn;
}

void LineEditor::recall(bool older) {
  const std::vector<std::string>& entries = history_.entries();
  if (older ? recalled_ == 0 : recalled_ >= entries.size()) return;
  if (recalled_ == entries.size()) unsent_ = buffer_.text();
  recalled_ = older ? recalled_ - 1 : recalled_ + 1;
  buffer_.replace(recalled_ == entries.size() ? unsent_ : entries[recalled_]);
}

// Searches the history (Ctrl-R) for the newest message with the typed text; each further Ctrl-R finds an older one.
// Ctrl-C and Ctrl-G cancel; any other key accepts.
void LineEditor::search() {
  const std::vector<std::string>& entries = history_.entries();
  std::string wanted;
  size_t found = entries.size();
  const auto find_below = [&](size_t end) {
    for (size_t i = end; i > 0; --i) {
      if (entries[i - 1].find(wanted) == std::string::npos) continue;
      found = i - 1;
      return;
    }
  };
  for (;;) {
    const std::string text = found < entries.size() && !wanted.empty() ? entries[found] : "";
    draw_as("(search) " + wanted + ": ", text, 0);
    const KeyPress press = read_key(input_);
    if (press.key == Key::kText) {
      wanted += press.text;
      find_below(entries.size());
    } else if (press.key == Key::kBackspace) {
      if (!wanted.empty()) wanted.resize(grapheme_begin(wanted, wanted.size()));
      find_below(entries.size());
    } else if (press.key == Key::kSearch) {
      find_below(found);
    } else if (press.key == Key::kSizeChanged) {
      size_changed();
    } else {
      const bool given_up = press.key == Key::kInterrupt || press.key == Key::kEditor || press.key == Key::kClosed;
      if (!given_up && !text.empty()) {
        recalled_ = entries.size();
        unsent_ = buffer_.text();
        recalled_ = found;
        buffer_.replace(text);
      }
      return;
    }
  }
}

void LineEditor::complete_word(bool again) {
  const std::string before = buffer_.text().substr(0, buffer_.cursor());
  Completion completion = complete(before, words_);
  if (completion.candidates.empty()) return;
  const std::string common = common_beginning(completion.candidates);
  if (common.size() > before.size() - completion.begin || completion.candidates.size() == 1) {
    buffer_.replace_before_cursor(completion.begin, common);
    return;
  }
  if (!again) return;  // a second Tab lists the candidates
  draw();
  end_line();
  std::string row;
  const size_t width = std::max(terminal_width(screen_), kLeastWidth);
  if (completion.candidates.size() > kMaxCandidatesShown) completion.candidates.resize(kMaxCandidatesShown);
  for (const std::string& candidate : completion.candidates) {
    if (!row.empty() && text_columns(row) + 2 + text_columns(candidate) > width) {
      write(row + "\r\n");
      row.clear();
    }
    row += (row.empty() ? "" : "  ") + candidate;
  }
  write(row + "\r\n");
  forget_drawing();
}

void LineEditor::edit_outside() {
  draw();
  end_line();
  modes_.set(TerminalMode::kOriginal);
  const Result<std::string> edited = edit_externally(buffer_.text());
  modes_.set(TerminalMode::kTyping);
  if (edited.ok()) {
    buffer_.replace(*edited);
  } else {
    write(edited.status().message() + "\r\n");
  }
  forget_drawing();
}

void LineEditor::suspend() {
  draw();
  end_line();
  modes_.suspend();
  expects_continued_ = true;
}

void LineEditor::draw() { draw_as(kPrompt, buffer_.text(), buffer_.cursor()); }

// Redraws everything in one write. So if the terminal measures a character differently, only the row of this character
// is wrong, and only until the next redrawing.
void LineEditor::draw_as(std::string_view prompt, std::string_view text, size_t cursor) {
  const size_t width = std::max(terminal_width(screen_), kLeastWidth);
  const size_t height = std::max<size_t>(terminal_height(screen_), 1);
  LaidOutText laid_out = lay_out(text_columns(prompt) + 1 < width ? prompt : kPrompt, text, cursor, width);
  const size_t n_visible = std::min(laid_out.rows.size(), height);
  top_ = std::min(top_, laid_out.rows.size() - n_visible);
  if (laid_out.cursor_row < top_) top_ = laid_out.cursor_row;
  if (laid_out.cursor_row >= top_ + n_visible) top_ = laid_out.cursor_row - n_visible + 1;
  const auto first = laid_out.rows.begin() + static_cast<ptrdiff_t>(top_);
  std::vector<std::string> rows(first, first + static_cast<ptrdiff_t>(n_visible));
  const size_t cursor_row = laid_out.cursor_row - top_;

  std::string out;
  const auto up = [&](size_t n) {
    if (n > 0) out += "\x1b[" + std::to_string(n) + "A";
  };
  // Write only the new text if it was appended at the end.
  const bool appended =
      rows.size() == drawn_.size() && cursor_row == drawn_cursor_row_ && cursor_row + 1 == rows.size() &&
      !drawn_.empty() && drawn_cursor_column_ == text_columns(drawn_.back()) &&
      std::equal(rows.begin(), rows.end() - 1, drawn_.begin()) && rows.back().size() > drawn_.back().size() &&
      rows.back().starts_with(drawn_.back()) && laid_out.cursor_column == text_columns(rows.back()) &&
      text_columns(rows.back().substr(drawn_.back().size())) + drawn_cursor_column_ == laid_out.cursor_column;
  if (appended) {
    out = rows.back().substr(drawn_.back().size());
  } else {
    up(drawn_cursor_row_);
    out += "\r\x1b[J";
    for (size_t i = 0; i < rows.size(); ++i) out += (i == 0 ? "" : "\r\n") + rows[i];
    up(rows.size() - 1 - cursor_row);
    out += "\r";
    if (laid_out.cursor_column > 0) out += "\x1b[" + std::to_string(laid_out.cursor_column) + "C";
  }
  write(out);
  drawn_ = std::move(rows);
  drawn_cursor_row_ = cursor_row;
  drawn_cursor_column_ = laid_out.cursor_column;
}

void LineEditor::forget_drawing() {
  drawn_.clear();
  drawn_cursor_row_ = drawn_cursor_column_ = 0;
  top_ = 0;
}

void LineEditor::end_line() {
  const size_t below = drawn_.empty() ? 0 : drawn_.size() - 1 - drawn_cursor_row_;
  write((below > 0 ? "\x1b[" + std::to_string(below) + "B" : "") + "\r\n");
  forget_drawing();
}

// Accounts for a new width: most terminals rewrap rows that have become too long, and move the cursor with them.
void LineEditor::size_changed() {
  const size_t width = std::max(terminal_width(screen_), kLeastWidth);
  size_t above = drawn_cursor_column_ / width;
  for (size_t i = 0; i < drawn_cursor_row_ && i < drawn_.size(); ++i) {
    above += 1 + (std::max<size_t>(text_columns(drawn_[i]), 1) - 1) / width;
  }
  drawn_cursor_row_ = above;
  drawn_.clear();
}

void LineEditor::write(std::string_view bytes) const {
  write_all(screen_, bytes);  // ignored, because reading detects a closed terminal
}

}  // namespace ibid
