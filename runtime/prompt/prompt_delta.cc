#include "runtime/prompt/prompt_delta.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/token_prefix.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

namespace ibid {
namespace {

// In long message texts the encoder's state is saved at this interval (EncoderMark), so that little text is encoded
// again after an edit in the middle.
constexpr size_t kBytesPerMark = 4096;

// Sampled text matches text of any origin, because the template may write parts of a reply itself ("<think>").
bool same_origin(SpanOrigin there, TextOrigin here) {
  if (there == SpanOrigin::kSampled) return true;
  return (there == SpanOrigin::kInput) == (here == TextOrigin::kInput);
}

struct Comparison {
  // The first byte that differs from the transcript, or the end of the shorter one. The token that ended a reply
  // matches as a whole or not at all.
  size_t differs_at = 0;
  // Where encoded text equals the transcript's but has another origin (template or message): the first byte of each
  // such run, ascending. For example, "assistant" is template text in the generation prompt, and later the role of the
  // message.
  std::vector<size_t> relabelled;
  size_t bytes_compared = 0;
};

Comparison compare(const Transcript& transcript, size_t begin, const MarkedText& text) {
  const std::vector<TranscriptSpan>& spans = transcript.spans();
  Comparison out{begin, {}, 0};
  size_t& position = out.differs_at;
  size_t i = transcript.span_at(begin);
  for (const MarkedText::Run run : text.runs()) {
    size_t done = 0;
    while (done < run.bytes.size()) {
      while (i < spans.size() && spans[i].byte_end == position) ++i;
      if (i == spans.size()) return out;
      const bool is_end = spans[i].origin == SpanOrigin::kEndOfTurn;
      const bool same = same_origin(spans[i].origin, run.origin);
      const size_t n = is_end && !same ? 0 : std::min(run.bytes.size() - done, spans[i].byte_end - position);
      const char* there = transcript.bytes().data() + position;
      const auto equal = static_cast<size_t>(std::mismatch(there, there + n, run.bytes.data() + done).first - there);
      out.bytes_compared += equal + 1;
      if (equal > 0 && !same) out.relabelled.push_back(position);
      done += equal;
      position += equal;
      if (position < spans[i].byte_end && done < run.bytes.size()) {
        if (is_end) position = spans[i].byte_begin;
        return out;
      }
    }
  }
  i = transcript.span_at(position);
  if (i < spans.size() && spans[i].origin == SpanOrigin::kEndOfTurn) position = spans[i].byte_begin;
  return out;
}

// Returns `byte`, or the beginning of the reply that contains it. A changed reply is taken from the new render as a
// whole, because a control token of the template may begin like the reply ("<" of "</think>").
size_t reply_begin(const Transcript& transcript, size_t byte) {
  const size_t i = transcript.span_at(byte);
  if (i == transcript.spans().size() || transcript.spans()[i].origin != SpanOrigin::kSampled) return byte;
  return std::min(byte, transcript.spans()[i].byte_begin);
}

// Position where encoding restarts.
struct Restart {
  size_t byte = 0;
  EncoderMark mark;
  bool needs_special = false;  // valid only if the text from `byte` on begins with a special token
};

// Returns a new encoder for text after the first n_tokens tokens. After a special token the encoder begins a text, with
// the prefix that the tokenizer adds to texts; after other tokens it continues a text.
EncoderMark fresh_mark(const Tokenizer& tokenizer, const Transcript& transcript, size_t n_tokens) {
  const bool after_text = n_tokens > 0 && !tokenizer.is_special(transcript.ids()[n_tokens - 1]);
  return {IncrementalEncoder(tokenizer, {.at_start = n_tokens == 0, .after_text = after_text}), n_tokens, n_tokens, {}};
}

// Returns the encoder's state before spans[i], the span after a reply.
EncoderMark mark_after_reply(const Tokenizer& tokenizer, const Transcript& transcript, size_t i) {
  CHECK(i > 0) << "a conversation begins with text";
  const TranscriptSpan& before = transcript.spans()[i - 1];
  // If the reply has no tokens, the text after it continues the text before it.
  if (before.token_ends.empty() && before.mark) return *before.mark;
  const size_t n_tokens = i < transcript.spans().size() ? transcript.spans()[i].id_begin : transcript.ids().size();
  return fresh_mark(tokenizer, transcript, n_tokens);
}

// Returns the first reply without text that is at `byte`, or nullptr. Such a reply has only special tokens, so byte
// positions do not tell whether the reply is before or after `byte`.
const TranscriptSpan* textless_reply_at(const Transcript& transcript, size_t byte) {
  const std::vector<TranscriptSpan>& spans = transcript.spans();
  const TranscriptSpan* first = nullptr;
  for (size_t i = transcript.span_at(byte); i > 0 && spans[i - 1].byte_begin == byte; --i) {
    if (spans[i - 1].origin == SpanOrigin::kSampled) first = &spans[i - 1];
  }
  return first;
}

// True if tokens [begin, begin + n) end in the middle of a character, which the next token continues.
bool leave_open(const Tokenizer& tokenizer, const Transcript& transcript, size_t begin, size_t n) {
  StreamDecoder decoder(tokenizer);
  for (const TokenId id : TokenSpan(transcript.ids()).subspan(begin, n)) decoder.push(id);
  return decoder.is_open();
}

// Returns where encoding must restart if the text changes from `byte` on. is_end: the prompt ends at `byte`, so it asks
// for a new reply, and a reply without text at `byte` does not stay.
Restart restart_at(const Tokenizer& tokenizer, const Transcript& transcript, size_t byte, bool is_end) {
  if (transcript.empty()) return {0, fresh_mark(tokenizer, transcript, 0)};
  if (const TranscriptSpan* reply = textless_reply_at(transcript, byte); is_end && reply != nullptr) {
    return {byte, *reply->mark};
  }
  const size_t i = transcript.span_at(byte);
  if (i == transcript.spans().size()) return {byte, mark_after_reply(tokenizer, transcript, i)};
  const TranscriptSpan& span = transcript.spans()[i];
  if (span.origin == SpanOrigin::kEndOfTurn) return {byte, mark_after_reply(tokenizer, transcript, i)};
  if (span.origin == SpanOrigin::kSampled && byte > span.byte_begin) {
    const auto end = std::lower_bound(span.token_ends.begin(), span.token_ends.end(), byte);
    const size_t n_tokens = static_cast<size_t>(end - span.token_ends.begin()) + 1;
    if (end != span.token_ends.end() && *end == byte && !leave_open(tokenizer, transcript, span.id_begin, n_tokens)) {
      return {byte, fresh_mark(tokenizer, transcript, span.id_begin + n_tokens), true};
    }
  }
  CHECK(span.mark.has_value()) << "an encoded span must have a mark, at byte " << span.byte_begin;
  return {span.byte_begin, *span.mark};
}

// True if only white space was cut off the reply in which the prompt first differs, and the template continues there.
bool only_trimmed(const Transcript& transcript, const PromptDelta& delta) {
  const size_t end = transcript.spans()[transcript.span_at(delta.differs_at)].byte_end;
  const std::string_view cut_off = transcript.bytes().substr(delta.differs_at, end - delta.differs_at);
  if (cut_off.find_first_not_of(" \n\t\r") != cut_off.npos) return false;
  size_t position = delta.tail_begin;
  for (const MarkedText::Run run : delta.tail.runs()) {
    position += run.bytes.size();
    if (position > delta.differs_at) return run.origin == TextOrigin::kTemplate;
  }
  return false;
}

// Encodes the new text from the position of a Restart on, into a patch of the transcript.
class PatchEncoder {
 public:
  PatchEncoder(const Transcript& transcript, const Restart& restart)
      : transcript_(transcript), encoder_(restart.mark.encoder), base_(restart.mark.base) {
    patch_.keep_bytes = restart.byte;
    patch_.keep_ids = restart.mark.n_stable;
    patch_.ids = restart.mark.tail;
  }

