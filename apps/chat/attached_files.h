// Text files attached to a message: /read FILE, and @FILE inside a message.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file_ops.h"
#include "base/result.h"

namespace ibid {

inline constexpr uint64_t kMaxAttachedBytes = 1'000'000;

struct AttachedFile {
  std::string path;  // path as the user typed it
  std::string text;  // content without a byte order mark and without the last newline
};

// Reads a file; "~/x" is in the home directory. Errors: kNotFound, kNotRegularFile, kIo; kLimitExceeded above
// kMaxAttachedBytes; kInvalidArgument if the content is empty or not UTF-8 text.
Result<AttachedFile> read_attached_file(FileOps& files, const std::string& path);

struct FirstWord {
  std::string word;
  std::string_view rest;
};
// Returns the first word of `text`, which may be in double quotes or have escaped blanks ("\ "), and the rest of the
// text after the following blanks.
FirstWord take_word(std::string_view text);

// A message and the files that it names. At the start of a word, "@notes.txt", "@\"my notes.txt\"" and "@my\ notes.txt"
// name a file if it exists; closing punctuation may follow. Otherwise the @ is text.
struct MessageWithFiles {
  std::string text;  // the message without the @ before file names
  std::vector<AttachedFile> files;
};
// Finds and reads the files. Errors: those of read_attached_file() for an existing file.
Result<MessageWithFiles> find_attached_files(FileOps& files, std::string_view text);

// Returns the message to send: the text, then each file between fence lines. Fences are longer than any fence in the
// files.
std::string message_with_files(const MessageWithFiles& message);

}  // namespace ibid
