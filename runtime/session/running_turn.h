// RunningTurn: one turn of a branch, from its proposal to its end, on the caller's thread. It is the one transaction
// of a session: it makes the messages what is proposed, plans the prompt, borrows keys and values, has the engine
// compute the answer, lets the caller hear of it, and commits all of it or drops all of it. Between begin() and
// finish() the caller's thread may do what it likes; the branch stays where it is, and is nobody else's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ibid/turn.h"
#include "runtime/answer/answer.h"
#include "runtime/session/session_branch.h"
#include "runtime/session/turn_reply.h"
#include "runtime/turn_meter.h"

namespace ibid {

class RunningTurn {
 public:
  // What a branch answers with: the engine, and what becomes of a full context.
  struct Setting {
    Engine& engine;
    WhenFull when_full;
    const Json* variables;  // the template's: the tools are among them
  };
  // `branch` and `options` must outlive it.
  RunningTurn(SessionBranch& branch, Setting setting, const TurnOptions& options, std::shared_ptr<Bell> bell);
  // A turn that was begun and not finished is cancelled, and leaves nothing behind.
  ~RunningTurn();
  RunningTurn(const RunningTurn&) = delete;
  RunningTurn& operator=(const RunningTurn&) = delete;

  // Begins to answer the proposed messages, the last of which is a question. tells: somebody will hear the turn.
  // After an error everything is as before.
  Status begin(Proposal proposal, const TurnCallback& on_event, bool tells);

  // Calls on_event for what has happened since the last call. Returns true when the answer is over. The bell rings
  // when there is more. even_stopped: as in Answer::hear().
  bool hear(const TurnCallback& on_event, bool even_stopped = false);
  // The same for a caller that reads text whenever it likes; a cancelled answer ends where it is.
  bool is_over() const { return answer_->is_over(); }
  // What is known of the turn from its beginning on: usage.n_prompt, seed, left_out and lost_prefix.
  const Turn& beginning() const { return turn_; }
  std::vector<AnswerEvent> take_events() { return answer_->take_events(); }
  void cancel() { answer_->cancel(); }
  // For a caller that wants to know what the text says while it comes: tells what the next piece of it says.
  // REQUIRES: TurnOptions::parse_reply.
  void read_reply(std::string_view text, const ReplyParser::Listener& on_part) { reply_->feed(text, on_part); }

  // Call it when the answer is over. Commits the turn; after an error everything is as before. on_part: hears what of
  // the answer read_reply() has not told.
  Result<Turn> finish(const TurnCallback& on_event, const ReplyParser::Listener& on_part = {});

 private:
  Status try_begin(Proposal proposal, const TurnCallback& on_event, bool tells);
  Result<Turn> try_finish(const TurnCallback& on_event, const ReplyParser::Listener& on_part);
  GenerateRequest request_answer(const PromptIds& prompt, bool tells);
  Answer::Listener told_to(const TurnCallback& on_event);
  // Notes what the answer was and what it cost; takes its log-probabilities.
  void note(Generation& generation, const ReplyParser::Listener& on_part);
  // What the text says, for a turn that asks for that.
  void begin_reply(const PromptDelta& delta);
  void end_reply(const ReplyParser::Listener& on_part);
  // The answer as a message of the conversation.
  Json message_to_keep(std::string text) const;
  // Makes the answer a part of the conversation; or throws std::bad_alloc, and nothing has changed.
  void commit(Generation generation);
  // noexcept, because what is committed cannot be taken back.
  void tell_end(const TurnCallback& on_event) noexcept;
  // Makes everything what it was before begin(), without memory. What was computed stays in the store.
  void drop() noexcept;
  void wait() const;

  SessionBranch& branch_;
  Engine& engine_;
  const Setting setting_;
  const TurnOptions& options_;
  const std::shared_ptr<Bell> bell_;
  TurnMeter meter_;
  Turn turn_;
  bool counts_ = false;  // its sampler looks back
  std::optional<TurnReply> reply_;

  // What a turn that is dropped takes back, last to first.
  std::optional<DialogueChange> asked_;
  std::optional<TurnPlan> plan_;
  std::unique_ptr<SequenceCache::Loan> rows_;
  std::unique_ptr<Answer> answer_;  // submitted, not finished
};

}  // namespace ibid
