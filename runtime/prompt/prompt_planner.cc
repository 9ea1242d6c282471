#include "runtime/prompt/prompt_planner.h"

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "runtime/prompt/plain_prompt.h"
#include "runtime/prompt/turn_meter.h"
#include "templates/message.h"

namespace ibid {
namespace {

bool is_shown_without_space(const Tokenizer& tokenizer, TokenId id) {
  const std::string_view written = tokenizer.token_bytes(id);
  return written.starts_with(' ') && tokenizer.first_token_bytes(id) == written.substr(1);
}

// Determines ReplySpace with at most three short renders; kNone if the template rejects them.
ReplySpace find_reply_space(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                            const TemplateVariables& variables) {
  // A reply's first token loses its space only if the tokenizer adds a space before every text. Test this with "x".
  const Tokens ids = tokenizer.encode("x", TextOrigin::kInput);
  if (ids.empty() || !is_shown_without_space(tokenizer, ids.front())) return ReplySpace::kNone;
  const Json question = make_message(Role::kUser, "x");
  TemplateVariables asked = variables;
  asked.values["add_generation_prompt"] = true;
  const Result<MarkedText> prompt = chat_template.render(Json::array({question}), asked);
  if (!prompt.ok()) return ReplySpace::kNone;
  asked.values["add_generation_prompt"] = false;
  // True if an answer is rendered as `text` after its prompt.
  const auto comes_back_as = [&](const char* answer, const char* text) {
    const Json reply = make_message(Role::kAssistant, answer);
    const Result<MarkedText> history = chat_template.render(Json::array({question, reply}), asked);
    return history.ok() && history->bytes().starts_with(prompt->bytes() + text);
  };
  if (!comes_back_as("y", " y")) return ReplySpace::kNone;
  return comes_back_as(" y", "  y") ? ReplySpace::kInFront : ReplySpace::kInPlace;
}

// If the template writes a space before a reply, and the reply's first token already contains this space, adds the
// space to the patch as text without tokens. Advances `mark`, the encoder's state at the end of the patch, past the
// space. Adds nothing if the space would change the tokens before it.
void append_reply_space(ReplySpace kind, const Tokenizer& tokenizer, const SampledReply& reply, size_t message,
                        TranscriptPatch& patch, EncoderMark& mark) {
  if (kind == ReplySpace::kNone || reply.ids.empty()) return;
  if (!is_shown_without_space(tokenizer, reply.ids.front())) return;
  const bool begins_with_space = std::string_view(reply.text).find_first_not_of(" \n\t\r") != 0;
  if (kind == ReplySpace::kInPlace && begins_with_space) return;
  EncoderMark after = mark;
  IncrementalEncoder::Delta delta = after.encoder.append(" ", TextOrigin::kTemplate);
  const size_t n_tokens = patch.keep_ids + patch.ids.size();
  if (after.base + delta.keep != n_tokens || mark.n_stable != n_tokens) return;
  after.tail = std::move(delta.tokens);
  TranscriptSpan space;
  space.origin = SpanOrigin::kTemplate;
  space.byte_begin = patch.keep_bytes + patch.bytes.size();
  space.byte_end = space.byte_begin + 1;
  space.id_begin = n_tokens;
  space.first_message = space.last_message = message;
  space.mark = std::exchange(mark, std::move(after));
  patch.bytes += ' ';
  patch.spans.push_back(std::move(space));
}

}  // namespace

PromptPlanner::PromptPlanner(const Tokenizer& tokenizer, const ChatTemplate& chat_template, TemplateVariables variables,
                             Clock& clock)
    : tokenizer_(&tokenizer),
      clock_(&clock),
      renderer_(std::in_place, chat_template, variables),
      reply_space_(find_reply_space(tokenizer, chat_template, variables)) {}

PromptPlanner::PromptPlanner(const Tokenizer& tokenizer, Clock& clock) : tokenizer_(&tokenizer), clock_(&clock) {}

void PromptPlanner::set_variables(const ChatTemplate& chat_template, TemplateVariables variables) {
  if (!renderer_) return;
  const ReplySpace reply_space = find_reply_space(*tokenizer_, chat_template, variables);
  renderer_ = ConversationRenderer(chat_template, std::move(variables));
  reply_space_ = reply_space;
  forget();
}

void PromptPlanner::append_reply(PromptDelta& delta, SampledReply reply, size_t message) const {
  if (!delta.n_continued) append_reply_space(reply_space_, *tokenizer_, reply, message, delta.patch, *delta.end);
  ibid::append_reply(delta.patch, std::move(reply), message, *std::move(delta.end));
}

// After std::bad_alloc common_bytes_ and tail_ may describe an older render than the renderer's last one, so this drops
// the last render.
template <typename Body>
auto PromptPlanner::or_forget(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    forget();
    throw;
  }
}

Result<PromptDelta> PromptPlanner::plan(const MessageList& messages, const Transcript& transcript) {
  return or_forget(
      [&] { return renderer_ ? plan_render(messages, std::nullopt, transcript) : plan_plain(messages, transcript); });
}

Result<PromptDelta> PromptPlanner::plan_continuing(const MessageList& tagged, std::string_view content,
                                                   const Transcript& transcript) {
  if (!renderer_) return {ErrorCode::kInvalidArgument, "a text without a template has no answer to continue"};
  return or_forget([&] { return plan_render(tagged, content, transcript); });
}

