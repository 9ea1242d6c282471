// Messages, edits and their rollback, without an engine.
#include "runtime/session/dialogue.h"

#include <gtest/gtest.h>

#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/session/session_branch.h"
#include "templates/message.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/failing_new.h"

namespace ibid {
namespace {

struct ChatBackend {
  explicit ChatBackend(const char* source = kChatMl, std::string system = {})
      : chat_template(*ChatTemplate::compile(source)),
        dialogue(PromptPlanner(tokenizer, chat_template, {}, system_clock()), std::move(system)) {}

  PendingEdit question(const char* text) const {
    return PendingEdit::of(dialogue.messages().size(), make_message(Role::kUser, text));
  }
  SampledReply reply(const std::vector<std::string>& pieces) const {
    SampledReply sampled;
    sampled.ids = tokenizer.sampled(pieces);
    for (const std::string& piece : pieces) {
      sampled.text += piece;
      sampled.text_ends.push_back(sampled.text.size());
    }
    sampled.end_of_turn = tokenizer.im_end, sampled.end_of_turn_text = "<|im_end|>";
    return sampled;
  }
  // Runs a whole turn; returns the cost of its plan. Throws std::bad_alloc if memory ran out.
  TurnCost turn(PendingEdit edit, const std::vector<std::string>& pieces) {
    DialogueChange asked = dialogue.apply(std::move(edit));
    Result<TurnPlan> planned = dialogue.plan_within({.max_tokens = 10000}, WhenFull::kError);
    if (planned.status().code() == ErrorCode::kOutOfMemory) throw std::bad_alloc();
    TurnPlan& plan = planned.value();
    const TurnCost cost = plan.delta.cost;
    SampledReply sampled = reply(pieces);
    Json answer = make_message(Role::kAssistant, sampled.text);
    dialogue.append_answer(plan.delta, std::move(sampled), std::move(answer));
    asked.commit();
    dialogue.settle({}, {});
    return cost;
  }

  FakeTokenizer tokenizer;
  ChatTemplate chat_template;
  Dialogue dialogue;
};

// All observable state of a dialogue.
struct Seen {
  explicit Seen(const Dialogue& d)
      : messages(json_to_string(d.messages().json())),
        stamps(d.messages().stamps()),
        pinned(d.pinned()),
        bytes(d.transcript().bytes()),
        ids(d.transcript().ids()),
        system(d.system()),
        n_numbered(d.n_numbered()),
        goes_back(d.goes_back()) {}
  bool operator==(const Seen&) const = default;

