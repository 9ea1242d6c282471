// Whole turns of conversations: rendering, tokenising, matching, reading and choosing the first token.
//
//   chat_turn system_tokens turn   eight short turns behind a system message of that many tokens
//   conversation turn              ten turns of a conversation that grows by 500 tokens each, 60 of them new
//   to
//                                  the session; the same prompt is then rendered, tokenised and read from
//                                  nothing in the same process, and the counters of the turn say what it did
//
// Time is to the first sampled token.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"
#include "bench/lab/figure.h"
#include "runtime/engine/engine.h"

namespace ibid {

// Errors of both: those of ChatSession. Turns beyond the engine's context are left out.
Status bench_chat_turns(const std::shared_ptr<Engine>& engine, size_t system_tokens, const FigureSink& sink);
// Medians over n_conversations (0: nothing to do) with different words; prompts and counters are those of the
// first.
Status bench_conversation(const std::shared_ptr<Engine>& engine, size_t n_conversations,
                          const FigureSink& sink);

}  // namespace ibid