Result<PromptDelta> PromptPlanner::plan_plain(const MessageList& messages, const Transcript& transcript) {
  TurnMeter meter(*clock_);
  PromptDelta delta;
  {
    const Stopwatch watch = meter.time(&Timings::tokenize_ms);
    TRY_ASSIGN(delta, plan_plain_prompt(*tokenizer_, messages.json(), transcript));
  }
  delta.number = ++n_plans_;
  delta.cost += meter.cost();
  return delta;
}

Result<PromptDelta> PromptPlanner::plan_render(const MessageList& messages, std::optional<std::string_view> continued,
                                               const Transcript& transcript) {
  TurnMeter meter(*clock_);
  {
    const Stopwatch watch = meter.time(&Timings::render_ms);
    TRY_ASSIGN(const ConversationRenderer::Delta rendered, render(messages, !continued));
    meter.work().messages_rendered += rendered.messages_rendered;
    meter.work().bytes_rendered += rendered.bytes_rendered;
  }
  PromptDelta delta;
  is_ahead_ = continued.has_value();  // the render of a continued answer is longer than the plan's prompt
  {
    const Stopwatch watch = meter.time(&Timings::tokenize_ms);
    if (continued) {
      TRY_ASSIGN(const ContinuedText text, cut_at_continue_tag(tail_, *continued));
      delta = plan_prompt(*tokenizer_, transcript, common_bytes_, text.text, messages.size());
      delta.n_continued = text.n_content;
    } else {
      delta = plan_prompt(*tokenizer_, transcript, common_bytes_, tail_, messages.size());
      // These assignments describe the same render in another way: the transcript up to tail_begin, then the tail. So
      // nothing has to be undone if the plan is dropped.
      tail_ = delta.tail;
      common_bytes_ = delta.tail_begin;
    }
  }
  delta.number = ++n_plans_;
  delta.cost += meter.cost();
  if (delta.n_prompt == 0) {
    return {ErrorCode::kInvalidArgument,
            "the chat template rendered an empty prompt from " + std::to_string(messages.size()) + " messages"};
  }
  return delta;
}

void PromptPlanner::commit(PromptDelta delta, Transcript& transcript) {
  CHECK_EQ(delta.number, n_plans_) << "the plan must be the last one";
  transcript.apply(std::move(delta.patch));
  if (std::exchange(is_ahead_, false)) return;  // common_bytes_ and tail_ already describe the last render
  common_bytes_ = delta.n_bytes;
  tail_.clear();
}

void PromptPlanner::forget() noexcept {
  if (renderer_) renderer_->forget();
  common_bytes_ = 0;
  tail_.clear();
  rendered_.clear();
  is_ahead_ = false;
}

Result<ConversationRenderer::Delta> PromptPlanner::render(const MessageList& messages, bool add_generation_prompt) {
  const size_t n_unchanged = n_common_messages(rendered_, messages.stamps());
  TRY_ASSIGN(ConversationRenderer::Delta rendered,
             renderer_->render(messages.json(), n_unchanged, add_generation_prompt));
  const size_t equal_bytes = std::min(rendered.keep_bytes, common_bytes_);
  MarkedText text;
  text.append(tail_, 0, rendered.keep_bytes - equal_bytes);
  text.append(rendered.text);
  tail_ = std::move(text);
  common_bytes_ = equal_bytes;
  rendered_.resize(n_unchanged);
  rendered_.insert(rendered_.end(), messages.stamps().begin() + static_cast<std::ptrdiff_t>(n_unchanged),
                   messages.stamps().end());
  return rendered;
}

std::optional<std::string> PromptPlanner::shown_answer(const MessageList& messages, const PromptDelta& delta,
                                                       const Transcript& transcript, std::string_view end_of_turn) {
  CHECK_EQ(delta.number, n_plans_) << "the plan must be the last one";
  CHECK(!is_ahead_ || delta.n_continued) << "the plan's prompt must be the last render";
  if (!renderer_ || delta.n_continued) return std::nullopt;
  return or_forget([&] { return shown_answer(messages, transcript, end_of_turn); });
}

std::optional<std::string> PromptPlanner::shown_answer(const MessageList& messages, const Transcript& transcript,
                                                       std::string_view end_of_turn) {
  const size_t n_common = common_bytes_;
  const std::string prompt_tail = tail_.bytes();
  if (!render(messages).ok()) return std::nullopt;
  is_ahead_ = true;
  // `prompt`: the planned prompt from the new common_bytes_ on; the new render's tail must begin with it.
  std::string prompt(transcript.bytes().substr(common_bytes_, n_common - common_bytes_));
  prompt += prompt_tail;
  const std::string_view text = tail_.view();
  if (!text.starts_with(prompt)) return std::nullopt;
  for (size_t end = text.find(end_of_turn, prompt.size()); end != text.npos; end = text.find(end_of_turn, end + 1)) {
    if (tail_.origin_at(end) != TextOrigin::kTemplate) continue;  // here a message contains the text of end_of_turn
    return std::string(text.substr(prompt.size(), end - prompt.size()));
  }
  return std::nullopt;
}

}  // namespace ibid
