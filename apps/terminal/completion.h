// What Tab can put in place of the word in front of the cursor: commands, and the names of files.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ibid {

struct CompletionWords {
  std::vector<std::string> commands;            // "/help", ...: the first word of a message
  std::vector<std::string> commands_with_file;  // "/read", ...: what follows them is a file's name
  // The words that may follow "/set", and "/set speculate"; a word that is not the last ends in a blank.
  std::map<std::string, std::vector<std::string>, std::less<>> arguments = {};
};

struct Completion {
  size_t begin = 0;                     // of what is replaced, up to the cursor
  std::vector<std::string> candidates;  // in order; commands have a blank behind them, directories a slash
};

// The completions of `before`, the text before the cursor. Names of files come behind a command of commands_with_file
// and behind an @ that begins a word; "~/" is the home directory. A name that begins with a dot comes when a
// dot was typed. Blanks within a name are written "\ ".
Completion complete(std::string_view before, const CompletionWords& words);

// The longest text with which all of them begin. REQUIRES: there is one.
std::string common_beginning(const std::vector<std::string>& candidates);

}  // namespace ibid
