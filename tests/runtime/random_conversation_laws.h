// Invariants of every session between any two calls, as GoogleTest failures.
#pragma once

#include <ostream>
#include <string>

#include "runtime/session/session_state.h"
#include "tests/runtime/random_conversation_setting.h"
#include "tests/runtime/tiny_chat.h"

namespace ibid {

// KV equals that of a cold pass over the tokens; the tokens decode to the transcript; the transcript's spans have no
// gaps. cold: the checkpoint that computes the KV; nullptr: a FakeModel does.
void expect_session_laws(const ChatSession& session, const FakeTokenizer& tokenizer, ColdModel* cold = nullptr);

// The fields of a turn's usage are consistent, and no counter has wrapped.
void expect_usage_laws(const Turn& turn);

// After a call that returned `turn`: the transcript is the whole render of the messages before the answer, and the
// answer; messages and transcript agree.
void expect_turn_laws(const ChatSession& session, const Turn& turn, const RandomProcess& process,
                      const SessionOptions& options);

// Tokens one by one, for people to compare.
std::string pieces_of(TokenSpan ids, const FakeTokenizer& tokenizer);

// The store is valid, and the pool is within its budget.
void expect_engine_laws(Engine& engine);

// The state that a failed call must not change.
struct SessionFace {
  explicit SessionFace(const ChatSession& session);
  bool operator==(const SessionFace&) const = default;

  friend void PrintTo(const SessionFace& face, std::ostream* out);

  std::string messages, bytes;
  Tokens ids;
  size_t n_prompt = 0, n_decoded = 0;
};

}  // namespace ibid