  void append(MarkedText::Run run, size_t first_message, size_t last_message) {
    for (size_t begin = 0; begin < run.bytes.size();) {
      const std::string_view piece = run.bytes.substr(begin, piece_length(run, begin));
      TranscriptSpan span;
      span.origin = run.origin == TextOrigin::kTemplate ? SpanOrigin::kTemplate : SpanOrigin::kInput;
      span.byte_begin = patch_.keep_bytes + patch_.bytes.size();
      span.byte_end = span.byte_begin + piece.size();
      span.id_begin = n_tokens();
      span.first_message = first_message;
      span.last_message = last_message;
      span.mark = mark();
      patch_.spans.push_back(std::move(span));
      patch_.bytes += piece;
      take(encoder_.append(piece, run.origin));
      begin += piece.size();
    }
  }

  size_t n_tokens() const { return patch_.keep_ids + patch_.ids.size(); }
  EncoderMark mark() const { return {encoder_, base_, n_tokens(), {}}; }
  size_t bytes_encoded() const { return encoder_.bytes_encoded(); }
  TranscriptPatch patch() && { return std::move(patch_); }

 private:
  static size_t piece_length(MarkedText::Run run, size_t begin) {
    const size_t left = run.bytes.size() - begin;
    // Template text has special tokens, which must not be split.
    if (run.origin == TextOrigin::kTemplate || left <= kBytesPerMark) return left;
    return kBytesPerMark - utf8_incomplete_tail(run.bytes.substr(begin, kBytesPerMark));
  }

