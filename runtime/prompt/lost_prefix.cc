#include "runtime/prompt/lost_prefix.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "base/utf8.h"
#include "templates/message.h"

namespace ibid {
namespace {

constexpr size_t kExcerptBytes = 40;
// Number of bytes before and after the difference in which a cause is searched.
constexpr size_t kNearBytes = 200;

std::string excerpt(std::string_view text) { return utf8_sanitize(text.substr(0, kExcerptBytes)); }

// Returns the number of the message whose rendering contains the byte. A span of the transcript may show several
// messages: returns the first of these whose content ends after the byte.
size_t message_at(const Transcript& transcript, const Json& messages, size_t byte) {
  const std::vector<TranscriptSpan>& spans = transcript.spans();
  if (spans.empty()) return 0;
  size_t i = std::min(transcript.span_at(byte), spans.size() - 1);
  const TranscriptSpan& span = spans[i];
  while (i > 0 && spans[i - 1].first_message == span.first_message) --i;
  size_t cursor = spans[i].byte_begin;
  for (size_t m = span.first_message; m < span.last_message && m < messages.size(); ++m) {
    const std::string* text = content_of(messages[m]);
    if (text == nullptr) return m;
    const size_t found = transcript.bytes().find(*text, cursor);
    if (found == std::string_view::npos || byte < found + text->size()) return m;
    cursor = found + text->size();
  }
  return span.last_message;
}

std::string token_text(const Tokens& ids, size_t i, const Tokenizer& tokenizer) {
  return i < ids.size() ? excerpt(tokenizer.token_bytes(ids[i])) : std::string();
}

bool has_any(std::string_view text, std::span<const std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return text.find(word) != text.npos; });
}

// True for a year, a time of day, or the name of a month.
bool mentions_date(std::string_view text) {
  static constexpr std::array<std::string_view, 15> kWords = {"January",  "February", "March",  "April",     "May ",
                                                              "June",     "July",     "August", "September", "October",
                                                              "November", "December", "today",  "Today",     "Date"};
  const auto is_digit = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  for (size_t i = 0; i + 4 <= text.size(); ++i) {
    const bool year = (text.substr(i, 2) == "19" || text.substr(i, 2) == "20") && is_digit(i + 2) && is_digit(i + 3);
    const bool time = is_digit(i) && is_digit(i + 1) && text[i + 2] == ':' && is_digit(i + 3);
    if (year || time) return true;
  }
  return has_any(text, kWords);
}

// The line around `at`, at most kNearBytes to either side.
std::string_view line_around(std::string_view text, size_t at) {
  at = std::min(at, text.size());
  const size_t least = saturating_sub(at, kNearBytes);
  const size_t before = at == 0 ? text.npos : text.rfind('\n', at - 1);
  const size_t begin = before == text.npos || before < least ? least : before + 1;
  const size_t end = std::min(text.find('\n', at), at + kNearBytes);
  return text.substr(begin, end - begin);
}

// The first difference, at `byte` of `was`; the new text is equal up to there and continues with `now`.
struct Difference {
  std::string_view was;
  size_t byte = 0;
  std::string_view now;
};

// True if the new text shows the message's content at the difference. The origin of the text does not tell this,
// because templates render variables as input too.
bool is_inside(const Json& message, const Difference& d) {
  const std::string* content = content_of(message);
  if (content == nullptr) return true;
  const std::string& text = *content;
  const size_t begin = saturating_sub(d.byte, text.size());
  const std::string around =
      std::string(d.was.substr(begin, d.byte - begin)) + std::string(d.now.substr(0, text.size() + 1));
  const size_t found = around.rfind(text);
  return found != std::string::npos && found <= d.byte - begin && d.byte - begin <= found + text.size();
}

LostCause guess_cause(const Difference& d, const Json& message) {
  static constexpr std::array<std::string_view, 3> kThinking = {"<think>", "</think>", "<|channel|>"};
  static constexpr std::array<std::string_view, 4> kTools = {"tool", "function", "\"parameters\"", "\"description\""};
  const auto near = [](std::string_view text) { return text.substr(0, kNearBytes); };
  if (has_any(near(d.was.substr(d.byte)), kThinking) != has_any(near(d.now), kThinking)) {
    return LostCause::kThinkingRemoved;
  }
  if (is_inside(message, d)) return LostCause::kMessageChanged;
  const std::string_view line = line_around(d.was, d.byte);
  if (mentions_date(line)) return LostCause::kDateChanged;
  return has_any(line, kTools) ? LostCause::kToolsChanged : LostCause::kTemplate;
}

}  // namespace

