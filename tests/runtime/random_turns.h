// Random messages, options and whole turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/runtime/random_conversation_setting.h"

namespace ibid {

TurnOptions random_turn_options(Dice& dice, const FakeTokenizer& tokenizer);
std::string random_text(Dice& dice);

// Runs n turns of this seed on a session that another process saved. Returns false if the pool was too small for one of
// them, which the other process's pool may not have been.
bool go_on_with(ChatSession& session, const FakeTokenizer& tokenizer, uint64_t seed, size_t n_turns);

}  // namespace ibid
