#include "apps/chat/question.h"

#include <algorithm>

#include "apps/command_line/option_kinds.h"
#include "base/file_ops.h"
#include "base/utf8.h"

namespace ibid {

namespace {

constexpr uint64_t kMaxBytes = 64u << 20;  // many times the longest context there is

Result<std::string> checked(std::string text, const std::string& what) {
  if (!utf8_is_valid(text)) return Status(ErrorCode::kInvalidArgument, what + " is not UTF-8 text");
  return without_final_newlines(std::move(text));
}

Result<std::string> read_input(std::istream& input) {
  std::string text;
  char buffer[1 << 16];
  while (input.read(buffer, sizeof buffer), input.gcount() > 0) {
    text.append(buffer, static_cast<size_t>(input.gcount()));
    if (text.size() > kMaxBytes) {
      return Status(ErrorCode::kLimitExceeded, "standard input has more than " + std::to_string(kMaxBytes) + " bytes");
    }
  }
  return checked(std::move(text), "standard input");
}

void append_part(std::string& all, const std::string& part, const char* separator) {
  if (part.empty()) return;
  if (!all.empty()) all += separator;
  all += part;
}

}  // namespace

Result<std::string> join_question(const Question& question, std::istream* input, std::istream& input_named) {
  const auto n_named = std::count(question.words.begin(), question.words.end(), "-") +
                       std::count(question.files.begin(), question.files.end(), "-");
  if (n_named > 1) return Status(ErrorCode::kInvalidArgument, "standard input (-) can be read only once");
  std::string text;
  for (const std::string& path : question.files) {
    TRY_ASSIGN(std::string part, path == "-" ? read_input(input_named)
                                             : read_file(system_file_ops(), path, kMaxBytes));
    TRY_ASSIGN(part, checked(std::move(part), path));
    append_part(text, part, "\n\n");
  }
  if (n_named == 0 && input != nullptr) {
    TRY_ASSIGN(const std::string part, read_input(*input));
    append_part(text, part, "\n\n");
  }
  const char* separator = "\n\n";  // in front of the first word and around standard input; a blank between words
  for (const std::string& word : question.words) {
    if (word == "-") {
      TRY_ASSIGN(const std::string part, read_input(input_named));
      append_part(text, part, "\n\n");
      separator = "\n\n";
      continue;
    }
    TRY_ASSIGN(const std::string part, checked(word, "TEXT"));
    append_part(text, part, separator);
    separator = " ";
  }
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    return Status(ErrorCode::kInvalidArgument, "there is nothing to answer: the text is empty");
  }
  return text;
}

}  // namespace ibid
