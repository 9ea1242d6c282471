#include "apps/command_line/option_kinds.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <utility>

namespace ibid {

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
    const auto [behind, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && behind == end && value >= least && value <= most) return std::string();
    return "'" + text + "' is not a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  };
  return CLI::Validator(complaint, "");
}

CLI::Validator one_of(std::vector<std::string> words) {
  const auto complaint = [allowed = std::move(words)](const std::string& text) {
    std::string list;
    for (const std::string& word : allowed) {
      if (word == text) return std::string();
      list += (list.empty() ? "" : ", ") + word;
    }
    return "'" + text + "' is none of " + list;
  };
  return CLI::Validator(complaint, "");
}

std::string without_final_newlines(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

}  // namespace ibid