  void take(const IncrementalEncoder::Delta& delta) {
    const size_t keep = base_ + delta.keep;
    if (keep < patch_.keep_ids) {
      const auto ids = transcript_.ids().begin();
      patch_.ids.insert(patch_.ids.begin(), ids + static_cast<std::ptrdiff_t>(keep),
                        ids + static_cast<std::ptrdiff_t>(patch_.keep_ids));
      patch_.keep_ids = keep;
    }
    for (size_t i = patch_.spans.size(); i-- > 0 && patch_.spans[i].mark->n_stable > keep;) {
      patch_.spans[i].mark->forget_from(keep, patch_.ids, patch_.keep_ids);
    }
    patch_.ids.resize(keep - patch_.keep_ids);
    patch_.ids.insert(patch_.ids.end(), delta.tokens.begin(), delta.tokens.end());
  }

  const Transcript& transcript_;
  IncrementalEncoder encoder_;
  size_t base_;
  TranscriptPatch patch_;
};

// Makes one plan: `text` begins at byte `begin` of the new prompt; the bytes before it are the transcript's.
class Planning {
 public:
  Planning(const Tokenizer& tokenizer, const Transcript& transcript, size_t begin, const MarkedText& text)
      : tokenizer_(tokenizer), transcript_(transcript), begin_(begin), text_(text) {}

  PromptDelta plan(size_t n_messages) && {
    delta_.n_bytes = begin_ + text_.size();
    const Comparison comparison = compare(transcript_, begin_, text_);
    work_.bytes_compared += comparison.bytes_compared;
    delta_.differs_at = first_difference(comparison);
    delta_.tail_begin = reply_begin(transcript_, delta_.differs_at);
    if (delta_.tail_begin < begin_) delta_.tail = transcript_.marked_text(delta_.tail_begin, begin_);
    delta_.tail.append(text_, std::max(delta_.tail_begin, begin_) - begin_);
    encode(n_messages);
    return std::move(delta_);
  }