std::string_view lost_cause_text(LostCause cause) {
  switch (cause) {
    case LostCause::kMessageChanged: return "the message was changed";
    case LostCause::kThinkingRemoved: return "the template no longer shows its thinking";
    case LostCause::kDateChanged: return "a date changed";
    case LostCause::kToolsChanged: return "the tools changed, or their order";
    case LostCause::kTemplate: return "the template's output changed there";
    case LostCause::kOtherTokens: return "the same text was encoded to other tokens";
    case LostCause::kStateGone: return "the recurrent state after them is not stored";
    case LostCause::kWindowGone: return "keys and values of a sliding window were evicted";
  }
  return "unknown";
}

bool is_missing_rows(LostCause cause) { return cause == LostCause::kStateGone || cause == LostCause::kWindowGone; }

std::string LostPrefix::to_string() const {
  if (is_missing_rows(cause)) {
    return std::to_string(n_tokens) + " cached tokens are prefilled again, from token " + std::to_string(token) +
           " in message " + std::to_string(message) + " on: " + std::string(lost_cause_text(cause));
  }
  const std::string why = std::to_string(n_tokens) + " cached tokens were lost in message " + std::to_string(message) +
                          ": " + std::string(lost_cause_text(cause));
  if (was.empty() && now.empty() && was_token.empty() && now_token.empty()) {  // a server has removed the texts
    return why + " (byte " + std::to_string(byte) + ", token " + std::to_string(token) + ")";
  }
  return why + " (byte " + std::to_string(byte) + " was \"" + was + "\", is \"" + now + "\"; token " +
         std::to_string(token) + " was \"" + was_token + "\", is \"" + now_token + "\")";
}

LostPrefix explain_lost_prefix(const PromptDelta& delta, const Transcript& transcript, const Json& messages,
                               const Tokenizer& tokenizer, size_t n_held) {
  std::string now = delta.tail.bytes();
  // Encoding may restart before the first differing byte.
  const std::string_view was = transcript.bytes().substr(delta.tail_begin);
  const size_t n = std::min(was.size(), now.size());
  size_t n_equal = static_cast<size_t>(
      std::mismatch(was.begin(), was.begin() + static_cast<std::ptrdiff_t>(n), now.begin()).first - was.begin());
  const bool same_text = n_equal == n;
  if (same_text) n_equal = delta.differs_at - delta.tail_begin;  // only the origin (template or message) differs

  LostPrefix lost;
  lost.n_tokens = saturating_sub(n_held, delta.n_keep);
  lost.byte = delta.tail_begin + n_equal;
  lost.token = delta.n_keep;
  lost.message = message_at(transcript, messages, lost.byte);
  lost.was = excerpt(was.substr(n_equal));
  lost.now = excerpt(std::string_view(now).substr(n_equal));
  lost.was_token = token_text(transcript.ids(), delta.n_keep, tokenizer);
  const size_t in_patch = saturating_sub(delta.n_keep, delta.patch.keep_ids);
  lost.now_token = token_text(delta.patch.ids, in_patch, tokenizer);
  const Difference difference{transcript.bytes(), std::min(lost.byte, transcript.n_bytes()),
                              std::string_view(now).substr(n_equal)};
  const Json none = Json::object();
  lost.cause = same_text ? LostCause::kOtherTokens
                         : guess_cause(difference, lost.message < messages.size() ? messages[lost.message] : none);
  return lost;
}

LostPrefix explain_missing_rows(LostCause cause, size_t n_tokens, size_t n_found, const Transcript& transcript,
                                const Json& messages) {
  const std::vector<TranscriptSpan>& spans = transcript.spans();
  const auto after = std::ranges::upper_bound(spans, n_found, {}, &TranscriptSpan::id_begin);
  LostPrefix lost;
  lost.cause = cause;
  lost.n_tokens = n_tokens;
  lost.token = n_found;
  lost.byte = after == spans.begin() ? 0 : std::prev(after)->byte_begin;
  lost.message = message_at(transcript, messages, lost.byte);
  return lost;
}

}  // namespace ibid
