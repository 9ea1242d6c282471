#include "apps/chat/attached_files.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"

namespace ibid {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string in_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  return path.starts_with("~/") && home != nullptr ? home + path.substr(1) : path;
}

bool is_there(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(in_home(path), error);
}

// The first word of a text. It may be in double quotes or have escaped blanks.
struct Word {
  std::string text;   // the word without quotes and backslashes
  size_t length = 0;  // length of the word in the source text, in bytes
  bool quoted = false;
};

Word word_at(std::string_view text) {
  if (text.starts_with('"')) {
    if (const size_t end = text.find('"', 1); end != std::string_view::npos) {
      return {std::string(text.substr(1, end - 1)), end + 1, true};
    }
  }
  Word word;
  while (word.length < text.size() && !is_blank(text[word.length])) {
    const bool escaped = text[word.length] == '\\' && word.length + 1 < text.size() && text[word.length + 1] == ' ';
    if (escaped) ++word.length;
    word.text += text[word.length++];
  }
  return word;
}

// Returns the existing file named by `text`, which follows an @.
std::optional<Word> file_named_at(std::string_view text) {
  Word word = word_at(text);
  while (!word.text.empty() && !is_there(word.text)) {
    const bool ends_sentence = std::string_view(".,;:!?)").find(word.text.back()) != std::string_view::npos;
    if (word.quoted || !ends_sentence) return std::nullopt;
    word.text.pop_back();
    --word.length;
  }
  if (word.text.empty()) return std::nullopt;
  return word;
}

// Returns a fence of backticks longer than any run in the text.
std::string fence_for(const std::string& text) {
  size_t longest = 2, run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return std::string(longest + 1, '`');
}

}  // namespace

Result<AttachedFile> read_attached_file(FileOps& files, const std::string& path) {
  Result<std::string> text = read_file(files, in_home(path), kMaxAttachedBytes);
  if (text.status().code() == ErrorCode::kLimitExceeded) {
    return Status(ErrorCode::kLimitExceeded,
                  path + ": larger than a million bytes, which is more than any context holds");
  }
  if (!text.ok()) return text.status();
  std::string clean = text->starts_with(kByteOrderMark) ? text->substr(kByteOrderMark.size()) : *std::move(text);
  if (!utf8_is_valid(clean) || clean.find('\0') != std::string::npos) {
    return Status(ErrorCode::kInvalidArgument, path + ": is not UTF-8 text");
  }
  if (clean.ends_with('\n')) clean.pop_back();
  if (clean.ends_with('\r')) clean.pop_back();
  if (clean.empty()) return Status(ErrorCode::kInvalidArgument, path + ": the file is empty");
  return AttachedFile{path, std::move(clean)};
}

FirstWord take_word(std::string_view text) {
  const auto trim = [](std::string_view rest) {
    const auto begin = std::find_if_not(rest.begin(), rest.end(), is_blank);
    return rest.substr(static_cast<size_t>(begin - rest.begin()));
  };
  text = trim(text);
  Word word = word_at(text);
  return {std::move(word.text), trim(text.substr(word.length))};
}

Result<MessageWithFiles> find_attached_files(FileOps& files, std::string_view text) {
  MessageWithFiles message;
  for (size_t i = 0; i < text.size();) {
    const bool begins_word = i == 0 || is_blank(text[i - 1]) || text[i - 1] == '(';
    const std::optional<Word> named =
        text[i] == '@' && begins_word ? file_named_at(text.substr(i + 1)) : std::optional<Word>();
    if (!named) {
      message.text += text[i++];
      continue;
    }
    const bool is_known = std::any_of(message.files.begin(), message.files.end(),
                                      [&](const AttachedFile& file) { return file.path == named->text; });
    if (!is_known) {
      TRY_ASSIGN(AttachedFile file, read_attached_file(files, named->text));
      message.files.push_back(std::move(file));
    }
    message.text += named->text;
    i += 1 + named->length;
  }
  return message;
}

std::string message_with_files(const MessageWithFiles& message) {
  std::string text = message.text;
  for (const AttachedFile& file : message.files) {
    const std::string fence = fence_for(file.text);
    if (!text.empty()) text += "\n\n";
    text += file.path + ":\n" + fence + "\n" + file.text + "\n" + fence;
  }
  return text;
}

}  // namespace ibid
