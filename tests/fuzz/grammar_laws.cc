#include "tests/fuzz/grammar_laws.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/check.h"
#include "grammar/byte_automaton.h"
#include "grammar/configurations.h"

namespace ibid::fuzz {

std::optional<std::string> check_grammar(const Result<Grammar>& grammar, uint8_t seed) {
  if (!grammar.ok()) {
    CHECK(!grammar.status().message().empty());
    return std::nullopt;
  }
  Configurations configs(grammar->parts().automaton, {.max_bytes = 1u << 20, .max_items = 500, .max_work = 200'000});
  ConfigId at = configs.start();
  uint32_t choice = seed;
  std::string text;
  std::optional<std::string> whole;
  for (int i = 0; i < 300 && configs.limit_reached() == Configurations::LimitReached::kNone; ++i) {
    if (!whole && configs.may_end(at)) whole = text;
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
    text += static_cast<char>(byte);
    CHECK(at != Configurations::kDead || configs.limit_reached() != Configurations::LimitReached::kNone)
        << "edge to a dead state";
  }
  return whole;
}

}  // namespace ibid::fuzz
