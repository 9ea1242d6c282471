// Tab completion of the word before the cursor: commands and file names.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ibid {

struct CompletionWords {
  std::vector<std::string> commands;            // "/help", ...: the first word of a message
  std::vector<std::string> commands_with_file;  // "/read", ...: commands that take a file name
  // Words that may follow "/set" and "/set speculate"; a word that is not the last ends in a blank.
  std::map<std::string, std::vector<std::string>, std::less<>> arguments = {};
};

struct Completion {
  size_t begin = 0;                     // start of the replaced text, which ends at the cursor
  std::vector<std::string> candidates;  // sorted; commands end in a blank, directories in a slash
};

// Completes `before`, the text before the cursor. File names are completed after a command of commands_with_file and
// after an @ that begins a word; "~/" is the home directory. Hidden files are listed only if a dot was typed. Blanks in
// names are escaped as "\ ".
Completion complete(std::string_view before, const CompletionWords& words);

// Returns the longest common prefix of the candidates. REQUIRES: there is one.
std::string common_beginning(const std::vector<std::string>& candidates);

}  // namespace ibid
