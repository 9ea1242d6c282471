#include "apps/chat/screen.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "apps/terminal/terminal_traits.h"
#include "apps/terminal_text.h"

namespace ibid {

namespace {

constexpr const char* kDim = "\x1b[2m";
constexpr const char* kPlain = "\x1b[0m";
constexpr const char* kClearLine = "\r\x1b[K";
// Columns of a text whose only characters beyond ASCII are one column wide.
size_t columns(std::string_view text) {
  size_t n = 0;
  for (const char c : text) n += (static_cast<unsigned char>(c) & 0xC0u) != 0x80u ? 1 : 0;
  return n;
}

std::string left_out_line(const LeftOut& left_out) {
  if (left_out.n_messages > 0) {
    return "the context is full: " + std::to_string(left_out.n_messages) + " old messages are left out from here on";
  }
  return "the context is full: " + std::to_string(left_out.n_bytes) +
         " bytes in the middle of the message are left out";
}

std::string rounded(double value) { return std::to_string(std::lround(value)); }

}  // namespace

std::string status_line(const Turn& turn, size_t turn_number, size_t width) {
  std::vector<std::string> parts = {"turn " + std::to_string(turn_number),
                                    std::to_string(turn.usage.n_prompt + turn.usage.n_decoded) + " tokens",
                                    std::to_string(turn.usage.n_cached) + " cached",
                                    "first token " + rounded(turn.timings.ttft_ms) + " ms"};
  if (turn.timings.decode_tps > 0) parts.push_back(rounded(turn.timings.decode_tps) + " tok/s");
  if (turn.finish_reason == FinishReason::kCancelled) parts.push_back("stopped");
  if (turn.finish_reason == FinishReason::kLength) parts.push_back("length limit");
  std::string line;
  for (const std::string& part : parts) {
    const std::string longer = line.empty() ? part : line + " · " + part;
    if (columns(longer) > width) break;
    line = longer;
  }
  return line;
}

Screen::Screen()
    : answer_to_terminal_(isatty(STDOUT_FILENO) == 1),
      notes_to_terminal_(isatty(STDERR_FILENO) == 1),
      dim_(shows_colours(STDERR_FILENO)) {}

void Screen::write_answer(std::string_view text) {
  const std::string clean = answer_to_terminal_ ? without_controls(text) : std::string(text);
  if (clean.empty()) return;
  at_line_start_ = clean.back() == '\n';
  if (std::fwrite(clean.data(), 1, clean.size(), stdout) != clean.size() || std::fflush(stdout) != 0) {
    writing_failed_ = true;
  }
}

void Screen::clear_progress() {
  if (progress_shown_) std::fputs(kClearLine, stderr);
  progress_shown_ = false;
}

void Screen::show(const TurnEvent& event) {
  switch (event.kind) {
    case TurnEvent::Kind::kLeftOut:
      note(left_out_line(event.turn->left_out));
      break;
    case TurnEvent::Kind::kPrefill:
      // Short prompts are read faster than the eye follows.
      if (obeys_sequences(STDERR_FILENO) && event.n_done < event.n_total) {
        const std::string progress =
            "reading " + std::to_string(event.n_done) + " of " + std::to_string(event.n_total) + " tokens";
        if (progress.size() >= terminal_width(STDERR_FILENO)) break;  // a line that wraps could not be cleared
        std::fprintf(stderr, "%s%s%s%s", kClearLine, dim_ ? kDim : "", progress.c_str(), dim_ ? kPlain : "");
        progress_shown_ = true;
      }
      break;
    case TurnEvent::Kind::kText:
      clear_progress();
      write_answer(event.text);
      break;
    case TurnEvent::Kind::kFinish:
      clear_progress();
      break;
  }
}

void Screen::finish(const Turn& turn, size_t turn_number) {
  clear_progress();
  // One message a line from a pipe: an answer ends its line.
  if (!at_line_start_ || turn.text.empty()) write_answer("\n");
  at_line_start_ = true;
  if (notes_to_terminal_) note(status_line(turn, turn_number, terminal_width(STDERR_FILENO) - 1));
}

void Screen::note(std::string_view text) {
  clear_progress();
  std::fprintf(stderr, "%s%s%s\n", dim_ ? kDim : "", without_controls(text).c_str(), dim_ ? kPlain : "");
}

}  // namespace ibid
