#include "tokenizer/pipeline_tokenizer.h"

#include <algorithm>
#include <utility>

namespace ibid {
namespace {

std::vector<AddedToken> added_of_stage(const PipelineSpec& spec, bool normalized) {
  std::vector<AddedToken> out;
  for (const AddedToken& token : spec.added) {
    if (token.normalized != normalized) continue;
    out.push_back(token);
    if (normalized) out.back().text = std::string(NormalizedText(spec.normalizer, token.text, {}).text());
    if (out.back().text.empty()) out.pop_back();  // a token whose normalized text is empty is never found
  }
  // Two texts may normalize to the same text. As in `tokenizers`, only the first of these tokens is found, where
  // special tokens come before others.
  std::stable_partition(out.begin(), out.end(), [](const auto& token) { return token.special; });
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.text < b.text; });
  out.erase(std::unique(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.text == b.text; }),
            out.end());
  return out;
}

std::vector<OriginEnd> origins_between(std::span<const OriginEnd> origins, size_t begin, size_t end) {
  std::vector<OriginEnd> out;
  for (const OriginEnd& run : origins) {
    if (run.end <= begin) continue;
    out.push_back({std::min(run.end, end) - begin, run.origin});
    if (run.end >= end) break;
  }
  return out;
}

// A part of a text in one form (raw, normalized or rewritten), and its position in this text.
struct Stretch {
  std::string_view text;
  std::vector<OriginEnd> origins;
  size_t begin;  // position of the part in that text

  // Returns this stretch after the steps that produced `normalized`. `normalized` must outlive the result.
  Stretch rewritten(const NormalizedText& normalized) const {
    Stretch out{normalized.text(), origins, begin};
    for (OriginEnd& run : out.origins) {
      run.end = run.end == text.size() ? out.text.size() : std::min(normalized.position_of(run.end), out.text.size());
    }
    return out;
  }
};

// Tests whether positions are strictly inside a hidden match: the text of an added token that stays text. Positions
// must not decrease from call to call.
class HiddenMatches {
 public:
  explicit HiddenMatches(const std::vector<AddedTokenSet::Section>& matches) : matches_(&matches) {}
  bool contain(size_t position) {
    while (next_ < matches_->size() && (*matches_)[next_].end <= position) ++next_;
    return next_ < matches_->size() && (*matches_)[next_].begin < position;
  }

 private:
  const std::vector<AddedTokenSet::Section>* matches_;
  size_t next_ = 0;
};

}  // namespace

// One pass over a text. If the text may grow, emits only tokens that no append can change, and records the last
// position from which encoding may resume.
class PipelineTokenizer::Walk {
 public:
  Walk(const PipelineTokenizer& tokenizer, bool growing, Tokens& out)
      : tokenizer_(tokenizer), growing_(growing), out_(out), n_final_tokens_(out.size()) {}

  void run(std::string_view raw, std::span<const OriginEnd> origins, TextContext before) {
    const auto split = tokenizer_.raw_added_.split(raw, origins, before.after_word, growing_);
    HiddenMatches hidden(split.hidden);
    raw_hidden_ = &hidden;
    certain_end_ = split.certain_end;
    resume_ = before;
    for (size_t i = 0; i < split.sections.size(); ++i) {
      const auto& section = split.sections[i];
      const bool is_last = i + 1 == split.sections.size();
      if (section.token == kNoToken) {
        const bool continues = section.begin == 0 && before.after_text;
        section_begin_ = section.begin;
        between_tokens({raw.substr(section.begin, section.end - section.begin),
                        origins_between(origins, section.begin, section.end), section.begin},
                       continues && before.after_normalized_word,
                       {.begins_section = !continues,
                        .begins_text = before.at_start && section.begin == 0,
                        .open = growing_ && is_last,
                        .keeps_places = (growing_ && is_last) || origins.size() > 1});
      } else {
        out_.push_back(section.token);
        if (is_last || split.sections[i + 1].begin >= section.end) mark(section.end, false);
      }
    }
    if (!growing_) return;
    out_.resize(n_final_tokens_);
    if (n_final_bytes_ == 0) return;
    resume_.at_start = false;
    resume_.after_word = tokenizer_.raw_added_.has_single_word() && ends_with_word(raw.substr(0, n_final_bytes_));
  }

