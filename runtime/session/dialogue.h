// Dialogue: what has been said in one line of a conversation: its messages, and the text and ids that they became.
// It does not hold keys and values (SequenceCache does), and computes nothing.
//
// It changes in two ways. Every call of a session that changes messages proposes a change: the messages are then the
// proposed ones, and are what they were again unless the change is committed (DialogueChange). An answer is appended
// with its plan, all or nothing.
//
// What holds between calls:
//  - the transcript has the prompt and the answer of the last turn that was committed, whatever became of the messages
//    since; its ids are what was fed, and at the end at most one id that is fed next;
//  - a reply of the transcript whose number is below n_numbered() is that message's;
//  - pinned() are numbers of messages that are there.
//
// A value, needing no engine; a copy goes on on its own. Not thread-safe.
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

// What a call wants the messages to be.
struct Proposal {
  size_t n_kept = 0;          // the first messages, which stay
  std::vector<Json> added = {};  // and what follows them
  std::optional<std::set<size_t>> pinned = {};  // none: the pins of the messages that stay
  std::optional<std::string> system = {};       // the system message's text, where that is another one now
  bool goes_back = false;     // the caller takes back what was said: no wonder if its ids are lost

  static Proposal of(size_t n_kept, Json message) {
    Proposal proposal{.n_kept = n_kept};
    proposal.added.push_back(std::move(message));
    return proposal;
  }
};

class DialogueChange;
struct TurnPlan;

struct PromptSize {
  size_t n_prompt = 0;
  size_t n_dropped = 0;  // ids of the conversation that the prompt does not keep
};

class Dialogue {
 public:
  // system: empty, or the text of the system message that it begins with.
  Dialogue(PromptPlanner planner, std::string system);

  const MessageList& messages() const { return messages_; }
  const std::set<size_t>& pinned() const { return pinned_; }
  const Transcript& transcript() const { return transcript_; }
  // The text of the system message that reset() keeps; empty: none.
  const std::string& system() const { return system_; }
  size_t n_system_messages() const { return system_.empty() ? 0 : 1; }
  size_t n_numbered() const { return n_numbered_; }
  bool awaits_answer() const;
  // Whether the caller took back what was said since the last answer.
  bool goes_back() const { return goes_back_; }
  // The ids in front of what the first message of the user says; 0: nothing is known. The same of a plan's prompt.
  size_t n_opening_ids() const { return n_opening_ids(transcript_.spans(), transcript_.bytes()); }
  size_t n_opening_ids(const PromptDelta& delta) const {
    return delta.patch.keep_bytes == 0 ? n_opening_ids(delta.patch.spans, delta.patch.bytes) : n_opening_ids();
  }
  // Where later prompts may part from a plan's, behind its first n_read ids. O(what lies behind them).
  PromptCuts cuts(const PromptDelta& delta, size_t n_read) const;
  // What its messages, text and ids take of memory, and what drafts look up for each id, about.
  size_t n_bytes() const;
  const Usage& usage() const { return usage_; }
  const Timings& timings() const { return timings_; }

  // Makes the messages what is proposed. std::bad_alloc: nothing has changed. REQUIRES: n_kept <= messages().size().
  [[nodiscard]] DialogueChange propose(Proposal proposal);

  // Other variables of the template, from the next plan on. std::bad_alloc: nothing has changed.
  void set_variables(const ChatTemplate& chat_template, TemplateVariables variables) {
    planned_.reset();
    planner_.set_variables(chat_template, std::move(variables));
  }

  // Plans the prompt of the messages. Errors: those of PromptPlanner::plan().
  Result<PromptDelta> plan();
  // The same for a turn; when the context is full, after the policy was applied. Further error: kContextFull.
  Result<TurnPlan> plan_within(const ContextRoom& room, WhenFull policy);
  // Plans a turn and says how long its prompt is, and how many ids of the transcript it drops. The plan is kept for the
  // call of plan() that follows, unless something changes before. Errors: as plan_within().
  Result<PromptSize> measure(const ContextRoom& room, WhenFull policy);
  // What can be read before the next message is known; cuts are those behind n_read ids. Changes nothing. Errors: those
  // of plan().
  Result<AheadPrompt> plan_ahead(size_t n_read);
  // How many ids of the transcript stay when the user says something. Nothing: the template refuses that.
  std::optional<size_t> n_ids_that_stay();

  // Makes the answer a part of it: the plan's text and ids, the reply, and the message. std::bad_alloc: nothing has
  // changed. REQUIRES: the plan is the last that was made.
  void append_answer(PromptDelta& delta, SampledReply reply, Json message);
  // After append_answer(), for a turn: counts what it cost, and gives replies the numbers that their messages have.
  void settle(const Usage& usage, const Timings& timings) noexcept;

  // Counts `now` in place of `before`. REQUIRES: settle() counted `before`.
  void replace_usage(const Usage& before, const Usage& now) noexcept;
  // For a dialogue that was made of a file: all messages are there, and their replies have their numbers.
  void restore(std::set<size_t> pinned, const Usage& usage) noexcept;

 private:
  friend class DialogueChange;

  size_t n_opening_ids(const std::vector<TranscriptSpan>& spans, std::string_view bytes) const;
  // How the next prompt will show the answer, where that is not its text; nothing: the template does not say.
  std::optional<std::string> shown_answer(const PromptDelta& delta, const SampledReply& reply, const Json& message);

  MessageList messages_;
  std::set<size_t> pinned_;
  Transcript transcript_;
  size_t n_numbered_ = 0;
  bool goes_back_ = false;
  std::string system_;
  PromptPlanner planner_;
  std::optional<PromptDelta> planned_;  // by measure()
  Usage usage_;
  Timings timings_;
};

// A change of a dialogue that was proposed. Unless it is committed, its destructor makes the dialogue what it was;
// this needs no memory. Changes of one dialogue end in reverse order; the dialogue stays where it is meanwhile.
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

// The plan of a turn, made to fit the context. To drop it is to take back what it changed.
struct TurnPlan {
  PromptDelta delta;
  std::optional<DialogueChange> fitted;  // what a full context changed
  LeftOut left_out = {};
};

}  // namespace ibid
