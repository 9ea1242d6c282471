// Untrusted grammars: the first byte selects the notation of the rest. Grammars that compile are walked for a while and
// must never reach a dead end.
#include <algorithm>
#include <array>
#include <string>

#include "base/check.h"
#include "grammar/byte_automaton.h"
#include "grammar/configurations.h"
#include "tests/fuzz/script.h"

namespace ibid::fuzz {

namespace {

Result<Grammar> compile(uint8_t notation, std::string_view text) {
  switch (notation % 3) {
    case 0: return compile_json_schema(text, {.compact = notation % 2 != 0});
    case 1: return compile_gbnf(text);
    default: return compile_regex(text);
  }
}

}  // namespace

void grammar(Input input) {
  Script script(input);
  const uint8_t notation = script.byte();
  const std::string text(text_of(script.rest()));
  const Result<Grammar> grammar = compile(notation, text);
  if (!grammar.ok()) {
    CHECK(!grammar.status().message().empty());
    return;
  }
  Configurations configs(grammar->parts().automaton, {.max_bytes = 1u << 20, .max_items = 500, .max_work = 200'000});
  ConfigId at = configs.start();
  uint32_t choice = notation;
  for (int i = 0; i < 300 && configs.trouble() == Configurations::Trouble::kNone; ++i) {
    std::array<bool, 256> next{};
    configs.next_bytes(at, next);
    const auto n = static_cast<uint32_t>(std::count(next.begin(), next.end(), true));
    CHECK(n > 0 || configs.may_end(at)) << "a dead end after " << i << " bytes";
    if (n == 0) break;
    choice = choice * 1664525 + 1013904223;
    uint32_t skip = (choice >> 16) % n;
    size_t byte = 0;
    while (!next[byte] || skip-- > 0) ++byte;
    at = configs.step(at, static_cast<uint8_t>(byte));
    CHECK(at != Configurations::kDead || configs.trouble() != Configurations::Trouble::kNone) << "edge to a dead state";
  }
}

}  // namespace ibid::fuzz
