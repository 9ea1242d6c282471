#include "runtime/prompt/transcript.h"

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/growth.h"

namespace ibid {
namespace {

TextOrigin rendered_origin(SpanOrigin origin) {
  return origin == SpanOrigin::kTemplate || origin == SpanOrigin::kEndOfTurn ? TextOrigin::kTemplate
                                                                             : TextOrigin::kInput;
}

}  // namespace

void EncoderMark::forget_from(size_t n_tokens, const Tokens& ids, size_t ids_begin) {
  if (n_stable <= n_tokens) return;
  const auto at = [&](size_t i) { return ids.begin() + static_cast<std::ptrdiff_t>(i - ids_begin); };
  tail.insert(tail.begin(), at(n_tokens), at(n_stable));
  n_stable = n_tokens;
}

size_t Transcript::n_heap_bytes() const {
  size_t n = bytes_.capacity() + ids_.capacity() * sizeof(TokenId) + spans_.capacity() * sizeof(TranscriptSpan);
  for (const TranscriptSpan& span : spans_) {
    n += span.token_ends.capacity() * sizeof(size_t);
    if (span.mark) n += span.mark->tail.capacity() * sizeof(TokenId);
  }
  return n;
}

size_t Transcript::span_at(size_t byte) const {
  const auto it = std::upper_bound(spans_.begin(), spans_.end(), byte,
                                   [](size_t b, const TranscriptSpan& span) { return b < span.byte_end; });
  return static_cast<size_t>(it - spans_.begin());
}

MarkedText Transcript::marked_text(size_t begin, size_t end) const {
  MarkedText out;
  for (size_t i = span_at(begin); i < spans_.size() && begin < end; ++i) {
    const size_t to = std::min(end, spans_[i].byte_end);
    out.append(bytes().substr(begin, to - begin), rendered_origin(spans_[i].origin));
    begin = to;
  }
  return out;
}

void SampledReply::show_as(std::string shown) {
  if (ids.empty() || shown == text) return;
  const auto differs = std::mismatch(text.begin(), text.end(), shown.begin(), shown.end()).first;
  const auto n_same = static_cast<size_t>(differs - text.begin());
  for (size_t& end : text_ends) end = end <= n_same ? end : shown.size();
  text_ends.back() = shown.size();
  text = std::move(shown);
}

void append_reply(TranscriptPatch& patch, SampledReply reply, size_t message, EncoderMark mark) {
  CHECK_EQ(reply.ids.size(), reply.text_ends.size());
  const size_t n_bytes = patch.keep_bytes + patch.bytes.size();
  TranscriptSpan span;
  span.origin = SpanOrigin::kSampled;
  span.byte_begin = n_bytes;
  span.id_begin = patch.keep_ids + patch.ids.size();
  span.mark = std::move(mark);
  span.first_message = span.last_message = message;
  span.token_ends = std::move(reply.text_ends);
  for (size_t& end : span.token_ends) end += n_bytes;
  patch.bytes += reply.text;
  patch.ids.insert(patch.ids.end(), reply.ids.begin(), reply.ids.end());
  span.byte_end = patch.keep_bytes + patch.bytes.size();
  patch.spans.push_back(std::move(span));
  if (!reply.end_of_turn) return;

  TranscriptSpan closing;
  closing.origin = SpanOrigin::kEndOfTurn;
  closing.byte_begin = patch.keep_bytes + patch.bytes.size();
  closing.id_begin = patch.keep_ids + patch.ids.size();
  closing.first_message = closing.last_message = message;
  patch.bytes += reply.end_of_turn_text;
  patch.ids.push_back(*reply.end_of_turn);
  closing.byte_end = patch.keep_bytes + patch.bytes.size();
  closing.token_ends.push_back(closing.byte_end);
  patch.spans.push_back(std::move(closing));
}

void Transcript::prepare(const TranscriptPatch& patch) {
  const size_t n_kept = n_spans_kept(patch.keep_bytes, patch.keep_ids);
  bytes_.reserve(patch.keep_bytes + patch.bytes.size());  // unlike std::vector's, this reserve() grows geometrically
  reserve_geometric(ids_, patch.keep_ids + patch.ids.size());
  reserve_geometric(spans_, n_kept + patch.spans.size());
  if (continues_reply(patch, n_kept)) {
    std::vector<size_t>& ends = spans_[n_kept - 1].token_ends;
    reserve_geometric(ends, ends.size() + patch.spans.front().token_ends.size());
  }
  // Changes the spans' marks in ascending order, so that n_stable never decreases from one mark to the next, even if an
  // allocation fails half-way.
  size_t i = n_kept;
  while (i > 0 && !(spans_[i - 1].mark && spans_[i - 1].mark->n_stable <= patch.keep_ids)) --i;
  for (; i < n_kept; ++i) {
    if (spans_[i].mark) spans_[i].mark->forget_from(patch.keep_ids, ids_, 0);
  }
}

bool Transcript::continues_reply(const TranscriptPatch& patch, size_t n_spans) const {
  if (n_spans == 0 || patch.spans.empty()) return false;
  const TranscriptSpan& before = spans_[n_spans - 1];
  const TranscriptSpan& first = patch.spans.front();
  return before.origin == SpanOrigin::kSampled && first.origin == SpanOrigin::kSampled &&
         before.first_message == first.first_message && first.byte_begin == patch.keep_bytes;
}

void Transcript::apply(TranscriptPatch patch) {
  truncate(patch.keep_bytes, patch.keep_ids);
  append(std::move(patch));
}

void Transcript::append_reply(SampledReply reply, size_t message, EncoderMark mark) {
  TranscriptPatch patch;
  patch.keep_bytes = bytes_.size();
  patch.keep_ids = ids_.size();
  ibid::append_reply(patch, std::move(reply), message, std::move(mark));
  append(std::move(patch));
}

void Transcript::renumber_replies(size_t n_known, const NumberOf& number_of) {
  size_t last = spans_.size();
  while (last > 0 && spans_[last - 1].origin != SpanOrigin::kSampled) --last;
  if (last > 0) --last;  // now the index of the last reply
  size_t i = last;
  const auto is_known = [&](const TranscriptSpan& span) {
    return span.origin == SpanOrigin::kSampled && span.first_message < n_known;
  };
  while (i > 0 && !is_known(spans_[i - 1])) --i;
  for (size_t next = n_known; i < last; ++i) {
    TranscriptSpan& span = spans_[i];
    if (span.origin != SpanOrigin::kSampled) continue;
    const auto number = number_of(bytes().substr(span.byte_begin, span.byte_end - span.byte_begin), next);
    if (!number) continue;
    next = *number + 1;
    span.first_message = span.last_message = *number;
    TranscriptSpan& next_span = spans_[i + 1];  // exists, because the last reply is after spans_[i]
    if (next_span.origin == SpanOrigin::kEndOfTurn) next_span.first_message = next_span.last_message = *number;
  }
}

void Transcript::append(TranscriptPatch patch) {
  static_assert(std::is_nothrow_move_constructible_v<TranscriptSpan>);
  bytes_ += patch.bytes;
  ids_.insert(ids_.end(), patch.ids.begin(), patch.ids.end());
  auto first = patch.spans.begin();
  if (continues_reply(patch, spans_.size())) {
    TranscriptSpan& reply = spans_.back();
    reply.byte_end = first->byte_end;
    reply.token_ends.insert(reply.token_ends.end(), first->token_ends.begin(), first->token_ends.end());
    ++first;
  }
  spans_.insert(spans_.end(), std::make_move_iterator(first), std::make_move_iterator(patch.spans.end()));
}

size_t Transcript::n_spans_kept(size_t n_bytes, size_t n_tokens) const {
  // A reply without text (only special tokens) at the end of the kept bytes stays if its tokens stay.
  const auto stays = [&](const TranscriptSpan& span) {
    return span.byte_begin < n_bytes ||
           (span.byte_end == n_bytes && !span.token_ends.empty() && span.id_begin + span.token_ends.size() <= n_tokens);
  };
  size_t n = spans_.size();
  while (n > 0 && !stays(spans_[n - 1])) --n;
  return n;
}

void Transcript::truncate(size_t n_bytes, size_t n_tokens) {
  for (size_t n = n_spans_kept(n_bytes, n_tokens); spans_.size() > n;) spans_.pop_back();
  if (!spans_.empty() && spans_.back().byte_end > n_bytes) {
    TranscriptSpan& cut = spans_.back();
    CHECK(cut.origin == SpanOrigin::kSampled) << "encoded spans are replaced as a whole";
    cut.byte_end = n_bytes;
    cut.token_ends.resize(n_tokens - cut.id_begin);
  }
  for (size_t i = spans_.size(); i-- > 0;) {
    if (!spans_[i].mark) continue;
    if (spans_[i].mark->n_stable <= n_tokens) break;
    spans_[i].mark->forget_from(n_tokens, ids_, 0);
  }
  bytes_.resize(n_bytes);
  ids_.resize(n_tokens);
}

}  // namespace ibid
