// What `ibid ask` is asked: words of the command line, files and standard input, joined into one text.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "base/result.h"

namespace ibid {

struct Question {
  std::vector<std::string> words;  // "-" among them is standard input, there
  std::vector<std::string> files;  // "-" is standard input
};

// The parts in this order, with an empty line between them: the files as given, standard input (where `words` and
// `files` give it no place and `input` is not nullptr), the words with blanks between them. The question stands last:
// a model minds best what it read last. Newlines at the end of a part are not text.
// `input`: nullptr when nothing is to be read but where "-" stands. `input_named`: what "-" reads.
// Errors: kInvalidArgument: nothing in any part, "-" twice, or no UTF-8; kLimitExceeded; those of read_file().
Result<std::string> join_question(const Question& question, std::istream* input, std::istream& input_named);

}  // namespace ibid
