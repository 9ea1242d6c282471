#include "apps/chat/turn_lines.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "apps/terminal/graphemes.h"

namespace ibid {
namespace {

std::string rounded(double value) { return std::to_string(std::lround(value)); }

std::string_view reason(FinishReason finish_reason) {
  switch (finish_reason) {
    case FinishReason::kCancelled: return "stopped";
    case FinishReason::kLength: return "length limit";
    case FinishReason::kRepetition: return "stopped: it repeats itself";
    case FinishReason::kStop:
    case FinishReason::kStopString: break;
  }
  return {};
}

struct Part {
  std::string text;
  int importance;  // the least important goes first
};

std::string joined(const std::vector<Part>& parts) {
  std::string line;
  for (const Part& part : parts) line += (line.empty() ? "" : " · ") + part.text;
  return line;
}

}  // namespace

std::string status_line(const Turn& turn, size_t turn_number, size_t width) {
  constexpr int kAlways = 100;
  std::vector<Part> parts;
  const std::string why(reason(turn.finish_reason));
  if (!why.empty()) parts.push_back({why, kAlways});
  parts.push_back({"turn " + std::to_string(turn_number), 2});
  parts.push_back({std::to_string(turn.usage.n_prompt + turn.usage.n_decoded) + " tokens", 5});
  parts.push_back({std::to_string(turn.usage.n_cached) + " cached", 4});
  parts.push_back({"first token " + rounded(turn.timings.ttft_ms) + " ms", 1});
  if (turn.timings.decode_tps > 0) parts.push_back({rounded(turn.timings.decode_tps) + " tok/s", 3});
  while (!parts.empty() && text_columns(joined(parts)) > width) {
    const auto less = [](const Part& a, const Part& b) { return a.importance < b.importance; };
    const auto least = std::min_element(parts.begin(), parts.end(), less);
    if (least->importance == kAlways) break;
    parts.erase(least);
  }
  return joined(parts);
}

std::string ending_line(const Turn& turn, std::optional<size_t> max_tokens) {
  if (turn.finish_reason == FinishReason::kRepetition) {
    return "the answer was ended because it repeats itself; /regen gives another one";
  }
  if (turn.finish_reason != FinishReason::kLength) return {};
  if (max_tokens && (*max_tokens == 0 || turn.usage.n_decoded < *max_tokens)) {
    return "the answer was cut because the context is full; --context N makes room for more";
  }
  return "the answer was cut at " + (max_tokens ? std::to_string(*max_tokens) + " tokens" : "its length limit") +
         "; \"go on\" continues it, --max-tokens N sets another limit (unlimited: none)";
}

std::string reading_line(const TurnEvent& event) {
  return "reading " + std::to_string(event.n_done) + " of " + std::to_string(event.n_total) + " tokens";
}

std::string left_out_line(const LeftOut& left_out) {
  if (left_out.n_messages > 0) {
    return "the context is full: " + std::to_string(left_out.n_messages) + " old messages are left out from here on";
  }
  return "the context is full: " + std::to_string(left_out.n_bytes) +
         " bytes in the middle of the message are left out";
}

}  // namespace ibid
