// Writes a model file with scripted answers, so that the whole program (tokenizer, template, engine) can be
// tested without the real model. It is a llama whose only layer adds nothing
// and whose output matrix maps each token to its successor; its chat template selects the first token of the
// answer by the newest question.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ibid {

struct ScriptedAnswer {
  // A condition of Jinja on `q`, the text of the question: "'story' in q", "q.split('\n')|length == 5".
  // Empty: always. The first answer whose condition holds is used; if none holds, the answer is empty.
  std::string when;
  // Its tokens are pieces that begin at blanks, or, if the text contains U+001F, after each one. A piece that
  // exists already is joined with the next, since a vocabulary has each text only once.
  std::string says;
  // Emits the pieces in random order without end, differently in each turn (requires a temperature above
  // 0).
  bool endless = false;
};

// REQUIRES: says is not empty.
void write_scripted_model(const std::string& path, const std::vector<ScriptedAnswer>& answers, size_t context = 4096);

}  // namespace ibid
