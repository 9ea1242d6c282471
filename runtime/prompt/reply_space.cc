#include "runtime/prompt/reply_space.h"

#include <string>
#include <string_view>
#include <utility>

#include "templates/chat_template.h"
#include "templates/message.h"

namespace ibid {
namespace {

bool is_shown_without_space(const Tokenizer& tokenizer, TokenId id) {
  const std::string_view written = tokenizer.token_bytes(id);
  return written.starts_with(' ') && tokenizer.first_token_bytes(id) == written.substr(1);
}

}  // namespace

ReplySpace find_reply_space(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                            const TemplateVariables& variables) {
  // A tokenizer drops a space before a reply only if it also adds one before texts, which this encoding shows.
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

void append_reply_space(ReplySpace kind, const Tokenizer& tokenizer, const SampledReply& reply, size_t message,
                        TranscriptPatch& patch, EncoderMark& mark) {
  if (kind == ReplySpace::kNone || reply.ids.empty()) return;
  if (!is_shown_without_space(tokenizer, reply.ids.front())) return;
  const bool begins_with_space = std::string_view(reply.text).find_first_not_of(" \n\t\r") != 0;
  if (kind == ReplySpace::kInPlace && begins_with_space) return;
  EncoderMark behind = mark;
  IncrementalEncoder::Delta delta = behind.encoder.append(" ", TextOrigin::kTemplate);
  const size_t n_ids = patch.keep_ids + patch.ids.size();
  if (behind.base + delta.keep != n_ids || mark.n_stable != n_ids) return;
  behind.tail = std::move(delta.tokens);
  TranscriptSpan space;
  space.origin = SpanOrigin::kTemplate;
  space.byte_begin = patch.keep_bytes + patch.bytes.size();
  space.byte_end = space.byte_begin + 1;
  space.id_begin = n_ids;
  space.first_message = space.last_message = message;
  space.mark = std::exchange(mark, std::move(behind));
  patch.bytes += ' ';
  patch.spans.push_back(std::move(space));
}

}  // namespace ibid
