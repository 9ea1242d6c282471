// Dialogue: the messages of one branch of a conversation, and the text and tokens that they were rendered to. It holds
// no keys and values (SequenceCache does) and never runs the model.
//
// It changes in two ways. A call that changes messages proposes the change: the proposed messages are in effect until
// the DialogueChange is destroyed, and stay if it was committed. An answer is appended with its plan, all or nothing.
//
// Invariants between calls:
// - the transcript has the prompt and the answer of the last committed turn, even if messages changed since; its tokens
//   were all computed, but for at most one at the end, which is computed next;
// - a reply of the transcript whose number is below n_numbered() belongs to the message of that number;
// - pinned() are numbers of existing messages.
//
// A value that needs no engine; copies are independent. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "ibid/turn.h"
#include "runtime/prompt/message_list.h"
#include "runtime/prompt/prompt_planner.h"
#include "runtime/prompt/transcript.h"
#include "runtime/session/context_policy.h"

namespace ibid {

// An answer that the next turn continues.
struct ContinuedAnswer {
  Json message;
  bool was_sampled = false;  // the transcript may have the tokens of the message
};

// A requested change of the messages.
struct PendingEdit {
  size_t n_kept = 0;                            // number of leading messages that stay
  std::vector<Json> added = {};                 // messages that are added after the kept messages
  std::optional<std::set<size_t>> pinned = {};  // new pins; unset: the kept messages keep their pins
  std::optional<std::string> system = {};       // new text of the system message; unset: no change
  // The last message, to which the answer is added; it is not among the messages that stay.
  std::optional<ContinuedAnswer> continued = {};
  bool goes_back = false;  // the user reverts messages: losing their tokens needs no explanation

  static PendingEdit of(size_t n_kept, Json message) {
    PendingEdit edit{.n_kept = n_kept};
    edit.added.push_back(std::move(message));
    return edit;
  }
};

class DialogueChange;
struct TurnPlan;

struct PromptSize {
  size_t n_prompt = 0;
  size_t n_dropped = 0;  // tokens of the transcript that the prompt does not keep
};

class Dialogue {
 public:
  // system: the text of the initial system message; empty: none.
  Dialogue(PromptPlanner planner, std::string system);

  const MessageList& messages() const { return messages_; }
  const std::set<size_t>& pinned() const { return pinned_; }
  const Transcript& transcript() const { return transcript_; }
  // The text of the system message that reset() keeps; empty: none.
  const std::string& system() const { return system_; }
  size_t n_system_messages() const { return system_.empty() ? 0 : 1; }
  size_t n_numbered() const { return n_numbered_; }
  // True if the last message awaits an answer: a message of the user or a result of a tool.
  bool awaits_answer() const;
  // True if there are messages and the last one is not the assistant's, so that a turn may answer it.
  bool may_answer() const;
  // True if messages were reverted since the last answer.
  bool goes_back() const { return goes_back_; }
  // Number of tokens before the text of the first user message, in the transcript or a plan's prompt; 0: unknown.
  size_t first_turn_boundary() const { return first_turn_boundary(transcript_.spans(), transcript_.bytes()); }
  size_t first_turn_boundary(const PromptDelta& delta) const {
    return delta.patch.keep_bytes == 0 ? first_turn_boundary(delta.patch.spans, delta.patch.bytes)
                                       : first_turn_boundary();
  }
  // Positions after the first n_read tokens at which later prompts may diverge from the plan's. O(tokens after n_read).
  BranchPoints branch_points(const PromptDelta& delta, size_t n_read) const;
  // Memory of messages, text, tokens and the drafter's index, approximately.
  size_t n_bytes() const;
  const Usage& usage() const { return usage_; }
  const Timings& timings() const { return timings_; }

  // Returns the edit with which a turn starts. Errors: kInvalidArgument.
  Result<PendingEdit> edit_for(const TurnStart& start) const;
  // Applies the edit. std::bad_alloc: nothing has changed. REQUIRES: n_kept <= messages().size().
  [[nodiscard]] DialogueChange apply(PendingEdit edit);

  // Sets the template's variables from the next plan on. std::bad_alloc: nothing has changed.
  void set_variables(const ChatTemplate& chat_template, TemplateVariables variables) {
    planned_.reset();
    planner_.set_variables(chat_template, std::move(variables));
  }

