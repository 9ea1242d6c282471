// Text files that go along with a message: /read FILE, and @FILE inside of what is typed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file_ops.h"
#include "base/result.h"

namespace ibid {

inline constexpr uint64_t kMaxAttachedBytes = 1'000'000;

struct AttachedFile {
  std::string path;  // as it was typed
  std::string text;  // without a byte order mark and without the last newline
};

// "~/x" is in the home directory. Errors: kNotFound, kNotRegularFile, kIo; kLimitExceeded beyond kMaxAttachedBytes;
// kInvalidArgument for what is no UTF-8 text, or empty.
Result<AttachedFile> read_attached_file(FileOps& files, const std::string& path);

// The first word of `text`, which may stand in double quotes or have its blanks behind backslashes, and what
// follows it without the blanks between.
struct FirstWord {
  std::string word;
  std::string_view rest;
};
FirstWord take_word(std::string_view text);

// A message, and the files that it names. "@notes.txt", "@\"my notes.txt\"" and "@my\ notes.txt" at the
// beginning of a word name one where there is such a file; a sign that ends a sentence may follow it. An
// @ that names no file stays text.
struct MessageWithFiles {
  std::string text;  // the @ left out
  std::vector<AttachedFile> files;
};
// Errors: those of read_attached_file() for a file that is there.
Result<MessageWithFiles> find_attached_files(FileOps& files, std::string_view text);

// The message that is sent: the text, and behind it each file, between lines that do not occur in its text.
std::string message_with_files(const MessageWithFiles& message);

}  // namespace ibid
