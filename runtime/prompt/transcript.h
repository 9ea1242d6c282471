// Transcript: the rendered bytes and tokens of a conversation, and which tokens belong to which bytes. The tokens are
// authoritative: they are what was computed (or, for the last token, what is computed next).
//
// The text is a list of spans. Spans of template and input text are encoded. Between these spans are replies, whose
// tokens are the sampled ones, even if encoding their text gives others. Each encoded span has a mark, the encoder's
// state before it, so that text can be continued or replaced from there at the cost of the new text.
//
// It contains neither messages (see Dialogue) nor keys and values (see KvCacheEntry). A value; a copy, for a fork,
// copies text and tokens; everything else is O(new part). Not thread-safe.
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
  kInput,      // contents of given messages
  kSampled,    // a reply
  kEndOfTurn,  // the sampled token that ended a reply, if the template writes the same token
};

// The encoder's state before a span, from which text can be encoded again. Later text may have changed the last tokens
// before the span. As they were at the mark, the tokens are the first n_stable ones of the transcript, then `tail`.
struct EncoderMark {
  IncrementalEncoder encoder;
  size_t base = 0;  // number of tokens before the encoder's first token
  size_t n_stable = 0;
  Tokens tail;

  // Call before the transcript's tokens from position n_tokens on are replaced. Copies those of them that precede this
  // EncoderMark to the member `tail`. ids[i] is the token at position ids_begin + i. REQUIRES: ids_begin <= n_tokens.
  void forget_from(size_t n_tokens, const Tokens& ids, size_t ids_begin);
};

struct TranscriptSpan {
  SpanOrigin origin = SpanOrigin::kTemplate;
  size_t byte_begin = 0, byte_end = 0;
  size_t id_begin = 0;              // index of the first token; a token across two encoded spans belongs to the second
  std::optional<EncoderMark> mark;  // encoder state before the span; set for encoded spans and replies after such spans
  std::vector<size_t> token_ends;   // kSampled, kEndOfTurn: byte position after each token; one per token
  size_t first_message = 0;         // range of messages whose rendering may reach into the span
  size_t last_message = 0;
};

// Text that replaces everything after a position of a transcript, already encoded.
struct TranscriptPatch {
  size_t keep_bytes = 0;
  size_t keep_ids = 0;  // number of tokens kept before `ids`; some of `ids` may be unchanged too
  std::string bytes;
  Tokens ids;
  std::vector<TranscriptSpan> spans;  // positions are relative to the transcript's beginning
};

// A reply to be appended.
struct SampledReply {
  Tokens ids;
  std::vector<size_t> text_ends;       // bytes of the text up to the end of each token
  std::string text;                    // the bytes of `ids` as the next render will show them
  std::optional<TokenId> end_of_turn;  // the token that ended the reply; end_of_turn_text is its text
  std::string end_of_turn_text;

  // Replaces the reply's text by `shown`, if different: templates render tool calls in their own spelling. The sampled
  // tokens stay; all tokens after the first difference get the end of the text as their end, so they stay or are
  // dropped together.
  void show_as(std::string shown);
};

// Appends the reply to a patch, as message number `message`; an empty reply is appended too, because its span holds the
// encoder mark. `mark`: the encoder's state at the end of the patch. If the transcript ends in a reply to the same
// message, both become one reply.
void append_reply(TranscriptPatch& patch, SampledReply reply, size_t message, EncoderMark mark);

class Transcript {
 public:
  size_t n_bytes() const { return bytes_.size(); }
  std::string_view bytes() const { return bytes_; }
  const Tokens& ids() const { return ids_; }
  const std::vector<TranscriptSpan>& spans() const { return spans_; }
  bool empty() const { return spans_.empty(); }
  // Approximate memory in bytes. O(spans).
  size_t n_heap_bytes() const;

  // Returns the index of the span that contains the byte; spans().size() for the end of the text. O(log spans).
  size_t span_at(size_t byte) const;
  // Returns bytes [begin, end) with their origins (template or message).
  MarkedText marked_text(size_t begin, size_t end) const;

  // Does the part of apply(patch) that allocates. May throw std::bad_alloc. In any case the text, the tokens and the
  // marks' tokens are unchanged.
  void prepare(const TranscriptPatch& patch);
  // Replaces everything after patch.keep_bytes. O(dropped and added parts). Does not throw after prepare(patch).
  void apply(TranscriptPatch patch);
  // Appends a reply to the transcript, as message number `message`. `mark`: the encoder's state at the transcript's
  // end.
  void append_reply(SampledReply reply, size_t message, EncoderMark mark);

  // Updates the message numbers of the replies that follow the first n_known messages. Numbers change if messages are
  // added or removed that the template does not show. number_of(text, first) returns the first message from `first` on
  // whose reply may begin with the text; nullopt: the number stays. The last reply's number is already right. O(spans
  // after these messages).
  using NumberOf = std::function<std::optional<size_t>(std::string_view text, size_t first)>;
  void renumber_replies(size_t n_known, const NumberOf& number_of);

 private:
  // Returns the number of leading spans that stay if text and tokens are cut to these lengths.
  size_t n_spans_kept(size_t n_bytes, size_t n_tokens) const;
  void truncate(size_t n_bytes, size_t n_tokens);
  void append(TranscriptPatch patch);
  // True if the patch begins with the rest of the reply that ends the first n_spans spans.
  bool continues_reply(const TranscriptPatch& patch, size_t n_spans) const;

  std::string bytes_;
  Tokens ids_;
  std::vector<TranscriptSpan> spans_;
};

}  // namespace ibid
