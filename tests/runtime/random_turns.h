// Messages, options and whole turns, as a random conversation draws them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/runtime/random_conversation_setting.h"

namespace ibid {

TurnOptions random_turn_options(Dice& dice, const FakeTokenizer& tokenizer);
std::string random_text(Dice& dice);

// What a process does with a session that another one has left: n turns of this seed. False: the pool was too small for
// one of them, as another process's need not have been.
bool go_on_with(ChatSession& session, const FakeTokenizer& tokenizer, uint64_t seed, size_t n_turns);

}  // namespace ibid
