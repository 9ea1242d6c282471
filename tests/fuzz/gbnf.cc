// Untrusted grammars in llama.cpp's notation.
#include "grammar/grammar.h"
#include "tests/fuzz/grammar_laws.h"
#include "tests/fuzz/script.h"

namespace ibid::fuzz {

void gbnf(Input input) {
  Script script(input);
  const uint8_t seed = script.byte();
  check_grammar(compile_gbnf(text_of(script.rest())), seed);
}

}  // namespace ibid::fuzz
