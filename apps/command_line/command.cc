#include "apps/command_line/command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "apps/terminal/output.h"
#include "apps/terminal/terminal_text.h"
#include "base/text.h"

namespace ibid {

int report(const Status& status) {
  remark("ibid: " + status.message());
  return 1;
}

Status cannot_write() { return {ErrorCode::kIo, "cannot write to standard output"}; }

std::string own_command(const std::string& words) {
  const char* program = std::getenv("IBID_COMMAND");
  return "`" + std::string(program == nullptr || *program == 0 ? "ibid" : program) + " " + words + "`";
}

namespace {

// Returns the Levenshtein distance: the number of letters to insert, remove or change.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] == b[j] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

std::vector<std::string> nearest_names(std::string_view typed, const std::vector<std::string>& names) {
  constexpr size_t kLongest = 256;    // longer input is cut
  constexpr size_t kPartLetters = 4;  // shorter substrings do not make names similar: too many names have them
  const std::string wanted = lower_case(typed.substr(0, kLongest));
  std::vector<std::pair<size_t, std::string>> found;
  for (const std::string& name : names) {
    const std::string other = lower_case(name);
    const size_t shorter = std::min(wanted.size(), other.size());
    const bool within =
        shorter >= kPartLetters && (wanted.find(other) != std::string::npos || other.find(wanted) != std::string::npos);
    const size_t apart = within ? 1 : distance(wanted, other);
    const size_t most = shorter < kPartLetters ? 1 : std::max<size_t>(2, shorter / 3);  // 2 allows two swapped letters
    if (apart <= most) found.emplace_back(apart, name);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> result;
  for (auto& [apart, name] : found) result.push_back(std::move(name));
  return result;
}

namespace {

constexpr char kMark = '\x01';

bool looks_like_a_list(const std::string& text) { return text.size() > 1 && text.front() == '[' && text.back() == ']'; }

}  // namespace

std::vector<std::string> protect_texts(int argc, char** argv) {
  std::vector<std::string> arguments;
  bool only_words = false;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (!only_words && argument == "--") {
      only_words = true;
      continue;
    }
    const size_t equals = argument.starts_with("--") ? argument.find('=') : std::string::npos;
    if (only_words && argument.starts_with('-')) {
      argument.insert(argument.begin(), kMark);
    } else if (!only_words && equals != std::string::npos) {
      argument = argument.substr(0, equals + 1) + protect_text(argument.substr(equals + 1));
    } else {
      argument = protect_text(std::move(argument));
    }
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

std::string protect_text(std::string text) {
  if (looks_like_a_list(text)) text.insert(text.begin(), kMark);
  return text;
}

std::string plain_text_argument(std::string text) {
  if (text.starts_with(kMark)) text.erase(text.begin());
  return text;
}

CLI::Option* add_text_option(CLI::App& command, const std::string& names, std::string& text, const std::string& help) {
  return command.add_option_function<std::string>(
      names, [&text](const std::string& given) { text = plain_text_argument(given); }, help);
}

CLI::Option* add_text_list(CLI::App& command, const std::string& names, std::vector<std::string>& texts,
                           const std::string& help) {
  const auto take = [&texts](const std::vector<std::string>& given) {
    texts.clear();
    for (const std::string& text : given) texts.push_back(plain_text_argument(text));
  };
  return command.add_option_function<std::vector<std::string>>(names, take, help)->allow_extra_args(false);
}

CLI::Validator whole_number(uint64_t least, uint64_t most) {
  const auto complaint = [least, most](const std::string& text) {
    uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [after, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && after == end && value >= least && value <= most) return std::string();
    return "'" + text + "' is not a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  };
  return CLI::Validator(complaint, "");
}

CLI::Validator one_of(std::vector<std::string> words) {
  const auto complaint = [allowed = std::move(words)](const std::string& text) {
    if (std::ranges::find(allowed, text) != allowed.end()) return std::string();
    return "'" + text + "' is not one of " + joined(allowed, ", ");
  };
  return CLI::Validator(complaint, "");
}

namespace {

struct NumberAndUnit {
  uint64_t number = 0;
  std::string_view unit;
};

std::optional<NumberAndUnit> split_amount(std::string_view text) {
  NumberAndUnit split;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), split.number);
  if (error != std::errc()) return std::nullopt;
  split.unit = text.substr(static_cast<size_t>(end - text.data()));
  return split;
}

}  // namespace

std::optional<uint64_t> read_bytes(std::string_view text) {
  const std::optional<NumberAndUnit> amount = split_amount(text);
  if (!amount) return std::nullopt;
  constexpr std::string_view kUnits = "KMGT";
  int shift = 0;
  if (!amount->unit.empty()) {
    const size_t at = kUnits.find(amount->unit);
    if (amount->unit.size() != 1 || at == std::string_view::npos) return std::nullopt;
    shift = 10 * (static_cast<int>(at) + 1);
  }
  if (amount->number > (uint64_t{1} << (63 - shift))) return std::nullopt;
  return amount->number << shift;
}

std::optional<std::chrono::milliseconds> read_time(std::string_view text) {
  constexpr uint64_t kYearMs = 366ull * 24 * 3600 * 1000;
  const std::optional<NumberAndUnit> amount = split_amount(text);
  if (!amount) return std::nullopt;
  const std::string_view unit = amount->unit;
  const uint64_t factor = unit == "ms"                  ? 1
                          : unit.empty() || unit == "s" ? 1000
                          : unit == "m"                 ? 60'000
                          : unit == "h"                 ? 3'600'000
                                                        : 0;
  if (factor == 0 || amount->number > kYearMs / factor) return std::nullopt;
  return std::chrono::milliseconds(amount->number * factor);
}

std::optional<double> read_share(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  text.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (!is_number || !(value >= 0 && value <= 100)) return std::nullopt;
  return value / 100;
}

CLI::Validator percentage() {
  const auto complaint = [](const std::string& text) {
    return read_share(text) ? "" : "'" + text + "' is not a share such as 1% or 0.5%";
  };
  return CLI::Validator(complaint, "");
}

CLI::Validator amount_of_bytes() {
  const auto complaint = [](const std::string& text) {
    return read_bytes(text) ? "" : "'" + text + "' is not a size such as 512M or 8G";
  };
  return CLI::Validator(complaint, "");
}

CLI::Validator amount_of_time(bool or_never) {
  const auto complaint = [or_never](const std::string& text) {
    if ((or_never && text == "never") || read_time(text)) return std::string();
    return "'" + text + "' is not a duration such as 30s, 5m" + (or_never ? " or never" : " or 1h");
  };
  return CLI::Validator(complaint, "");
}

std::string without_final_newlines(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

}  // namespace ibid
