// Transcripts: bytes, tokens and spans, compared with a flat reference.
#include "runtime/prompt/transcript.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "sampling/sampler.h"
#include "tests/support/failing_new.h"
#include "tests/support/fake_tokenizer.h"

namespace ibid {
namespace {

const FakeTokenizer& tokenizer() {
  static const FakeTokenizer instance;
  return instance;
}

EncoderMark mark_at(size_t n_tokens) { return {IncrementalEncoder(tokenizer()), n_tokens, n_tokens, {}}; }

// One encoded span of `text`, one token per byte, after the first keep_* of a transcript.
TranscriptPatch patch_of(size_t keep_bytes, size_t keep_ids, const std::string& text, SpanOrigin origin) {
  TranscriptPatch patch;
  patch.keep_bytes = keep_bytes;
  patch.keep_ids = keep_ids;
  if (text.empty()) return patch;
  patch.bytes = text;
  for (const char c : text) patch.ids.push_back(static_cast<unsigned char>(c));
  TranscriptSpan span;
  span.origin = origin;
  span.byte_begin = keep_bytes;
  span.byte_end = keep_bytes + text.size();
  span.id_begin = keep_ids;
  span.mark = mark_at(keep_ids);
  patch.spans.push_back(std::move(span));
  return patch;
}

SampledReply reply_of(const std::vector<std::string>& pieces, bool closed) {
  SampledReply reply;
  reply.ids = tokenizer().sampled(pieces);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!tokenizer().is_special(reply.ids[i])) reply.text += pieces[i];  // special tokens are not shown
    reply.text_ends.push_back(reply.text.size());
  }
  if (closed) reply.end_of_turn = tokenizer().im_end, reply.end_of_turn_text = "<|im_end|>";
  return reply;
}

void append(Transcript& transcript, const std::string& text, SpanOrigin origin) {
  transcript.apply(patch_of(transcript.n_bytes(), transcript.ids().size(), text, origin));
}

void reply(Transcript& transcript, const std::vector<std::string>& pieces, bool closed) {
  transcript.append_reply(reply_of(pieces, closed), 1, mark_at(transcript.ids().size()));
}

std::string runs_text(const MarkedText& text) {
  std::string out;
  for (const auto [bytes, origin] : text.runs()) {
    out += origin == TextOrigin::kInput ? "[" + std::string(bytes) + "]" : std::string(bytes);
  }
  return out;
}

TEST(EncoderMarkTest, MarkRemembersItsTokensWhenTheTranscriptChanges) {
  EncoderMark mark = mark_at(5);
  mark.forget_from(7, {}, 0);
  EXPECT_EQ(mark.n_stable, 5u) << "later changes do not affect it";
  mark.forget_from(4, {10, 11, 12, 13, 14}, 0);
  EXPECT_EQ(mark.n_stable, 4u);
  EXPECT_EQ(mark.tail, Tokens{14});
  mark.forget_from(2, {12, 13, 99}, 2);  // gets only the tokens from 2 on, where 14 has become 99
  EXPECT_EQ(mark.n_stable, 2u);
  EXPECT_EQ(mark.tail, (Tokens{12, 13, 14}));
}

