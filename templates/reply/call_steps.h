// CallSteps: a CallSyntax converted to the steps of a reader, in order. Immutable plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "templates/reply/reply_format.h"

namespace ibid {

inline constexpr size_t kMaxNameBytes = 256;  // of names and ids

struct CallStep {
  enum class Kind { kWord, kName, kId, kIndex, kArguments, kEnvelope };
  Kind kind = Kind::kWord;
  std::string word = {};  // kWord: the word, which may follow spaces
  // kWord: number of steps, this one included, to skip if the word is missing; 0: it is required.
  size_t n_optional = 0;
  std::string other_spelling = {};  // kWord: accepted in place of `word`; empty: no other spelling
};

struct CallSteps {
  std::vector<CallStep> steps;
  // Number of steps at the beginning that open the section of calls. Later calls of the section start after these
  // steps.
  size_t n_opening = 0;
  std::vector<std::string> separator, section_end;  // words
  CallSyntax syntax;
  // The tags at the beginning of a call. A call may begin with any of them, because models omit the words before it;
  // and a tag shows that another call begins, although the end of the current call is missing.
  std::vector<std::string> openers;
  std::vector<std::string> other_openers;  // other spellings of opening words, with which a call may begin as well
  // The texts of ParameterSyntax, split into words.
  std::vector<std::string> before_key, before_value, before_other_value, after_value, after_closing_key;
  // The one word of before_other_value in which it differs from before_value: any word may be there, because it names
  // the value's type. SIZE_MAX: there is no such word.
  size_t type_word = SIZE_MAX;
  bool names_in_ids = false;        // the form has no separate name: the name is part of the id ("functions.NAME:0")
  std::string id_begin, id_middle;  // an id is id_begin, tool's name, id_middle and index; empty: ids have another form
};

CallSteps make_call_steps(const CallSyntax& syntax);

// Returns the words that begin a call, for CallSyntax::triggers.
std::vector<std::string> call_triggers(const CallSyntax& syntax);

// Returns the step that the beginning of `text` matches: words of the template before it may be missing. Searches from
// step `first` on, then from step 0; returns `first` if no step matches.
size_t first_step_at(const CallSteps& steps, std::string_view text, size_t first);

// Whether a text begins with a word.
enum class WordMatch { kYes, kMore, kNo };  // kMore: the text ends inside the word
// Matches words at position `at` of `text`, with spaces allowed before each; moves `at` past the last one.
WordMatch match_words(std::string_view text, const std::vector<std::string>& words, size_t& at);
// Returns whether any of the words is at position `at` of `text`, or follows spaces there.
WordMatch match_any(std::string_view text, const std::vector<std::string>& words, size_t at);

}  // namespace ibid