  size_t n_final_bytes() const { return n_final_bytes_; }
  const TextContext& resume() const { return resume_; }

 private:
  // Encodes raw text between two added tokens. after_word: the normalized text before `raw` ends in a word character.
  void between_tokens(const Stretch& raw, bool after_word, TextPlace place) {
    const NormalizedText normalized(tokenizer_.spec_.normalizer, raw.text, place);
    normalized_ = &normalized;
    after_word_ = after_word;
    // As in `tokenizers`, the text counts as a beginning only if its first character comes from the first raw
    // character.
    place.begins_text &= normalized.keeps_beginning();
    encode_normalized(raw.rewritten(normalized), place);
    normalized_ = nullptr;
  }

  void encode_normalized(const Stretch& stretch, const TextPlace& place) {
    if (tokenizer_.normalized_added_.empty()) {
      HiddenMatches none(kNone);
      stretch_of(stretch, 0, stretch.text.size(), none, place);
      return;
    }
    const auto split = tokenizer_.normalized_added_.split(stretch.text, stretch.origins, after_word_, place.open);
    HiddenMatches hidden(split.hidden);
    for (size_t i = 0; i < split.sections.size(); ++i) {
      const auto& section = split.sections[i];
      const bool is_last = i + 1 == split.sections.size();
      if (section.token == kNoToken) {
        TextPlace its_place = place;
        its_place.open = place.open && is_last;
        its_place.begins_section = place.begins_section || section.begin > 0;
        its_place.begins_text = place.begins_text && section.begin == 0;
        stretch_of(stretch, section.begin, section.end, hidden, its_place);
        continue;
      }
      out_.push_back(section.token);
      const bool in_order = is_last || split.sections[i + 1].begin >= section.end;
      // Text after the token is a beginning for a rewriter, but not for the normalizer. No TextContext expresses both,
      // so encoding may not resume here.
      const bool may_resume = place.open && in_order && tokenizer_.spec_.rewriter.empty();
      if (may_resume && section.end <= split.certain_end) mark_in(section.end, hidden);
    }
  }

  // Encodes section[begin, end), a text between added tokens (raw and normalized).
  void stretch_of(const Stretch& section, size_t begin, size_t end, HiddenMatches& hidden, const TextPlace& place) {
    const Stretch plain{section.text.substr(begin, end - begin), origins_between(section.origins, begin, end), begin};
    if (tokenizer_.spec_.rewriter.empty()) {
      pieces(plain, nullptr, hidden, place.open);
      return;
    }
    const NormalizedText rewritten(tokenizer_.spec_.rewriter, plain.text, place);
    pieces(plain.rewritten(rewritten), &rewritten, hidden, place.open);
  }

  void pieces(const Stretch& stretch, const NormalizedText* rewritten, HiddenMatches& hidden, bool open) {
    size_t run = 0;
    ScanMemory memory;
    for (size_t pos = 0; pos < stretch.text.size();) {
      const Piece piece = tokenizer_.scan(stretch.text, pos, memory);
      if (open && piece.touched_end) break;
      while (stretch.origins[run].end <= pos && run + 1 < stretch.origins.size()) ++run;
      bool only_template = true;
      for (size_t r = run; r < stretch.origins.size(); ++r) {
        only_template &= stretch.origins[r].origin == TextOrigin::kTemplate;
        if (stretch.origins[r].end >= piece.end) break;
      }
      if (!piece.dropped) {
        tokenizer_.encode_piece(stretch.text.substr(pos, piece.end - pos), only_template, out_);
      }
      pos = piece.end;
      if (!open || !piece.may_resume) continue;
      const std::optional<size_t> at = rewritten == nullptr ? pos : rewritten->raw_position(pos);
      if (at) mark_in(stretch.begin + *at, hidden);
    }
  }