 private:
  // The new prompt may have the same text with other origins (template or message). True if this does not change the
  // tokens from the encoder mark before `byte` up to the reply at spans[reply].
  bool same_ids(size_t byte, size_t reply) {
    const TranscriptSpan& span = transcript_.spans()[transcript_.span_at(byte)];
    const size_t end = transcript_.spans()[reply].byte_begin;
    MarkedText relabelled = transcript_.marked_text(span.byte_begin, std::max(span.byte_begin, begin_));
    relabelled.append(text_, std::max(span.byte_begin, begin_) - begin_, end - begin_);
    PatchEncoder encoder(transcript_, {span.byte_begin, *span.mark});
    for (const MarkedText::Run run : relabelled.runs()) encoder.append(run, 0, 0);
    work_.bytes_tokenized += encoder.bytes_encoded() - span.mark->encoder.bytes_encoded();
    const TranscriptPatch patch = std::move(encoder).patch();
    const size_t n_tokens = transcript_.spans()[reply].id_begin;
    work_.tokens_compared += patch.ids.size();
    return patch.keep_ids + patch.ids.size() == n_tokens &&
           std::equal(patch.ids.begin(), patch.ids.end(),
                      transcript_.ids().begin() + static_cast<std::ptrdiff_t>(patch.keep_ids));
  }

  // Returns comparison.differs_at, or an earlier byte at which equal text has another origin (template or message) that
  // changes tokens.
  size_t first_difference(const Comparison& comparison) {
    const std::vector<TranscriptSpan>& spans = transcript_.spans();
    size_t checked = 0;
    for (const size_t byte : comparison.relabelled) {
      if (byte < checked) continue;
      size_t reply = transcript_.span_at(byte);
      while (reply < spans.size() && spans[reply].origin != SpanOrigin::kSampled) ++reply;
      // No unchanged reply follows this text, so the text is encoded again from here.
      if (reply == spans.size() || spans[reply].byte_begin >= comparison.differs_at) return byte;
      if (!same_ids(byte, reply)) return byte;
      checked = spans[reply].byte_begin;
    }
    return comparison.differs_at;
  }

  void encode(size_t n_messages) {
    Restart restart = restart_at(tokenizer_, transcript_, delta_.differs_at, delta_.tail.empty());
    encode_from(restart, n_messages);
    if (restart.needs_special && !only_trimmed(transcript_, delta_) &&
        (delta_.patch.ids.empty() || !tokenizer_.is_special(delta_.patch.ids.front()))) {
      const TranscriptSpan& reply = transcript_.spans()[transcript_.span_at(delta_.differs_at)];
      restart = {reply.byte_begin, *reply.mark};
      encode_from(restart, n_messages);
    }
    delta_.n_prompt = delta_.patch.keep_ids + delta_.patch.ids.size();
    const TokenSpan held = TokenSpan(transcript_.ids()).subspan(delta_.patch.keep_ids);
    const size_t n_equal = common_prefix_length(held, delta_.patch.ids);
    work_.tokens_compared += n_equal + 1;
    delta_.n_keep = delta_.patch.keep_ids + n_equal;
  }

  // Encodes the prompt from the restart on; sets the plan's patch and end.
  void encode_from(const Restart& restart, size_t n_messages) {
    MarkedText text = transcript_.marked_text(restart.byte, delta_.tail_begin);
    text.append(delta_.tail, std::max(restart.byte, delta_.tail_begin) - delta_.tail_begin);
    const size_t i = transcript_.span_at(restart.byte);
    size_t first_message = 0;
    if (i < transcript_.spans().size()) {
      first_message = transcript_.spans()[i].first_message;
    } else if (i > 0) {
      first_message = transcript_.spans()[i - 1].last_message + 1;
    }
    PatchEncoder encoder(transcript_, restart);
    for (const MarkedText::Run run : text.runs()) encoder.append(run, first_message, n_messages - 1);
    work_.bytes_tokenized += encoder.bytes_encoded() - restart.mark.encoder.bytes_encoded();
    delta_.end = encoder.mark();
    delta_.patch = std::move(encoder).patch();
  }

