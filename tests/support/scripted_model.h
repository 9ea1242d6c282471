// A model file whose answers a test has written down, so that the program can be run as people run it
// (tokenizer, template, engine and all) without the real model. It is a llama whose only layer adds nothing
// and whose output matrix says of each id which one follows; its chat template looks at the newest question
// and chooses where to begin.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ibid {

struct ScriptedAnswer {
  // A condition of Jinja on `q`, the text of the question: "'story' in q", "q.split('\n')|length == 5".
  // Empty: always. The first answer whose condition holds is given; without one the model says nothing.
  std::string when;
  // It comes in pieces that begin at blanks, or, where the text holds some, behind each U+001F. A piece that
  // was there before is joined with the next, since a vocabulary has each text once.
  std::string says;
  // The pieces come in random order and without end, differently in each turn (temperature above 0 is
  // needed).
  bool endless = false;
};

// REQUIRES: says is not empty.
void write_scripted_model(const std::string& path, const std::vector<ScriptedAnswer>& answers, size_t context = 4096);

}  // namespace ibid