  std::string messages;
  MessageStamps stamps;
  std::set<size_t> pinned;
  std::string bytes;
  Tokens ids;
  std::string system;
  size_t n_numbered;
  bool goes_back;
};

// Two turns, and a pin.
void talk(ChatBackend& t) {
  t.turn(t.question("Hello"), {"ab"});
  t.turn(t.question("and"), {"abc", "lo"});
  PendingEdit pin{.n_kept = t.dialogue.messages().size(), .pinned = std::set<size_t>{0, 3}};
  t.dialogue.apply(std::move(pin)).commit();
}

std::vector<PendingEdit> edits(const ChatBackend& t) {
  std::vector<PendingEdit> out;
  out.push_back(t.question("more"));
  out.push_back({.n_kept = t.dialogue.messages().size() - 1, .goes_back = true});
  out.push_back(PendingEdit::of(2, make_message(Role::kUser, "otherwise")));
  out.back().goes_back = true;
  out.push_back(PendingEdit::of(0, make_message(Role::kSystem, "be brief")));
  out.back().system = "be brief";
  out.push_back({.n_kept = 2, .pinned = std::set<size_t>{1}});
  return out;
}

// Counts the tokens before the first user message if other messages have the same text.
TEST(DialogueTest, FirstTurnBoundaryIsAtTheUserMessageDespiteEqualTexts) {
  const std::string shown = "<|im_start|>system\nHello<|im_end|>\n<|im_start|>user\n";
  ChatBackend equal(kChatMl, "Hello");
  {
    const DialogueChange asked = equal.dialogue.apply(equal.question("Hello"));
    const Result<PromptDelta> plan = equal.dialogue.plan();
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(equal.dialogue.first_turn_boundary(*plan), equal.tokenizer.template_ids(shown).size());
  }
  for (int turn = 0; turn < 3; ++turn) {
    equal.turn(equal.question(" Hello "), {"ab"});
    EXPECT_EQ(equal.dialogue.first_turn_boundary(), equal.tokenizer.template_ids(shown).size()) << turn;
  }

  ChatBackend all_at_once(kChatMl, "Hello");
  PendingEdit history{.n_kept = 1};
  for (const Role role : {Role::kUser, Role::kAssistant, Role::kUser}) {
    history.added.push_back(make_message(role, "Hello"));
  }
  all_at_once.turn(std::move(history), {"ab"});
  EXPECT_EQ(all_at_once.dialogue.first_turn_boundary(), all_at_once.tokenizer.template_ids(shown).size());

  ChatBackend other(kChatMl, "ab");
  other.turn(other.question("Hello"), {"ab"});
  EXPECT_EQ(other.dialogue.first_turn_boundary(),
            other.tokenizer.template_ids("<|im_start|>system\nab<|im_end|>\n<|im_start|>user\n").size());
}

// If some messages are not shown, the first match counts, which is never too long.
TEST(DialogueTest, FirstTurnBoundaryIsNotTooLateIfTheSystemMessageIsHidden) {
  ChatBackend hidden(
      "{% for m in messages %}{% if m.role != 'system' %}{{ '<|im_start|>' + m.role + '\n' + m.content + "
      "'<|im_end|>\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}"
      "{{ '<|im_start|>assistant\n' }}{% endif %}",
      "Hello");
  PendingEdit history{.n_kept = 1};
  for (const Role role : {Role::kUser, Role::kAssistant, Role::kUser}) {
    history.added.push_back(make_message(role, role == Role::kAssistant ? "ab" : "Hello"));
  }
  hidden.turn(std::move(history), {"ab"});
  EXPECT_EQ(hidden.dialogue.first_turn_boundary(), hidden.tokenizer.template_ids("<|im_start|>user\n").size());
}

TEST(DialogueTest, UncommittedEditIsRolledBack) {
  ChatBackend t;
  talk(t);
  const Seen before(t.dialogue);
  for (PendingEdit& edit : edits(t)) {
    {
      const DialogueChange change = t.dialogue.apply(std::move(edit));
      EXPECT_FALSE(Seen(t.dialogue) == before);
      (void)t.dialogue.plan();
    }
    EXPECT_TRUE(Seen(t.dialogue) == before);
  }
  // The planner's state is restored too.
  const TurnCost cost = t.turn(t.question("more"), {"a"});
  EXPECT_EQ(t.dialogue.transcript().bytes(),
            "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\nab<|im_end|>\n"
            "<|im_start|>user\nand<|im_end|>\n<|im_start|>assistant\nabclo<|im_end|>\n"
            "<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\na<|im_end|>");
  EXPECT_LE(cost.work.messages_rendered, 5u);
}

TEST(DialogueTest, CommittedEditIsNotRolledBack) {
  ChatBackend t;
  talk(t);
  t.dialogue.apply({.n_kept = 2, .goes_back = true}).commit();
  EXPECT_EQ(t.dialogue.messages().size(), 2u);
  EXPECT_EQ(t.dialogue.pinned(), (std::set<size_t>{0})) << "pins of the messages that stay";
  EXPECT_EQ(t.dialogue.n_numbered(), 2u);
  EXPECT_TRUE(t.dialogue.goes_back());
  t.turn(t.question("on"), {"a"});
  EXPECT_FALSE(t.dialogue.goes_back()) << "a turn resets it";
}

TEST(DialogueTest, NestedEditsAreRolledBackInReverseOrder) {
  ChatBackend t;
  talk(t);
  const Seen before(t.dialogue);
  {
    const DialogueChange asked = t.dialogue.apply(t.question("more"));
    const Seen in_between(t.dialogue);
    {
      const DialogueChange fitted = t.dialogue.apply(PendingEdit::of(0, make_message(Role::kUser, "more")));
      EXPECT_EQ(t.dialogue.messages().size(), 1u);
    }
    EXPECT_TRUE(Seen(t.dialogue) == in_between);
  }
  EXPECT_TRUE(Seen(t.dialogue) == before);
}

TEST(DialogueTest, DestroyedPlanRestoresTheTurnsThatWereDropped) {
  ChatBackend t(kChatMl, "be brief");
  for (int i = 0; i < 6; ++i) t.turn(t.question("Hello"), {"ab"});
  const DialogueChange asked = t.dialogue.apply(t.question("more"));
  const Seen before(t.dialogue);
  const size_t n_full = t.dialogue.plan()->n_prompt;
  {
    const Result<TurnPlan> plan = t.dialogue.plan_within({.max_tokens = n_full - 1}, WhenFull::kDropOldestTurns);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_GT(plan->left_out.n_messages, 0u);
    EXPECT_LT(plan->delta.n_prompt, n_full);
    EXPECT_TRUE(is_from(t.dialogue.messages()[0], Role::kSystem));
    EXPECT_LT(t.dialogue.messages().size(), 14u);
  }
  EXPECT_TRUE(Seen(t.dialogue) == before);
  EXPECT_EQ(t.dialogue.plan_within({.max_tokens = n_full - 1}, WhenFull::kError).status().code(),
            ErrorCode::kContextFull);
  EXPECT_TRUE(Seen(t.dialogue) == before);
}

// Planning the known part of the next prompt leaves no trace.
TEST(DialogueTest, PlanAheadChangesNothing) {
  for (const char* source : {kChatMl, kStripsThinking}) {
    ChatBackend t(source);
    t.turn(t.question("Hello"), {"<think>", "</think>", "ab"});
    const Seen before(t.dialogue);
    const AheadPrompt ahead = t.dialogue.plan_ahead(0).value();
    const std::optional<size_t> n_staying = t.dialogue.n_tokens_that_stay();
    EXPECT_TRUE(Seen(t.dialogue) == before);
    EXPECT_FALSE(ahead.is_whole);
    ASSERT_TRUE(n_staying.has_value());
    EXPECT_EQ(*n_staying < t.dialogue.transcript().ids().size(), source == kStripsThinking);
    const DialogueChange asked = t.dialogue.apply(t.question("zz"));
    const PromptDelta delta = t.dialogue.plan().value();
    const Tokens prompt = PromptIds(delta, t.dialogue.transcript()).from(0);
    ASSERT_LE(ahead.ids.size(), prompt.size());
    EXPECT_TRUE(std::equal(ahead.ids.begin(), ahead.ids.end(), prompt.begin()));
  }
}

// The heap fails at every allocation of a edit, a plan and an answer: nothing uncommitted stays.
TEST(DialogueTest, FailedAllocationChangesNothing) {
  for (size_t n = 0;; ++n) {
    ChatBackend t;
    talk(t);
    const Seen before(t.dialogue);
    PendingEdit edit = PendingEdit::of(2, make_message(Role::kUser, "a question that is long enough for the heap"));
    edit.pinned = std::set<size_t>{0, 1, 2};
    FailingNew failing(n, false);
    try {
      t.turn(std::move(edit), {"abc"});
    } catch (const std::bad_alloc&) {
    }
    failing.stop();
    if (!failing.has_failed()) break;
    ASSERT_TRUE(Seen(t.dialogue) == before) << "allocation " << n;
    t.turn(t.question("more"), {"a"});
    ASSERT_TRUE(t.dialogue.transcript().bytes().ends_with("more<|im_end|>\n<|im_start|>assistant\na<|im_end|>"));
  }
}

// --- indexes for drafts and penalties

Sampler penalised() { return *Sampler::create({.repetition_penalty = 1.5}, 512); }

TEST(HistoryIndexesTest, GrowingConversationCostsOnlyNewTokens) {
  ChatBackend t;
  HistoryIndexes back;
  for (int i = 0; i < 4; ++i) {
    DialogueChange asked = t.dialogue.apply(t.question("Hello"));
    PromptDelta delta = t.dialogue.plan().value();
    const PromptIds prompt(delta, t.dialogue.transcript());
    const size_t n_new = prompt.size() - prompt.n_keep();
    EXPECT_EQ(back.index(prompt), n_new);
    Sampler sampler = penalised();
    EXPECT_LE(back.checkout(prompt, sampler), n_new);
    EXPECT_EQ(sampler.history().size(), prompt.size());
    SampledReply sampled = t.reply({"ab", "lo"});
    for (const TokenId id : sampled.ids) back.drafter().push(id), sampler.push(id);
    back.drafter().push(t.tokenizer.im_end), sampler.push(t.tokenizer.im_end);
    back.take_back(sampler.take_history());
    const size_t n_keep = delta.n_keep;
    t.dialogue.append_answer(delta, std::move(sampled), make_message(Role::kAssistant, "ablo"));
    asked.commit();
    back.settle(n_keep, t.dialogue.transcript().ids().size(), true, true);
  }
}

TEST(HistoryIndexesTest, TokensOfFailedTurnsAndTurnsWithoutDraftsAreIndexedLater) {
  ChatBackend t;
  HistoryIndexes back;
  talk(t);
  const size_t n_completion_tokens = t.dialogue.transcript().ids().size();
  for (const char* text : {"one", "another"}) {
    const DialogueChange asked = t.dialogue.apply(t.question(text));
    const PromptDelta delta = t.dialogue.plan().value();
    const PromptIds prompt(delta, t.dialogue.transcript());
    EXPECT_EQ(back.index(prompt), prompt.size()) << "no turn was committed";
    EXPECT_EQ(back.drafter().size(), prompt.size());
  }
  back.settle(n_completion_tokens, n_completion_tokens, false, false);
  back.forget();
  EXPECT_EQ(back.drafter().size(), 0u);
}

}  // namespace
}  // namespace ibid
