// What holds of every session between any two calls, whatever the calls were; as failures of GoogleTest.
#pragma once

#include <ostream>
#include <string>

#include "runtime/session/session_state.h"
#include "tests/runtime/random_conversation_setting.h"
#include "tests/runtime/tiny_chat.h"

namespace ibid {

// Its rows are those of its ids, recomputed from nothing; its ids spell its transcript; its transcript is one row of
// spans without gaps. cold: the checkpoint that computes the rows; nullptr: a FakeModel does.
void expect_session_laws(const ChatSession& session, const FakeTokenizer& tokenizer, ColdModel* cold = nullptr);

// The fields of a turn's usage agree with each other, and no counter has wrapped.
void expect_usage_laws(const Turn& turn);

// The last call was a turn that ended in `turn`: the transcript is the whole render of the messages in front of the
// answer, and the answer; messages and transcript agree.
void expect_turn_laws(const ChatSession& session, const Turn& turn, const RandomProcess& process,
                      const SessionOptions& options);

// Ids one by one, for people to compare.
std::string pieces_of(TokenSpan ids, const FakeTokenizer& tokenizer);

// The store is valid, and the pool within its budget.
void expect_engine_laws(Engine& engine);

// What a call that fails must leave alone.
struct SessionFace {
  explicit SessionFace(const ChatSession& session);
  bool operator==(const SessionFace&) const = default;

  friend void PrintTo(const SessionFace& face, std::ostream* out);

  std::string messages, bytes;
  Tokens ids;
  size_t n_prompt = 0, n_decoded = 0;
};

}  // namespace ibid
