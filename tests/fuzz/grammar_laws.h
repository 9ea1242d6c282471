// Properties of every grammar that compiles.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "grammar/grammar.h"

namespace ibid::fuzz {

// Walks through the grammar along bytes and tokens that it allows, selected by `seed`; no walk may reach a dead end.
// Returns the first text on the way with which the grammar may end; nullopt if the walk did not reach one, or a token
// that the grammar names was on the way. An error must have a message.
std::optional<std::string> check_grammar(const Result<Grammar>& grammar, uint8_t seed);

}  // namespace ibid::fuzz
