#include "bench/lab/figure_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace ibid {

namespace {

constexpr size_t kLabelWidth = 25;
constexpr size_t kValueWidth = 16;
constexpr size_t kQuartilesWidth = 15;
constexpr size_t kWorkWidth = 13;
constexpr size_t kPercentWidth = 9;
static_assert(kLabelWidth + kValueWidth + kQuartilesWidth + kWorkWidth + kPercentWidth == kTableColumns);

struct Meaning {
  const char* kind;
  const char* text;
};
constexpr Meaning kMeanings[] = {
    {"load", "load: from the file to a model and its tokenizer\n"},
    {"prefill", "prefill of N: N tokens, empty cache, up to the logits of the next one\n"},
    {"decode", "decode at depth N: 48 tokens, one after the other, after N others\n"},
    {"turn", "44 tokens at depth N: 44 new tokens at once, after N others\n"},
    {"memory", "memory: the most that was in use, while loading or later\n"},
    {"chat_turn",
     "turn T, system of N: a short message in a chat that begins with a system\n"
     "  message of N tokens; time to the first token of the answer\n"},
};
constexpr const char* kColumns =
    "work: multiply-adds of the linear layers, or bytes of weights, keys and values\n"
    "of peak: what this machine reached just before, same instructions or bytes\n";
constexpr const char* kRivals = "indented: another engine, and how many times better ibid is\n";

std::string left(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string right(const std::string& text, size_t width) {
  return std::string(std::max(width, text.size() + 1) - text.size(), ' ') + text;
}

std::string ended(std::string line) {
  line.resize(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

// Appends `text` to `line`; if it does not fit, in separate lines, broken between words.
std::string with_note(std::string line, std::string_view text) {
  line.resize(line.find_last_not_of(' ') + 1);
  if (text.empty()) return line + "\n";
  if (line.size() + 2 + text.size() <= kTableColumns) return line + "  " + std::string(text) + "\n";
  std::string lines = line + "\n";
  constexpr std::string_view kIndent = "    ";
  constexpr size_t kRoom = kTableColumns - kIndent.size();
  while (!text.empty()) {
    size_t n = text.size();
    if (n > kRoom) n = std::min(text.rfind(' ', kRoom), kRoom);
    lines += std::string(kIndent) + std::string(text.substr(0, n)) + "\n";
    text.remove_prefix(std::min(text.size(), n + 1));
  }
  return lines;
}

double detail(const Figure& figure, const char* field) {
  const auto found = figure.details.find(field);
  return found != figure.details.end() && found->is_number() ? found->get<double>() : 0;
}

std::string count(const Figure& figure, const char* field) {
  return std::to_string(static_cast<size_t>(detail(figure, field)));
}

std::string conversation_row(const Figure& figure) {
  const std::string text =
      count(figure, "bytes_rendered") + "/" + count(figure, "bytes_compared") + "/" + count(figure, "bytes_tokenized");
  char line[200];
  std::snprintf(line, sizeof line, "%4zu %7s %6s %9s %9s %8s %8s %13s %6.1f", figure.at[0],
                count(figure, "n_prompt").c_str(), count(figure, "n_prefilled").c_str(),
                short_number(figure.value.median).c_str(), short_number(detail(figure, "again_ms")).c_str(),
                (short_number(detail(figure, "again_ratio")) + "x").c_str(),
                (short_number(detail(figure, "besides_model_percent")) + " %").c_str(), text.c_str(),
                detail(figure, "kv_bytes_copied") / 1e6);
  return ended(line);
}

std::string work_of(const Throughput& throughput) {
  if (throughput.field == nullptr) return "";
  const bool bytes = std::string_view(throughput.field) == "gbps";
  return short_number(throughput.value) + (bytes ? " GB/s" : " GOP/s");
}

}  // namespace

std::string short_number(double value) {
  char text[64];
  std::snprintf(text, sizeof text, value < 10 ? "%.2f" : value < 1000 ? "%.1f" : "%.0f", value);
  return text;
}

std::string figure_legend(const std::vector<const char*>& kinds, bool with_rivals) {
  std::string text;
  for (const Meaning& meaning : kMeanings) {
    const auto is_it = [&](std::string_view kind) { return kind == meaning.kind; };
    if (std::any_of(kinds.begin(), kinds.end(), is_it)) text += meaning.text;
  }
  return text + kColumns + (with_rivals ? kRivals : "");
}

std::string figure_header() {
  return left("", kLabelWidth) + right("median", kValueWidth) + right("quartiles", kQuartilesWidth) +
         right("work", kWorkWidth) + right("of peak", kPercentWidth) + "\n";
}

std::string conversation_header() {
  return "\nA conversation: each turn adds a message of 60 tokens and an answer of 440.\n"
         "  read: tokens that were prefilled for the turn\n"
         "  reuse, again: ms to the first token with the history kept, and with a cold\n"
         "    prefill of all of the prompt\n"
         "  besides: per cent of the turn that is not the model's\n"
         "  text: bytes rendered/compared/tokenized; KV: MB of keys and values copied\n"
         "turn  prompt   read     reuse     again    ratio  besides          text     KV\n";
}

std::string figure_row(const Figure& figure, std::span<const Rival> rivals) {
  std::string rows;
  if (figure.kind == find_figure_kind("conversation")) {
    rows = conversation_row(figure);
  } else {
    std::string line = left(figure.label(), kLabelWidth);
    line += right(short_number(figure.value.median) + " " + figure.kind->unit, kValueWidth);
    const bool spread = figure.value.q1 != figure.value.q3;
    line += right(spread ? short_number(figure.value.q1) + "-" + short_number(figure.value.q3) : "", kQuartilesWidth);
    line += right(work_of(figure.throughput), kWorkWidth);
    const bool known = figure.throughput.field != nullptr && figure.throughput.peak > 0;
    line += right(known ? std::to_string(std::lround(figure.throughput.percent())) + " %" : "", kPercentWidth);
    rows = with_note(line, figure.note);
  }
  for (const Rival& rival : rivals) {
    const std::optional<double> theirs = rival.value_for(figure), ratio = rival.ratio_for(figure);
    if (!theirs || !ratio) continue;
    const std::string name = "  " + rival.engine.substr(0, kLabelWidth - 3);
    rows += ended(left(name, kLabelWidth) + right(short_number(*theirs) + " " + figure.kind->unit, kValueWidth) +
                  right(short_number(*ratio) + "x", kQuartilesWidth));
  }
  return rows;
}

std::string prefill_step_line(const PrefillStep& step, const PrefillStep& again) {
  if (step.from == 0) return "";
  if (step.ratio >= 1) return "the prefill rate never falls from one length to the next longer one\n";
  const auto percent = [](const PrefillStep& s) { return short_number(s.fall_percent()) + " %"; };
  std::string text = "largest fall of the prefill rate: " + percent(step) + ", from " + std::to_string(step.from) +
                     " to " + std::to_string(step.to) + " tokens\n";
  if (!step.beyond_spread) return text + "  within the spread of the samples: nothing to see\n";
  if (again.from == 0) return text + "  more than the spread of the samples\n";
  text += "  measured again: " + percent(again);
  if (!again.beyond_spread) return text + ", within the spread of the samples: it was noise\n";
  text += ", more than the spread of the samples: it is there\n";
  if (step.to >= 2 * step.from) text += "  a prompt so much longer attends to more; that alone lowers the rate\n";
  return text;
}

}  // namespace ibid
