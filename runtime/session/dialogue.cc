#include "runtime/session/dialogue.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"
#include "base/text.h"
#include "base/token_prefix.h"
#include "templates/message.h"

namespace ibid {
namespace {

// The next user message is unknown, but the template renders some tokens before it whatever its text. To find them, the
// prompt is planned with two different messages; the common prefix of both plans can be prefilled.
constexpr const char* kProbes[] = {"a", "b"};

Json user_message(const char* text) { return make_message(Role::kUser, text); }

// Limits the search for the first user message, so that a turn does not cost O(history).
constexpr size_t kMostOpeningSpans = 64;

}  // namespace

Dialogue::Dialogue(PromptPlanner planner, std::string system)
    : system_(std::move(system)), planner_(std::move(planner)) {
  if (!system_.empty()) messages_.push_back(make_message(Role::kSystem, system_));
}

bool Dialogue::may_answer() const { return !messages_.empty() && !is_from(messages_.back(), Role::kAssistant); }

bool Dialogue::awaits_answer() const { return may_answer() && !is_from(messages_.back(), Role::kSystem); }

// Searches the spans of input for the text of the first user message, as a whole or trimmed. Not every such span is a
// message, because a template may render roles as input too; and several messages may have that text. If there are as
// many spans with the text as messages with the text, takes the span that has the same number among the spans as the
// user message has among these messages. Otherwise takes the first span: fewer tokens are before it, but conversations
// with the same beginning share these.
size_t Dialogue::first_turn_boundary(const std::vector<TranscriptSpan>& spans, std::string_view bytes) const {
  size_t first = 0;
  while (first < messages_.size() && !is_from(messages_[first], Role::kUser)) ++first;
  if (first == messages_.size()) return 0;
  const auto text_of = [this](size_t i) {
    const std::string* text = content_of(messages_[i]);
    return text == nullptr ? std::string_view() : trimmed(*text);
  };
  const std::string_view user_text = text_of(first);
  if (user_text.empty()) return 0;
  // Positions of the text, in spans that may show the user's message. An array, because this runs after the commit of a
  // turn, where no allocation may fail.
  std::array<size_t, kMostOpeningSpans> places;
  size_t n_places = 0;
  size_t last = first;
  for (size_t i = 0; i < std::min(spans.size(), kMostOpeningSpans); ++i) {
    const TranscriptSpan& span = spans[i];
    if (span.first_message > first) break;
    if (span.origin != SpanOrigin::kInput) continue;
    last = std::max(last, span.last_message);
    // A long text is encoded in several spans, which are joined here.
    size_t end = i + 1;
    const auto shown = [&] {
      return trimmed(bytes.substr(span.byte_begin, spans[end - 1].byte_end - span.byte_begin));
    };
    while (shown().size() < user_text.size() && end < spans.size() && spans[end].origin == SpanOrigin::kInput) ++end;
    if (shown() == user_text) places[n_places++] = span.id_begin;
  }
  if (n_places == 0) return 0;
  size_t n_before = 0, n_equal = 0;  // messages with that text: number before the user's message, and total
  last = std::min({last, messages_.size() - 1, first + kMostOpeningSpans});
  for (size_t i = 0; i <= last; ++i) {
    if (text_of(i) != user_text) continue;
    n_before += i < first ? 1 : 0;
    ++n_equal;
  }
  return places[n_places == n_equal ? n_before : 0];
}

// Finds the answers in the plan's prompt. A render does not say which message a span of input shows, so this matches
// spans and message texts in order, from the end. It skips texts that the template does not show as a whole; a missing
// position only costs prefill.
BranchPoints Dialogue::branch_points(const PromptDelta& delta, size_t n_read) const {
  constexpr size_t kMostPassedBy = 4;
  BranchPoints found{.first_turn_boundary = first_turn_boundary(delta)};
  const std::vector<TranscriptSpan>& fresh = delta.patch.spans;
  const std::vector<TranscriptSpan>& known = transcript_.spans();
  const size_t n_known = transcript_.span_at(delta.patch.keep_bytes);
  const auto span_at = [&](size_t i) -> const TranscriptSpan& { return i < n_known ? known[i] : fresh[i - n_known]; };
  const auto shown_by = [&](size_t i) {
    const TranscriptSpan& span = span_at(i);
    const size_t begin = span.byte_begin - (i < n_known ? 0 : delta.patch.keep_bytes);
    const std::string_view bytes = i < n_known ? transcript_.bytes() : std::string_view(delta.patch.bytes);
    return trimmed(bytes.substr(begin, span.byte_end - span.byte_begin));
  };
  size_t n_messages = messages_.size();  // number of messages before the one that was matched last
  size_t end = delta.n_prompt;
  for (size_t i = n_known + fresh.size(); i > 0 && end > n_read; --i) {
    const TranscriptSpan& span = span_at(i - 1);
    const size_t span_end = std::exchange(end, span.id_begin);
    bool is_answer = span.origin == SpanOrigin::kSampled;
    if (is_answer) {
      n_messages = std::min(n_messages, span.first_message);
    } else if (span.origin == SpanOrigin::kInput) {
      const std::string_view shown = shown_by(i - 1);
      for (size_t m = n_messages; !shown.empty() && m > 0 && m + kMostPassedBy > n_messages; --m) {
        const std::string* text = content_of(messages_[m - 1]);
        if (text == nullptr || !trimmed(*text).ends_with(shown)) continue;
        is_answer = is_from(messages_[m - 1], Role::kAssistant);
        n_messages = m - 1;
        break;
      }
      // A long text is encoded in several spans. The last one was matched, so go back to the first one.
      for (; is_answer && i > 1 && span_at(i - 2).origin == SpanOrigin::kInput; --i) end = span_at(i - 2).id_begin;
    }
    if (!is_answer) continue;
    found.answers.push_back(span_end);
    found.answers.push_back(end);
  }
  std::ranges::reverse(found.answers);
  return found;
}

size_t Dialogue::n_bytes() const {
  constexpr size_t kPerMessage = 256;              // bytes of a message's object, keys and stamp
  constexpr size_t kPerId = 24 + sizeof(TokenId);  // bytes per token: SuffixIndex, and tokens of idle KV in the store
  return 2 * transcript_.n_bytes() + messages_.size() * kPerMessage + transcript_.ids().size() * kPerId +
         transcript_.n_heap_bytes();
}

// --- edits

Result<PendingEdit> Dialogue::edit_for(const TurnStart& start) const {
  const size_t n = messages_.size();
  const bool ends_in_answer = n > 0 && is_from(messages_.back(), Role::kAssistant);
  switch (start.kind) {
    case TurnStart::Kind::kSend: {
      TRY(check_text("the message", start.text));
      return PendingEdit::of(n, make_message(Role::kUser, std::string(start.text)));
    }
    case TurnStart::Kind::kAnswer: {
      if (!may_answer()) return {ErrorCode::kInvalidArgument, "no message awaits an answer"};
      return PendingEdit{.n_kept = n};
    }
    case TurnStart::Kind::kRegenerate: {
      if (!ends_in_answer) return {ErrorCode::kInvalidArgument, "there is no answer to generate again"};
      return PendingEdit{.n_kept = n - 1, .goes_back = true};
    }
    case TurnStart::Kind::kContinue: {
      if (!ends_in_answer) return {ErrorCode::kInvalidArgument, "there is no answer to continue"};
      if (messages_.back().contains("tool_calls")) {
        return {ErrorCode::kInvalidArgument, "an answer with tool calls cannot be continued: it awaits their results"};
      }
      return PendingEdit{.n_kept = n - 1, .continued = ContinuedAnswer{messages_.back(), n_numbered_ >= n}};
    }
    case TurnStart::Kind::kEdit: break;
  }
  TRY(check_text("the message", start.text));
  if (start.message >= n || !is_from(messages_[start.message], Role::kUser)) {
    return {ErrorCode::kInvalidArgument, "message " + std::to_string(start.message) + " is not a user message"};
  }
  PendingEdit edit = PendingEdit::of(start.message, make_message(Role::kUser, std::string(start.text)));
  edit.goes_back = true;
  return edit;
}

DialogueChange Dialogue::apply(PendingEdit edit) {
  const size_t n_kept = edit.n_kept;
  CHECK_LE(n_kept, messages_.size());
  if (n_kept < messages_.size() || !edit.added.empty() || edit.pinned || edit.system) planned_.reset();
  DialogueChange::Before before;
  before.n_kept = n_kept;
  before.n_numbered = n_numbered_;
  before.goes_back = goes_back_;
  before.pinned = pinned_;
  before.tail = messages_.replace_from(n_kept, std::move(edit.added));
  // Nothing below allocates.
  if (edit.pinned) {
    pinned_.swap(*edit.pinned);
  } else {
    pinned_.erase(pinned_.lower_bound(n_kept), pinned_.end());
  }
  if (edit.system) before.system = std::exchange(system_, *std::move(edit.system));
  n_numbered_ = std::min(n_numbered_, n_kept);
  goes_back_ |= edit.goes_back;
  return {*this, std::move(before)};
}

DialogueChange::~DialogueChange() {
  if (dialogue_ == nullptr) return;
  dialogue_->planned_.reset();
  dialogue_->messages_.put_back(before_.n_kept, std::move(before_.tail));
  dialogue_->pinned_.swap(before_.pinned);
  if (before_.system) dialogue_->system_.swap(*before_.system);
  dialogue_->n_numbered_ = before_.n_numbered;
  dialogue_->goes_back_ = before_.goes_back;
}

// --- plans

Result<PromptDelta> Dialogue::plan() {
  if (!planned_) return planner_.plan(messages_, transcript_);
  PromptDelta planned = *std::move(planned_);
  planned_.reset();
  return planned;
}

Result<PromptSize> Dialogue::measure(const ContextLimits& limits, WhenFull policy) {
  TRY_ASSIGN(TurnPlan plan, plan_within(limits, policy));
  const PromptSize size{plan.delta.n_prompt, transcript_.ids().size() - plan.delta.n_keep};
  if (!plan.fitted) planned_ = std::move(plan.delta);
  return size;
}

Result<TurnPlan> Dialogue::plan_within(const ContextLimits& limits, WhenFull policy) {
  TRY_ASSIGN(PromptDelta first, plan());
  const bool fits = first.n_prompt <= limits.max_tokens;
  if (fits && (policy == WhenFull::kError || leaves_an_answer(first.n_prompt, limits))) {
    return TurnPlan{std::move(first), {}};
  }
  if (policy == WhenFull::kError) return context_full(first.n_prompt, limits.max_tokens);

  TurnCost cost = first.cost;  // cost of the plans that did not fit
  const auto with = [](const Json& fewer, size_t first_changed) {
    const auto changed = fewer.begin() + static_cast<std::ptrdiff_t>(first_changed);
    return PendingEdit{.n_kept = first_changed, .added = std::vector<Json>(changed, fewer.end())};
  };
  const auto count_tokens = [&](const Json& fewer, size_t first_changed) -> Result<size_t> {
    const DialogueChange trial = apply(with(fewer, first_changed));
    TRY_ASSIGN(const PromptDelta delta, plan());
    cost += delta.cost;
    return delta.n_prompt;
  };
  const Json full = messages_.json();  // a copy: the trials change messages_
  Result<FittedMessages> fitted = fit_messages(policy, full, pinned_, limits, count_tokens);
  const bool is_shorter = fitted.ok() && fitted->left_out.any();
  if (!is_shorter && !fits) return fitted.ok() ? context_full(first.n_prompt, limits.max_tokens) : fitted.status();
  TurnPlan out;
  if (is_shorter) {
    out.left_out = fitted->left_out;
    PendingEdit edit = with(fitted->messages, fitted->first_changed);
    edit.pinned = std::move(fitted->pinned);
    out.fitted.emplace(apply(std::move(edit)));
  }
  TRY_ASSIGN(out.delta, plan());
  out.delta.cost += cost;
  return out;
}

Result<Tokens> Dialogue::prompt_ids(PendingEdit edit) {
  const std::optional<ContinuedAnswer> continued = std::move(edit.continued);
  const DialogueChange trial = apply(std::move(edit));
  if (continued) {
    TRY_ASSIGN(const TurnPlan planned, plan_continuing(*continued, {}));
    return PromptIds(planned.delta, transcript_).from(0);
  }
  TRY_ASSIGN(const PromptDelta delta, plan());
  return PromptIds(delta, transcript_).from(0);
}

Result<TurnPlan> Dialogue::plan_continuing(const ContinuedAnswer& answer, const ContextLimits& limits) {
  TurnPlan out;
  bool keeps_ids = false;
  if (answer.was_sampled) {
    Result<PromptDelta> before = plan();
    keeps_ids = before.ok() && planner_.continue_reply(transcript_, messages_.size(), *before);
    if (keeps_ids) out.delta = *std::move(before);
  }
  if (!keeps_ids) {
    Json tagged = answer.message;
    const std::string* content = content_of(tagged);
    if (content == nullptr || content->empty()) {
      return {ErrorCode::kInvalidArgument, "the answer has no text to continue"};
    }
    TRY_ASSIGN(const std::string before, append_continue_tag(tagged));
    const DialogueChange trial = apply(PendingEdit::of(messages_.size(), std::move(tagged)));
    TRY_ASSIGN(out.delta, planner_.plan_continuing(messages_, before, transcript_));
  }
  if (limits.max_tokens > 0 && out.delta.n_prompt > limits.max_tokens)
    return context_full(out.delta.n_prompt, limits.max_tokens);
  return out;
}

Result<AheadPrompt> Dialogue::plan_ahead(size_t n_read) {
  if (awaits_answer()) {
    TRY_ASSIGN(const PromptDelta delta, plan());
    return AheadPrompt{PromptIds(delta, transcript_).from(0), delta.n_keep, true, branch_points(delta, n_read)};
  }
  std::optional<AheadPrompt> certain;
  for (const char* text : kProbes) {
    const DialogueChange probe = apply(PendingEdit::of(messages_.size(), user_message(text)));
    TRY_ASSIGN(const PromptDelta delta, plan());
    Tokens ids = PromptIds(delta, transcript_).from(0);
    if (certain) {
      certain->ids.resize(common_prefix_length(certain->ids, ids));
    } else {
      certain = AheadPrompt{std::move(ids), delta.n_keep, false, branch_points(delta, n_read)};
    }
  }
  certain->n_transcript = std::min(certain->n_transcript, certain->ids.size());
  return *std::move(certain);
}

std::optional<size_t> Dialogue::n_tokens_that_stay() {
  const DialogueChange probe = apply(PendingEdit::of(messages_.size(), user_message(kProbes[0])));
  const Result<PromptDelta> delta = plan();
  if (!delta.ok()) return std::nullopt;
  return delta->n_keep;
}

// --- answers

// Renders the conversation with the answer, to find the answer's text in the next prompt. Each tool call gets a
// placeholder result, because a template may require one.
std::optional<std::string> Dialogue::shown_answer(const PromptDelta& delta, const SampledReply& reply,
                                                  const Json& message) {
  if (!reply.end_of_turn || reply.end_of_turn_text.empty()) return std::nullopt;
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return std::nullopt;
  PendingEdit answered = PendingEdit::of(messages_.size(), message);
  for (const Json& call : *calls) {
    Json result = make_message(Role::kTool, kProbes[0]);
    if (const std::string* id = text_member(call, "id")) result["tool_call_id"] = *id;
    if (call.contains("function")) {
      if (const std::string* name = text_member(call["function"], "name")) result["name"] = *name;
    }
    answered.added.push_back(std::move(result));
  }
  const DialogueChange probe = apply(std::move(answered));
  return planner_.shown_answer(messages_, delta, transcript_, reply.end_of_turn_text);
}

void Dialogue::append_answer(PromptDelta& delta, SampledReply reply, Json message) {
  planned_.reset();
  if (std::optional<std::string> shown = shown_answer(delta, reply, message)) reply.show_as(*std::move(shown));
  planner_.append_reply(delta, std::move(reply), messages_.size());
  transcript_.prepare(delta.patch);
  messages_.push_back(std::move(message));
  planner_.commit(std::move(delta), transcript_);
}

void Dialogue::settle(const Usage& usage, const Timings& timings) noexcept {
  goes_back_ = false;
  usage_ += usage;
  timings_ = timings;
  const size_t n_known = std::exchange(n_numbered_, messages_.size());
  if (n_known + 2 >= messages_.size()) return;  // no renumbering: only the answer and its question are new
  transcript_.renumber_replies(n_known, [this](std::string_view text, size_t first) -> std::optional<size_t> {
    for (size_t i = first; i < messages_.size(); ++i) {
      if (is_reply(messages_[i], text)) return i;
    }
    return std::nullopt;
  });
}

void Dialogue::replace_usage(const Usage& before, const Usage& now) noexcept {
  for (const auto& each : kUsageFields) usage_.*each.field = usage_.*each.field - before.*each.field + now.*each.field;
}

void Dialogue::restore(std::set<size_t> pinned, const Usage& usage) noexcept {
  n_numbered_ = messages_.size();
  pinned_.swap(pinned);
  usage_ = usage;
}

}  // namespace ibid