TEST(TranscriptTest, ReplyAndItsEndOfTurnAreTwoSpans) {
  Transcript t;
  append(t, "<Q>", SpanOrigin::kTemplate);
  append(t, "hi", SpanOrigin::kInput);
  reply(t, {"Hello", "ab"}, true);
  EXPECT_EQ(t.bytes(), "<Q>hiHelloab<|im_end|>");
  EXPECT_EQ(t.ids(), (Tokens{'<', 'Q', '>', 'h', 'i', tokenizer().sampled({"Hello"})[0], tokenizer().sampled({"ab"})[0],
                             tokenizer().im_end}));
  ASSERT_EQ(t.spans().size(), 4u);
  const TranscriptSpan& sampled = t.spans()[2];
  EXPECT_EQ(sampled.origin, SpanOrigin::kSampled);
  EXPECT_EQ(sampled.id_begin, 5u);
  EXPECT_EQ(sampled.token_ends, (std::vector<size_t>{10, 12})) << "positions in the whole text";
  EXPECT_TRUE(sampled.mark.has_value());
  const TranscriptSpan& closing = t.spans()[3];
  EXPECT_EQ(closing.origin, SpanOrigin::kEndOfTurn);
  EXPECT_EQ(closing.id_begin, 7u);
  EXPECT_EQ(closing.token_ends, std::vector<size_t>{t.n_bytes()});
  EXPECT_FALSE(closing.mark.has_value()) << "there is no encoder inside a reply";
  EXPECT_EQ(runs_text(t.marked_text(0, t.n_bytes())), "<Q>[hiHelloab]<|im_end|>");
  EXPECT_EQ(runs_text(t.marked_text(2, 6)), ">[hiH]");
  EXPECT_EQ(runs_text(t.marked_text(4, 4)), "");
}

TEST(TranscriptTest, SpanAtReturnsTheSpanOfAByte) {
  Transcript t;
  EXPECT_EQ(t.span_at(0), 0u);
  append(t, "abc", SpanOrigin::kTemplate);
  reply(t, {"<|tool|>"}, false);  // no text of its own
  append(t, "d", SpanOrigin::kInput);
  const std::vector<size_t> expected = {0, 0, 0, 2, 3};
  for (size_t byte = 0; byte < expected.size(); ++byte) EXPECT_EQ(t.span_at(byte), expected[byte]) << byte;
}

TEST(TranscriptTest, ReplyIsCutOnlyBetweenTokens) {
  Transcript t;
  append(t, "q", SpanOrigin::kTemplate);
  reply(t, {"Hello", "ab", "th"}, true);
  t.apply(patch_of(8, 3, "!", SpanOrigin::kTemplate));
  EXPECT_EQ(t.bytes(), "qHelloab!");
  EXPECT_EQ(t.ids(), (Tokens{'q', tokenizer().sampled({"Hello"})[0], tokenizer().sampled({"ab"})[0], '!'}));
  ASSERT_EQ(t.spans().size(), 3u);
  EXPECT_EQ(t.spans()[1].byte_end, 8u);
  EXPECT_EQ(t.spans()[1].token_ends, (std::vector<size_t>{6, 8}));
}

TEST(TranscriptTest, ReplyWithoutTextIsKeptExactlyIfItsTokensAreKept) {
  for (const size_t keep_ids : {size_t{1}, size_t{2}}) {
    Transcript t;
    append(t, "q", SpanOrigin::kTemplate);
    reply(t, {"<|tool|>"}, false);
    t.apply(patch_of(1, keep_ids, "", SpanOrigin::kTemplate));
    EXPECT_EQ(t.spans().size(), keep_ids);
    EXPECT_EQ(t.ids().size(), keep_ids);
  }
}

TEST(TranscriptTest, EncoderMarksAreUpdatedIfEarlierTokensChange) {
  Transcript t;
  append(t, "ab", SpanOrigin::kTemplate);
  append(t, "cd", SpanOrigin::kInput);  // its mark knows two tokens
  TranscriptPatch patch = patch_of(4, 1, "e", SpanOrigin::kInput);
  patch.ids = {500, 'c', 'd', 'e'};  // the second token of the text has changed
  t.apply(patch);
  EXPECT_EQ(t.ids(), (Tokens{'a', 500, 'c', 'd', 'e'}));
  const EncoderMark& mark = *t.spans()[1].mark;
  EXPECT_EQ(mark.n_stable, 1u);
  EXPECT_EQ(mark.tail, Tokens{'b'}) << "as it was at the mark";
  EXPECT_EQ(t.spans()[0].mark->n_stable, 0u);
}

