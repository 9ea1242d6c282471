// CallSteps: a CallSyntax converted to the steps (words, name, id, arguments) that a CallReader follows in order.
// Immutable plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "templates/reply/reply_format.h"

namespace ibid {

inline constexpr size_t kMaxNameBytes = 256;  // maximum bytes of names and ids

struct CallStep {
  enum class Kind { kWord, kName, kId, kIndex, kArguments, kEnvelope };
  Kind kind = Kind::kWord;
  std::string word = {};  // kWord: the word, which may follow spaces
  // kWord: number of steps, from this one on, to skip if the word is missing; 0: the word is required
  size_t n_optional = 0;
  std::string other_spelling = {};  // kWord: another spelling that is accepted too; empty: only `word` is
};

struct CallSteps {
  std::vector<CallStep> steps;
  // Number of steps at the beginning that open a section of calls. Later calls of the section begin after them.
  size_t n_opening = 0;
  std::vector<std::string> separator, section_end;  // split into words
  CallSyntax syntax;
  // The tags at the beginning of a call. A call may begin with any of them, because models omit the words before it;
  // and if such a tag follows a call whose end is missing, it shows that another call begins.
  std::vector<std::string> openers;
  std::vector<std::string> other_openers;  // other spellings of opening words, with which a call may begin as well
  // The texts of ParameterSyntax, split into words.
  std::vector<std::string> before_key, before_value, before_other_value, after_value, after_closing_key;
  // Index of the word of before_other_value that names the type of the value, so that any word may be there. It is the
  // only word that differs from before_value. SIZE_MAX: there is no such word.
  size_t type_word = SIZE_MAX;
  bool names_in_ids = false;  // calls have no separate name: the name is a part of the id ("functions.NAME:0")
  // An id consists of id_begin, the tool's name, id_middle and the index; empty: ids have another form.
  std::string id_begin, id_middle;
};

CallSteps make_call_steps(const CallSyntax& syntax);

// Returns the words that begin a call, as stored in CallSyntax::triggers.
std::vector<std::string> call_triggers(const CallSyntax& syntax);

// Returns the index of the step that the beginning of `text` matches, because models may omit the words of earlier
// steps. Searches from step `first` on, then from step 0; returns `first` if no step matches.
size_t first_step_at(const CallSteps& steps, std::string_view text, size_t first);

// Whether a text begins with a word.
enum class WordMatch { kYes, kMore, kNo };  // kMore: the text ends inside the word
// Matches words at position `at` of `text`, with spaces allowed before each; moves `at` past the last one.
WordMatch match_words(std::string_view text, const std::vector<std::string>& words, size_t& at);
// Returns whether any of the words is at position `at` of `text`, or follows spaces there.
WordMatch match_any(std::string_view text, const std::vector<std::string>& words, size_t at);

}  // namespace ibid
