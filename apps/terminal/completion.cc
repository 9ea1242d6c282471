#include "apps/terminal/completion.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "apps/terminal/graphemes.h"
#include "apps/terminal/terminal_text.h"

namespace ibid {
namespace {

constexpr size_t kMaxNames = 10'000;  // maximum entries read of one directory

std::string without_backslashes(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == ' ') ++i;
    plain += text[i];
  }
  return plain;
}

std::string with_backslashes(std::string_view name) {
  std::string typed;
  for (const char c : name) {
    if (c == ' ') typed += '\\';
    typed += c;
  }
  return typed;
}

std::string expanded(const std::string& path) {
  const char* home = std::getenv("HOME");
  return path.starts_with("~/") && home != nullptr ? home + path.substr(1) : path;
}

// Returns the paths that begin with `typed`; the directory is spelled as in `typed`.
std::vector<std::string> files(std::string_view typed) {
  const size_t slash = typed.rfind('/');
  const std::string_view directory = slash == std::string_view::npos ? "" : typed.substr(0, slash + 1);
  const std::string begin = without_backslashes(typed.substr(directory.size()));
  const std::string path = expanded(without_backslashes(directory));
  std::vector<std::string> found;
  std::error_code error;
  size_t n = 0;
  for (std::filesystem::directory_iterator it(path.empty() ? "." : path, error), end; !error && it != end;
       it.increment(error)) {
    if (++n > kMaxNames) break;
    const std::string name = it->path().filename().string();
    if (!name.starts_with(begin) || (name.starts_with('.') && begin.empty()) || one_line(name) != name) continue;
    std::error_code ignored;
    const bool is_directory = it->is_directory(ignored);
    found.push_back(std::string(directory) + with_backslashes(name) + (is_directory ? "/" : ""));
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Returns the offset of the last word of `text`; a blank after a backslash is part of the word.
size_t last_word(std::string_view text) {
  for (size_t i = text.size(); i > 0; --i) {
    const bool blank = text[i - 1] == ' ' || text[i - 1] == '\n' || text[i - 1] == '\t';
    if (blank && !(i > 1 && text[i - 2] == '\\')) return i;
  }
  return 0;
}

}  // namespace

Completion complete(std::string_view before, const CompletionWords& words) {
  Completion completion;
  const size_t word = last_word(before);
  if (before.substr(word).starts_with('@')) {
    completion.begin = word + 1;
    completion.candidates = files(before.substr(word + 1));
    return completion;
  }
  for (const std::string& command : words.commands_with_file) {
    if (!before.starts_with(command + " ")) continue;
    completion.begin = std::max(word, command.size() + 1);
    completion.candidates = files(before.substr(completion.begin));
    return completion;
  }
  if (!before.starts_with('/')) return completion;
  const std::string_view typed = before.substr(word);
  completion.begin = word;
  if (word > 0) {
    const auto found = words.arguments.find(before.substr(0, before.find_last_not_of(" \t", word - 1) + 1));
    if (found == words.arguments.end()) return completion;
    for (const std::string& argument : found->second) {
      if (argument.starts_with(typed)) completion.candidates.push_back(argument);
    }
  } else {
    for (const std::string& command : words.commands) {
      if (command.starts_with(typed)) completion.candidates.push_back(command + " ");
    }
  }
  std::sort(completion.candidates.begin(), completion.candidates.end());
  return completion;
}

std::string common_beginning(const std::vector<std::string>& candidates) {
  std::string common = candidates.front();
  for (const std::string& candidate : candidates) {
    const auto [end, other] = std::mismatch(common.begin(), common.end(), candidate.begin(), candidate.end());
    common.erase(end, common.end());
  }
  size_t whole = 0;  // end of the last whole character
  while (whole < common.size() && grapheme_end(common, whole) <= common.size()) {
    const size_t end = grapheme_end(candidates.front(), whole);
    if (end > common.size()) break;
    whole = end;
  }
  return common.substr(0, whole);
}

}  // namespace ibid
