// Whole turns of conversations: rendering, tokenising, matching, reading and choosing the first token.
//
//   chat_turn system_tokens turn   eight short turns after a system message of that many tokens
//   conversation turn              ten turns of a conversation that grows by 500 tokens each, 60 of them new
//                                  to the session; the same prompt is then rendered, tokenised and read from
//                                  nothing in the same process, and the counters of the turn say what it did
//
// Time is to the first sampled token.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/json_limits.h"
#include "base/result.h"
#include "bench/lab/figure.h"
#include "runtime/engine/engine.h"

namespace ibid {

// `lead` and then plain words, `n_tokens` ids or a few more. Other seeds give the words in another order, so that the
// texts begin to differ right behind `lead`.
std::string text_of_tokens(const Tokenizer& tokenizer, std::string_view lead, size_t n_tokens, size_t seed);

// The prompt of a conversation, rendered and tokenised from nothing. REQUIRES: the engine has a chat template.
// Errors: the template's.
Result<Tokens> prompt_of(const Engine& engine, const Json& messages);

// How many ids the template puts around the first user message, a system message of its own included.
Result<size_t> tokens_around_first_message(const Engine& engine);

// Errors of both: those of ChatSession. Turns beyond the engine's context are left out.
Status bench_chat_turns(const std::shared_ptr<Engine>& engine, size_t system_tokens, const FigureSink& sink);
// Medians over n_conversations (0: nothing to do) with different words; prompts and counters are those of the
// first.
Status bench_conversation(const std::shared_ptr<Engine>& engine, size_t n_conversations,
                          const FigureSink& sink);

}  // namespace ibid