TEST(TranscriptDeathTest, CuttingAnEncodedSpanFailsACheck) {
  Transcript t;
  append(t, "abc", SpanOrigin::kInput);
  EXPECT_DEATH(t.apply(patch_of(2, 2, "x", SpanOrigin::kInput)), "replaced as a whole");
}

TEST(TranscriptTest, CopyIsIndependentOfItsOriginal) {
  Transcript t;
  append(t, "abc", SpanOrigin::kTemplate);
  Transcript fork = t;
  reply(fork, {"Hello"}, true);
  EXPECT_EQ(t.bytes(), "abc");
  EXPECT_EQ(t.spans().size(), 1u);
  EXPECT_EQ(fork.bytes(), "abcHello<|im_end|>");
}

// The tokens before each mark, as the mark knows them.
std::vector<Tokens> known_ids(const Transcript& t) {
  std::vector<Tokens> out;
  for (const TranscriptSpan& span : t.spans()) {
    if (!span.mark) continue;
    out.emplace_back(t.ids().begin(), t.ids().begin() + static_cast<std::ptrdiff_t>(span.mark->n_stable));
    out.back().insert(out.back().end(), span.mark->tail.begin(), span.mark->tail.end());
  }
  return out;
}

// A patch changes tokens that the marks of three spans know. prepare() may fail at any allocation without visible
// effect, and another patch can be applied instead of the prepared one.
TEST(TranscriptTest, PrepareThatFailsAtAnyAllocationChangesNothing) {
  size_t n_failed = 0;
  for (size_t n = 0;; ++n) {
    SCOPED_TRACE(n);
    Transcript t;
    for (const char* text : {"abc", "de", "fg", "h"}) append(t, text, SpanOrigin::kTemplate);
    const std::vector<Tokens> known = known_ids(t);
    const Tokens ids = t.ids();
    const TranscriptPatch patch = patch_of(8, 2, std::string(40, 'x'), SpanOrigin::kTemplate);
    FailingNew failing(n);
    try {
      t.prepare(patch);
    } catch (const std::bad_alloc&) {
      ++n_failed;
    }
    failing.stop();
    ASSERT_EQ(t.bytes(), "abcdefgh");
    ASSERT_EQ(t.ids(), ids);
    ASSERT_EQ(known_ids(t), known);
    t.apply(patch_of(8, 4, std::string(2, 'y'), SpanOrigin::kTemplate));
    std::vector<Tokens> after = known_ids(t);
    after.resize(known.size());
    ASSERT_EQ(after, known);
    if (!failing.has_failed()) break;
  }
  EXPECT_GT(n_failed, 4u);
}

TEST(TranscriptTest, PreparedPatchIsAppliedWithoutAllocation) {
  Transcript t;
  for (const char* text : {"abc", "de", "fg", "h"}) append(t, text, SpanOrigin::kTemplate);
  TranscriptPatch patch = patch_of(8, 2, std::string(40, 'x'), SpanOrigin::kTemplate);
  append_reply(patch, reply_of({"Hello", "ab"}, true), 1, mark_at(42));
  t.prepare(patch);
  FailingNew failing(0, true);
  t.apply(std::move(patch));
  failing.stop();
  EXPECT_EQ(failing.allocations(), 0u);
  EXPECT_EQ(t.bytes(), "abcdefgh" + std::string(40, 'x') + "Helloab<|im_end|>");
}

// The reference: one element per token, with its bytes.
struct Flat {
  struct Id {
    TokenId id;
    std::string bytes;
    SpanOrigin origin;
    size_t reply = 0;  // of sampled tokens: which one
  };
  std::vector<Id> ids;

  std::string bytes() const {
    std::string out;
    for (const Id& id : ids) out += id.bytes;
    return out;
  }
  std::string marked() const {
    MarkedText text;
    for (const Id& id : ids) {
      const bool is_template = id.origin == SpanOrigin::kTemplate || id.origin == SpanOrigin::kEndOfTurn;
      text.append(id.bytes, is_template ? TextOrigin::kTemplate : TextOrigin::kInput);
    }
    return runs_text(text);
  }
};