  const Tokenizer& tokenizer_;
  const Transcript& transcript_;
  const size_t begin_;
  const MarkedText& text_;
  PromptDelta delta_;
  WorkCounters& work_ = delta_.cost.work;
};

}  // namespace

size_t PromptIds::n_common(TokenSpan ids, size_t n_known) const {
  const TokenSpan kept = TokenSpan(transcript_.ids()).first(delta_.patch.keep_ids);
  size_t n = std::min(n_known, ids.size());
  if (n < kept.size()) n += common_prefix_length(ids.subspan(n), kept.subspan(n));
  if (n < kept.size()) return n;
  return n + common_prefix_length(ids.subspan(n), TokenSpan(delta_.patch.ids).subspan(n - kept.size()));
}

Tokens PromptIds::from(size_t begin) const {
  const TranscriptPatch& patch = delta_.patch;
  Tokens out;
  if (begin < patch.keep_ids) {
    const auto ids = transcript_.ids().begin();
    out.assign(ids + static_cast<std::ptrdiff_t>(begin), ids + static_cast<std::ptrdiff_t>(patch.keep_ids));
  }
  const size_t skip = std::max(begin, patch.keep_ids) - patch.keep_ids;
  out.insert(out.end(), patch.ids.begin() + static_cast<std::ptrdiff_t>(skip), patch.ids.end());
  return out;
}

PromptDelta plan_prompt(const Tokenizer& tokenizer, const Transcript& transcript, size_t begin, const MarkedText& text,
                        size_t n_messages) {
  return Planning(tokenizer, transcript, begin, text).plan(n_messages);
}

bool continue_reply(const Tokenizer& tokenizer, const Transcript& transcript, size_t message, PromptDelta& delta) {
  if (delta.n_keep < delta.n_prompt) return false;
  const auto is_reply = [&](const TranscriptSpan& span) {
    return span.origin == SpanOrigin::kSampled && span.id_begin == delta.n_prompt && span.first_message == message;
  };
  const auto& spans = transcript.spans();
  const auto reply = std::find_if(spans.rbegin(), spans.rend(), is_reply);  // the last reply is near the end
  if (reply == spans.rend()) return false;
  size_t n_tokens = reply->token_ends.size();
  while (n_tokens > 0 && leave_open(tokenizer, transcript, reply->id_begin, n_tokens)) --n_tokens;
  const size_t end = n_tokens == 0 ? reply->byte_begin : reply->token_ends[n_tokens - 1];
  delta.patch = {};
  delta.patch.keep_bytes = end;
  delta.patch.keep_ids = delta.n_keep = delta.n_prompt = reply->id_begin + n_tokens;
  delta.end = fresh_mark(tokenizer, transcript, delta.n_prompt);
  delta.n_continued = end - reply->byte_begin;
  delta.keeps_reply = true;
  return true;
}

PromptDelta plan_ids(const Tokenizer& tokenizer, const Transcript& transcript, Tokens ids) {
  PromptDelta delta;
  delta.n_prompt = ids.size();
  delta.n_keep = common_prefix_length(transcript.ids(), ids);
  delta.cost.work.tokens_compared = delta.n_keep + 1;
  SampledReply given;
  given.text_ends.reserve(ids.size());
  for (const TokenId id : ids) {
    given.text += tokenizer.token_bytes(id);
    given.text_ends.push_back(given.text.size());
  }
  delta.n_bytes = given.text.size();
  const bool after_text = !ids.empty() && !tokenizer.is_special(ids.back());
  delta.end = EncoderMark{
      IncrementalEncoder(tokenizer, {.at_start = ids.empty(), .after_text = after_text}), ids.size(), ids.size(), {}};
  given.ids = std::move(ids);
  append_reply(delta.patch, std::move(given), 0, fresh_mark(tokenizer, Transcript(), 0));
  return delta;
}

}  // namespace ibid
