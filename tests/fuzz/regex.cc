// Untrusted regular expressions as grammars.
#include "grammar/grammar.h"
#include "tests/fuzz/grammar_laws.h"
#include "tests/fuzz/script.h"

namespace ibid::fuzz {

void regex(Input input) {
  Script script(input);
  const uint8_t seed = script.byte();
  check_grammar(compile_regex(text_of(script.rest())), seed);
}

}  // namespace ibid::fuzz