  // Marks a position in the normalized text of the section from which encoding may resume. Encoding may not resume
  // there if all text before the position was added by a step, because the step would add it again.
  void mark_in(size_t position, HiddenMatches& hidden) {
    if (hidden.contain(position)) return;
    const std::optional<size_t> raw = normalized_->raw_position(position);
    if (!raw || *raw == 0 || !mark(section_begin_ + *raw, true)) return;
    const std::string_view before = normalized_->text().substr(0, position);
    resume_.after_normalized_word =
        tokenizer_.normalized_added_.has_single_word() && (before.empty() ? after_word_ : ends_with_word(before));
  }

  // Makes raw[position] the position from which encoding resumes, and all tokens of out_ final. Returns false if
  // encoding may not resume there.
  bool mark(size_t position, bool after_text) {
    if (!growing_ || position > certain_end_ || raw_hidden_->contain(position)) return false;
    n_final_bytes_ = position;
    n_final_tokens_ = out_.size();
    resume_.after_text = after_text;
    resume_.after_normalized_word = false;
    return true;
  }

  static inline const std::vector<AddedTokenSet::Section> kNone;

  const PipelineTokenizer& tokenizer_;
  const bool growing_;
  Tokens& out_;
  HiddenMatches* raw_hidden_ = nullptr;
  const NormalizedText* normalized_ = nullptr;  // normalized text of the current section
  bool after_word_ = false;  // the normalized text before the current section ends in a word character
  size_t section_begin_ = 0;
  size_t certain_end_ = 0;
  size_t n_final_tokens_;
  size_t n_final_bytes_ = 0;
  TextContext resume_;
};

PipelineTokenizer::PipelineTokenizer(PipelineSpec spec)
    : spec_(std::move(spec)), raw_added_(added_of_stage(spec_, false)), normalized_added_(added_of_stage(spec_, true)) {
  for (const AddedToken& token : spec_.added) added_ids_.emplace(token.text, token.id);
}

Tokens PipelineTokenizer::encode(std::string_view text, TextOrigin origin, bool add_special) const {
  Tokens out;
  if (add_special) out = spec_.prefix;
  if (!text.empty()) {
    const OriginEnd run{text.size(), origin};
    Walk(*this, false, out).run(text, {&run, 1}, {});
  }
  if (add_special) out.insert(out.end(), spec_.suffix.begin(), spec_.suffix.end());
  return out;
}

PartialEncoding PipelineTokenizer::encode_growing(const MarkedText& marked, TextContext before) const {
  PartialEncoding out;
  out.resume = before;
  if (marked.empty()) return out;
  const std::string_view text = marked.view();
  std::vector<OriginEnd> origins;
  size_t end = 0;
  for (const MarkedText::Run run : marked.runs()) origins.push_back({end += run.bytes.size(), run.origin});

  Walk stable(*this, true, out.tokens);
  stable.run(text, origins, before);
  out.n_final_tokens = out.tokens.size();
  out.n_final_bytes = stable.n_final_bytes();
  out.resume = stable.resume();
  if (out.n_final_bytes == text.size()) return out;
  Walk(*this, false, out.tokens)
      .run(text.substr(out.n_final_bytes), origins_between(origins, out.n_final_bytes, text.size()), out.resume);
  return out;
}

std::string PipelineTokenizer::decode(TokenSpan ids) const {
  std::string out;
  bool begins = true;
  for (const TokenId id : ids) {
    const std::string_view bytes = token_bytes(id);
    if (bytes.empty()) continue;
    out.append(begins ? first_token_bytes(id) : bytes);
    begins = false;
  }
  return out;
}

