// Tab completion of the word before the cursor: commands and file names.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ibid {

struct CompletionWords {
  std::vector<std::string> commands;            // completions of a message's first word: "/help", ...
  std::vector<std::string> commands_with_file;  // commands that take a file name: "/read", ...
  // The words that may follow "/set" or "/set speculate". A word that further words may follow ends in a blank.
  std::map<std::string, std::vector<std::string>, std::less<>> arguments = {};
};

struct Completion {
  size_t begin = 0;                     // start of the text to replace, which ends at the cursor
  std::vector<std::string> candidates;  // sorted; a command ends in a blank, a directory in a slash
};

// Completes `before`, the text before the cursor. File names are completed after a command of commands_with_file and
// after an @ that begins a word; "~/" is the home directory. Hidden files are listed only if a dot was typed. Blanks in
// names are escaped as "\ ".
Completion complete(std::string_view before, const CompletionWords& words);

// Returns the longest common prefix of the candidates. REQUIRES: `candidates` is not empty.
std::string common_beginning(const std::vector<std::string>& candidates);

}  // namespace ibid