// Grows by text and replies. Cuts at ends of encoded spans and in replies after tokens with text: tokens without text
// at the end of a reply are on its border and stay with it.
TEST(TranscriptTest, RandomHistoriesMatchAFlatReference) {
  const std::vector<std::string> pieces = {"a", "ab", "abc", "Hello", "th", "<|tool|>", "\n\n"};
  for (uint64_t seed = 0; seed < 300; ++seed) {
    uint64_t n = 0;
    const auto next = [&](uint64_t below) { return static_cast<size_t>(random_bits(seed, n++) % below); };
    Transcript t;
    Flat flat;
    size_t n_replies = 0;
    for (size_t step = 0; step < 20; ++step) {
      size_t keep = flat.ids.size();
      if (next(3) == 0 && keep > 0) {
        keep = next(keep + 1);
        const auto encoded = [&](size_t i) {
          return flat.ids[i].origin == SpanOrigin::kTemplate || flat.ids[i].origin == SpanOrigin::kInput;
        };
        while (keep > 0 && keep < flat.ids.size() && encoded(keep) && encoded(keep - 1)) --keep;
        const auto in_one_reply = [&](size_t i) {  // tokens i - 1 and i
          return i > 0 && i < flat.ids.size() && flat.ids[i].reply > 0 && flat.ids[i].reply == flat.ids[i - 1].reply;
        };
        size_t end = keep;
        while (in_one_reply(end) && flat.ids[end].bytes.empty()) ++end;
        if (!in_one_reply(end)) keep = end;
        while (in_one_reply(keep) && flat.ids[keep - 1].bytes.empty()) --keep;
      }
      flat.ids.resize(keep);
      const SpanOrigin origin = next(2) == 0 ? SpanOrigin::kTemplate : SpanOrigin::kInput;
      const std::string text(1 + next(4), static_cast<char>('a' + next(26)));
      t.apply(patch_of(flat.bytes().size(), keep, text, origin));
      for (const char c : text) flat.ids.push_back({static_cast<unsigned char>(c), std::string(1, c), origin});
      if (next(2) == 0) {
        std::vector<std::string> said;
        for (size_t i = next(4); i > 0; --i) said.push_back(pieces[next(pieces.size())]);
        const bool closed = next(2) == 0;
        reply(t, said, closed);
        ++n_replies;
        for (const std::string& piece : said) {
          const TokenId id = tokenizer().sampled({piece})[0];
          flat.ids.push_back({id, tokenizer().is_special(id) ? "" : piece, SpanOrigin::kSampled, n_replies});
        }
        if (closed) flat.ids.push_back({tokenizer().im_end, "<|im_end|>", SpanOrigin::kEndOfTurn});
      }
      ASSERT_EQ(t.bytes(), flat.bytes()) << "seed " << seed << " step " << step;
      Tokens ids;
      for (const Flat::Id& id : flat.ids) ids.push_back(id.id);
      ASSERT_EQ(t.ids(), ids) << "seed " << seed << " step " << step;
      ASSERT_EQ(runs_text(t.marked_text(0, t.n_bytes())), flat.marked()) << "seed " << seed << " step " << step;
      size_t byte = 0, id = 0;
      for (const TranscriptSpan& span : t.spans()) {
        ASSERT_EQ(span.byte_begin, byte) << "spans cover the text without gaps";
        ASSERT_EQ(span.id_begin, id);
        id += span.token_ends.empty() ? span.byte_end - span.byte_begin : span.token_ends.size();
        byte = span.byte_end;
      }
      ASSERT_EQ(byte, t.n_bytes());
      ASSERT_EQ(id, t.ids().size());
    }
  }
}

}  // namespace
}  // namespace ibid