bool PipelineTokenizer::is_special(TokenId id) const {
  return id >= 0 && static_cast<size_t>(id) < spec_.special.size() && spec_.special[static_cast<size_t>(id)];
}

std::optional<TokenId> PipelineTokenizer::find_token(std::string_view text) const {
  if (const auto added = added_ids_.find(std::string(text)); added != added_ids_.end()) return added->second;
  const TokenId id = find_model_token(text);
  return id == kNoToken ? std::nullopt : std::optional<TokenId>(id);
}

namespace {

BpeModel with_control(BpeModel model, const PipelineSpec& spec) {
  model.is_control = spec.special;
  return model;
}

}  // namespace

ByteLevelTokenizer::ByteLevelTokenizer(ByteLevelSpec spec)
    : PipelineTokenizer(std::move(static_cast<PipelineSpec&>(spec))),
      scan_(spec.scan),
      stages_(std::move(spec.split)),
      bpe_(this->spec().vocabulary, with_control(std::move(spec.bpe), this->spec())) {}

namespace {

std::string without_marks(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    if (text.substr(pos).starts_with(kSpaceMark)) {
      pos += kSpaceMark.size();
    } else {
      out += text[pos++];
    }
  }
  return out;
}

}  // namespace

PieceTokenizer::PieceTokenizer(PieceSpec spec)
    : PipelineTokenizer(std::move(static_cast<PipelineSpec&>(spec))),
      model_(std::move(spec.model)),
      cut_(spec.cut),
      split_(std::move(spec.split)),
      whole_newline_runs_(spec.whole_newline_runs),
      first_token_(spec.first_token) {
  if (first_token_ != FirstToken::kWithoutSpaces) return;
  const auto add = [this](TokenId id, std::string_view written) {
    if (written.find(kSpaceMark) != written.npos) without_spaces_.emplace(id, without_marks(written));
  };
  for (size_t i = 0; i < vocab_size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    add(id, model_->written().bytes(id));
  }
  for (const AddedToken& token : this->spec().added) add(token.id, token.text);
}

Piece PieceTokenizer::scan(std::string_view text, size_t begin, ScanMemory& memory) const {
  switch (cut_) {
    case PieceCut::kNowhere: break;
    case PieceCut::kSteps: return split_->scan(text, begin, memory);
    case PieceCut::kSpaceMarks: {
      const size_t end = text.find(kSpaceMark, begin + 1);
      return end == text.npos ? Piece{text.size(), true} : Piece{end, false};
    }
    case PieceCut::kLines: {
      const size_t newline = std::min(text.find('\n', begin), text.size());
      if (newline == begin) {
        const size_t end = text.find_first_not_of('\n', begin);
        return end == text.npos ? Piece{text.size(), true} : Piece{end, false};
      }
      const Piece piece = model_->scan(text.substr(0, newline), begin);
      return {piece.end, piece.touched_end && newline == text.size()};
    }
  }
  return model_->scan(text, begin);
}

void PieceTokenizer::encode_piece(std::string_view piece, bool /*only_template*/, Tokens& out) const {
  if (cut_ == PieceCut::kSpaceMarks || cut_ == PieceCut::kSteps) {
    model_->encode(piece, out);
    return;
  }
  if (whole_newline_runs_ && piece[0] == '\n') {
    if (const TokenId whole = model_->written().find(piece); whole != kNoToken) {
      out.push_back(whole);
      return;
    }
  }
  model_->encode_part(piece, out);
}

std::string_view PieceTokenizer::first_token_bytes(TokenId id) const {
  const std::string_view bytes = token_bytes(id);
  switch (first_token_) {
    case FirstToken::kAsItIs: break;
    case FirstToken::kWithoutOneSpace: return bytes.starts_with(' ') ? bytes.substr(1) : bytes;
    case FirstToken::kWithoutSpaces: {
      const auto found = without_spaces_.find(id);
      if (found != without_spaces_.end()) return found->second;
    }
  }
  return bytes;
}

}  // namespace ibid
