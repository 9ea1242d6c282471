// Transcript: what a conversation's sequence consists of: rendered bytes, token ids, and which ids belong to which
// bytes. The ids decide: they are what was fed (or, for the last one, what will be fed next).
//
// The text is a list of spans. Spans of template and input text are encoded. Between them lie replies, whose ids
// are those that were sampled, never those that encoding their text would give. In front of every encoded span
// stands a mark, which is the encoder as it was there. So text can be continued or replaced from that place on, at
// the cost of what is new.
//
// It is not the list of messages (ChatSession has it) and holds no keys and values (KvCacheEntry).
// A value; copying (fork) is a plain copy of its text and ids, everything else is O(what is new).
// Not thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/marked_text.h"
#include "ibid/token.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

enum class SpanOrigin {
  kTemplate,   // written by the chat template
  kInput,      // contents of messages that were given
  kSampled,    // a reply
  kEndOfTurn,  // the sampled id that ended a reply: the template's closing text, if it is the same text
};

// An encoder in front of a span. Later text may have changed the last ids that it knew; the ids as they were at the
// mark are the first n_stable ids of the transcript, and then `tail`.
struct EncoderMark {
  IncrementalEncoder encoder;
  size_t base = 0;      // ids in front of the encoder's first
  size_t n_stable = 0;
  Tokens tail;

  // Ids from position n_ids on are about to change: keeps those it knew. ids[i] stands at position
  // ids_begin + i. REQUIRES: ids_begin <= n_ids.
  void forget_from(size_t n_ids, const Tokens& ids, size_t ids_begin);
};

struct TranscriptSpan {
  SpanOrigin origin = SpanOrigin::kTemplate;
  size_t byte_begin = 0, byte_end = 0;
  size_t id_begin = 0;                // a token across two encoded spans counts to the second
  std::optional<EncoderMark> mark;    // of encoded spans, and of the reply behind them
  std::vector<size_t> token_ends;     // kSampled, kEndOfTurn: byte position behind each id; one entry an id
  size_t first_message = 0;           // messages whose rendering may reach into the span
  size_t last_message = 0;
};

// Text that replaces everything behind a place of a transcript, encoded and ready to be applied.
struct TranscriptPatch {
  size_t keep_bytes = 0;
  size_t keep_ids = 0;                // ids in front of `ids`; may be fewer than those that stay the same
  std::string bytes;
  Tokens ids;
  std::vector<TranscriptSpan> spans;  // positions count from the transcript's beginning
};

// A reply to be appended.
struct SampledReply {
  Tokens ids;
  std::vector<size_t> text_ends;      // length of the text behind each id
  std::string text;                   // the bytes of `ids` as the next render will show them
  std::optional<TokenId> end_of_turn; // the id that ended it, with its own text
  std::string end_of_turn_text;

  // Makes `shown` its text, where that differs: templates write calls of tools in their own spelling. The ids stay what
  // was sampled. Behind the first difference they all end where the text ends, so they stay or go together.
  void show_as(std::string shown);
};

// Adds to a patch the reply that follows it, as message number `message`; an empty one too, for it holds the mark.
// `mark`: the encoder at the end of the patch.
void append_reply(TranscriptPatch& patch, SampledReply reply, size_t message, EncoderMark mark);

class Transcript {
 public:
  size_t n_bytes() const { return bytes_.size(); }
  std::string_view bytes() const { return bytes_; }
  const Tokens& ids() const { return ids_; }
  const std::vector<TranscriptSpan>& spans() const { return spans_; }
  bool empty() const { return spans_.empty(); }
  // What it takes of memory, about. O(spans).
  size_t n_heap_bytes() const;

  // The first span that ends behind the byte: the one that holds it; spans().size() at the end. O(log spans).
  size_t span_at(size_t byte) const;
  // Bytes [begin, end) with the origin they have in a render.
  MarkedText marked_text(size_t begin, size_t end) const;

  // Does the part of apply(patch) that needs memory. It may throw std::bad_alloc. Whether it does or not, the text,
  // the ids and what every mark knows are the same afterwards.
  void prepare(const TranscriptPatch& patch);
  // Replaces what lies behind patch.keep_bytes. O(what is dropped and added). After prepare(patch) it does not throw.
  void apply(TranscriptPatch patch);
  // Appends a reply to the text so far, as append_reply() above does to a patch.
  void append_reply(SampledReply reply, size_t message, EncoderMark mark);

  // Gives the replies that follow the first n_known messages the numbers that their messages have now. Numbers
  // change when messages come or go that the template does not show. number_of(text, first) returns the first
  // message from `first` on whose reply may begin with the text; none: the number stays. The last reply's number is
  // right already. O(spans from there on).
  using NumberOf = std::function<std::optional<size_t>(std::string_view text, size_t first)>;
  void renumber_replies(size_t n_known, const NumberOf& number_of);

 private:
  // How many of the first spans stay when the text is cut.
  size_t n_spans_kept(size_t n_bytes, size_t n_ids) const;
  void truncate(size_t n_bytes, size_t n_ids);
  void append(TranscriptPatch patch);

  std::string bytes_;
  Tokens ids_;
  std::vector<TranscriptSpan> spans_;
};

}  // namespace ibid
