// Writes a model file with scripted answers, so that the whole program (tokenizer, template, engine) can be tested
// without the real model. It is a llama whose only layer adds nothing, and whose output matrix maps each token to its
// successor. Its chat template chooses the first token of the answer by the newest question.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ibid {

struct ScriptedAnswer {
  // A condition of Jinja on `q`, the text of the question: "'story' in q", "q.split('\n')|length == 5". Empty: always
  // true. The first answer whose condition is true is used; otherwise the answer is empty.
  std::string when;
  // The text of the answer. Its tokens are pieces that begin at blanks or, if the text contains U+001F, end at each
  // U+001F. A piece that exists already is joined with the next one, because a vocabulary has each text only once.
  std::string says;
  // Emits the pieces in random order without end, differently in each turn. REQUIRES: a temperature above 0.
  bool endless = false;
};

// REQUIRES: says is not empty.
void write_scripted_model(const std::string& path, const std::vector<ScriptedAnswer>& answers, size_t context = 4096);

}  // namespace ibid