  // Plans the prompt of the messages. Errors: those of PromptPlanner::plan().
  Result<PromptDelta> plan();
  // Plans the prompt of a turn; if the context is full, applies the policy. Errors: kContextFull; those of plan().
  Result<TurnPlan> plan_within(const ContextLimits& limits, WhenFull policy);
  // Returns the tokens of the prompt of the proposed messages. Errors: those of plan() and plan_continuing().
  Result<Tokens> prompt_ids(PendingEdit edit);
  // Plans a turn that continues `answer`, which followed the messages. Sampled tokens of the transcript stay. Policies
  // do not apply; limits.max_tokens 0: no limit. Errors: those of PromptPlanner::plan_continuing(); kContextFull.
  Result<TurnPlan> plan_continuing(const ContinuedAnswer& answer, const ContextLimits& limits);
  // Plans a turn and returns the length of its prompt, and the number of tokens of the transcript that it drops. The
  // next plan() returns this plan, unless something changes before. Errors: as plan_within().
  Result<PromptSize> measure(const ContextLimits& limits, WhenFull policy);
  // Plans the part of the next prompt that is known before the next message; its BranchPoints are those after n_read
  // tokens. Changes nothing. Errors: those of plan().
  Result<AheadPrompt> plan_ahead(size_t n_read);
  // Number of tokens of the transcript that stay when a user message is added; nullopt: the template rejects that.
  std::optional<size_t> n_tokens_that_stay();

  // Appends the answer: the plan's text and tokens, the reply, and the message. std::bad_alloc: nothing has changed.
  // REQUIRES: the plan is the last one.
  void append_answer(PromptDelta& delta, SampledReply reply, Json message);
  // Call after append_answer(), for a turn: adds its usage, and renumbers replies by their messages.
  void settle(const Usage& usage, const Timings& timings) noexcept;

  // In the usage of the conversation, replaces `before`, which settle() has added, by `now`.
  void replace_usage(const Usage& before, const Usage& now) noexcept;
  // Call at the end of loading from a file, when all messages are there and replies have their final numbers.
  void restore(std::set<size_t> pinned, const Usage& usage) noexcept;

 private:
  friend class DialogueChange;

  size_t first_turn_boundary(const std::vector<TranscriptSpan>& spans, std::string_view bytes) const;
  // The answer as the next prompt renders it, if that differs from its text; nullopt: the template does not show it.
  std::optional<std::string> shown_answer(const PromptDelta& delta, const SampledReply& reply, const Json& message);

  MessageList messages_;
  std::set<size_t> pinned_;
  Transcript transcript_;
  size_t n_numbered_ = 0;
  bool goes_back_ = false;
  std::string system_;
  PromptPlanner planner_;
  std::optional<PromptDelta> planned_;  // result of measure()
  Usage usage_;
  Timings timings_;
};

// A proposed change of a dialogue. Unless committed, the destructor reverts it, without allocation. Changes of one
// dialogue end in reverse order; do not move the dialogue meanwhile.
class DialogueChange {
 public:
  DialogueChange(DialogueChange&& other) noexcept
      : dialogue_(std::exchange(other.dialogue_, nullptr)), before_(std::move(other.before_)) {}
  DialogueChange& operator=(DialogueChange&&) = delete;
  ~DialogueChange();

  void commit() noexcept { dialogue_ = nullptr; }

 private:
  friend class Dialogue;
  struct Before {
    size_t n_kept = 0;
    MessageList::Tail tail;
    std::set<size_t> pinned;
    std::optional<std::string> system;
    size_t n_numbered = 0;
    bool goes_back = false;
  };
  DialogueChange(Dialogue& dialogue, Before before) : dialogue_(&dialogue), before_(std::move(before)) {}

  Dialogue* dialogue_;  // null: committed
  Before before_;
};

// The plan of a turn that fits the context. Destroying it reverts `fitted`.
struct TurnPlan {
  PromptDelta delta;
  std::optional<DialogueChange> fitted;  // change that makes the messages fit the context; unset: no change is needed
  LeftOut left_out = {};
};

}  // namespace ibid
