// Measures whole turns of conversations: rendering, tokenising, prefix matching, prefill, and sampling of the first
// token.
//   chat_turn system_tokens turn   eight short turns after a system message of that many tokens
//   conversation turn              ten turns of a conversation that grows by 500 tokens each, 60 of them new
//                                  to the session; the same prompt is then rendered, tokenised and prefilled
//                                  cold in the same process, and the details include the turn's work counters
// Times are to the first sampled token.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/json_limits.h"
#include "base/result.h"
#include "bench/lab/figure.h"
#include "runtime/engine/engine_state.h"

namespace ibid {

// Returns `lead` followed by plain words, with n_tokens tokens or a few more. Different seeds give different orders of
// the words, so that the texts differ right after `lead`.
std::string text_of_tokens(const Tokenizer& tokenizer, std::string_view lead, size_t n_tokens, size_t seed);

// Renders and tokenises the prompt of a conversation. REQUIRES: the engine has a chat template.
// Errors: the template's.
Result<Tokens> prompt_of(const Engine& engine, const Json& messages);

// Returns the number of tokens that the template adds around the first user message, including the template's own
// system message.
Result<size_t> tokens_around_first_message(const Engine& engine);

// Errors of both functions: those of ChatSession. Turns that do not fit into the engine's context are left out.
Status bench_chat_turns(const std::shared_ptr<Engine>& engine, size_t system_tokens, const FigureSink& sink);
// Reports medians over n_conversations (0: measures nothing) with different words; prompts and counters are those of
// the first conversation.
Status bench_conversation(const std::shared_ptr<Engine>& engine, size_t n_conversations, const FigureSink& sink);

}  // namespace ibid
