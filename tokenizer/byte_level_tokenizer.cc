#include "tokenizer/byte_level_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "tokenizer/nfc.h"

namespace ibid {
namespace {

std::vector<AddedToken> added_of_stage(const std::vector<AddedToken>& all, bool normalized, bool nfc) {
  std::vector<AddedToken> out;
  for (const AddedToken& token : all) {
    if (token.normalized != normalized) continue;
    out.push_back(token);
    if (normalized && nfc) out.back().text = std::string(NfcText(token.text).text());
  }
  // Two texts can have one normal form; the reference finds the first, specials before others.
  std::stable_partition(out.begin(), out.end(), [](const auto& token) { return token.special; });
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.text < b.text; });
  out.erase(
      std::unique(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.text == b.text; }),
      out.end());
  return out;
}

// A stretch of the text being encoded, in the form in which it is searched, and its way back to raw bytes.
struct Stretch {
  std::string_view text;
  std::vector<OriginEnd> origins;
  size_t raw_begin;
  const NfcText* nfc;  // nullptr: `text` is the raw text from raw_begin on

  std::optional<size_t> raw_position(size_t position) const {
    if (nfc == nullptr) return raw_begin + position;
    const std::optional<size_t> raw = nfc->raw_position(position);
    return raw ? std::optional<size_t>(raw_begin + *raw) : std::nullopt;
  }
};

std::vector<OriginEnd> origins_between(std::span<const OriginEnd> origins, size_t begin, size_t end) {
  std::vector<OriginEnd> out;
  for (const OriginEnd& run : origins) {
    if (run.end <= begin) continue;
    out.push_back({std::min(run.end, end) - begin, run.origin});
    if (run.end >= end) break;
  }
  return out;
}

// Whether a place lies strictly inside a hidden match, asked for places that never decrease.
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

// One pass over a text. Growing: it emits only what no append can change and remembers the last place from
// which encoding may resume; else it takes the text as complete.
class ByteLevelTokenizer::Walk {
 public:
  Walk(const ByteLevelTokenizer& tokenizer, bool growing, Tokens& out)
      : tokenizer_(tokenizer), growing_(growing), out_(out), n_final_tokens_(out.size()) {}

  void run(std::string_view raw, std::span<const OriginEnd> origins, TextContext before) {
    const auto split = tokenizer_.raw_added_.split(raw, origins, before.after_word, growing_);
    HiddenMatches hidden(split.hidden);
    hidden_ = &hidden;
    certain_end_ = split.certain_end;
    resume_ = before;
    for (size_t i = 0; i < split.sections.size(); ++i) {
      const auto& section = split.sections[i];
      const bool is_last = i + 1 == split.sections.size();
      if (section.token == kNoToken) {
        const bool after_text = section.begin == 0 && before.after_text;
        between_tokens(raw.substr(0, section.end), section.begin, origins, after_text && before.after_word,
                       growing_ && is_last);
      } else {
        out_.push_back(section.token);
        if (is_last || split.sections[i + 1].begin >= section.end) mark(section.end, false);
      }
    }
    if (!growing_) return;
    out_.resize(n_final_tokens_);
    if (n_final_bytes_ == 0) return;
    resume_.at_start = false;
    resume_.after_word = tokenizer_.asks_for_words() && ends_with_word(raw.substr(0, n_final_bytes_));
  }

  size_t n_final_bytes() const { return n_final_bytes_; }
  const TextContext& resume() const { return resume_; }

 private:
  // Text between added tokens of the raw stage: raw[begin..]. Open: it may go on behind its end.
  void between_tokens(std::string_view raw, size_t begin, std::span<const OriginEnd> origins, bool after_word,
                      bool open) {
    std::string_view text = raw.substr(begin);
    if (tokenizer_.spec_.nfc && open) text = text.substr(0, nfc_stable_prefix(text));
    Stretch stretch{text, origins_between(origins, begin, begin + text.size()), begin, nullptr};
    std::optional<NfcText> nfc;
    if (tokenizer_.spec_.nfc) {
      nfc.emplace(text);
      stretch.text = nfc->text();
      stretch.nfc = &*nfc;
      for (OriginEnd& run : stretch.origins) run.end = nfc->position_of(run.end);
    }
    if (tokenizer_.normalized_added_.empty()) {
      HiddenMatches none(kNone);
      pieces(stretch, 0, stretch.text.size(), none, open);
      return;
    }
    const auto split = tokenizer_.normalized_added_.split(stretch.text, stretch.origins, after_word, open);
    HiddenMatches hidden(split.hidden);
    for (size_t i = 0; i < split.sections.size(); ++i) {
      const auto& section = split.sections[i];
      const bool is_last = i + 1 == split.sections.size();
      if (section.token == kNoToken) {
        pieces(stretch, section.begin, section.end, hidden, open && is_last);
        continue;
      }
      out_.push_back(section.token);
      const bool in_order = is_last || split.sections[i + 1].begin >= section.end;
      if (open && in_order && section.end <= split.certain_end) mark_in(stretch, section.end, hidden);
    }
  }

  void pieces(const Stretch& stretch, size_t begin, size_t end, HiddenMatches& hidden, bool open) {
    const std::string_view text = stretch.text.substr(0, end);
    const ScanFunction scan = tokenizer_.spec_.pretokenizer->scan;
    size_t run = 0;
    for (size_t pos = 0; begin + pos < end;) {
      const Piece piece = scan(text.substr(begin), pos);
      if (open && piece.touched_end) break;
      while (stretch.origins[run].end <= begin + pos) ++run;
      bool only_template = true;
      for (size_t r = run;; ++r) {
        only_template &= stretch.origins[r].origin == TextOrigin::kTemplate;
        if (stretch.origins[r].end >= begin + piece.end) break;
      }
      tokenizer_.bpe_.encode(text.substr(begin + pos, piece.end - pos), only_template, out_);
      pos = piece.end;
      if (open) mark_in(stretch, begin + pos, hidden);
    }
  }

  void mark_in(const Stretch& stretch, size_t position, HiddenMatches& hidden) {
    if (hidden.contain(position)) return;
    if (const std::optional<size_t> raw = stretch.raw_position(position)) mark(*raw, true);
  }

  // Encoding may resume at raw[position]; what stands in out_ is final.
  void mark(size_t position, bool after_text) {
    if (!growing_ || position > certain_end_ || hidden_->contain(position)) return;
    n_final_bytes_ = position;
    n_final_tokens_ = out_.size();
    resume_.after_text = after_text;
  }

  static inline const std::vector<AddedTokenSet::Section> kNone;

  const ByteLevelTokenizer& tokenizer_;
  const bool growing_;
  Tokens& out_;
  HiddenMatches* hidden_ = nullptr;
  size_t certain_end_ = 0;
  size_t n_final_tokens_;
  size_t n_final_bytes_ = 0;
  TextContext resume_;
};

ByteLevelTokenizer::ByteLevelTokenizer(ByteLevelSpec spec)
    : spec_(std::move(spec)),
      special_(spec_.bpe.is_control),
      bpe_(spec_.vocabulary, std::move(spec_.bpe)),
      raw_added_(added_of_stage(spec_.added, false, spec_.nfc)),
      normalized_added_(added_of_stage(spec_.added, true, spec_.nfc)) {
  for (const AddedToken& token : spec_.added) added_ids_.emplace(token.text, token.id);
}

Tokens ByteLevelTokenizer::encode(std::string_view text, TextOrigin origin, bool add_special) const {
  Tokens out;
  if (add_special) out = spec_.prefix;
  if (!text.empty()) {
    const OriginEnd run{text.size(), origin};
    Walk(*this, false, out).run(text, {&run, 1}, {});
  }
  if (add_special) out.insert(out.end(), spec_.suffix.begin(), spec_.suffix.end());
  return out;
}

GrowingEncoding ByteLevelTokenizer::encode_growing(std::span<const OriginRun> runs,
                                                   TextContext before) const {
  GrowingEncoding out;
  out.resume = before;
  std::string joined;
  std::vector<OriginEnd> origins;
  std::string_view text = runs.size() == 1 ? runs[0].bytes : std::string_view{};
  size_t end = 0;
  for (const OriginRun& run : runs) {
    if (runs.size() > 1) joined.append(run.bytes);
    end += run.bytes.size();
    origins.push_back({end, run.origin});
  }
  if (runs.size() > 1) text = joined;
  if (text.empty()) return out;

  Walk stable(*this, true, out.tokens);
  stable.run(text, origins, before);
  out.n_final_tokens = out.tokens.size();
  out.n_final_bytes = stable.n_final_bytes();
  out.resume = stable.resume();
  if (out.n_final_bytes == text.size()) return out;
  Walk(*this, false, out.tokens)
      .run(text.substr(out.n_final_bytes), origins_between(origins, out.n_final_bytes, text.size()),
           out.resume);
  return out;
}

std::string ByteLevelTokenizer::decode(TokenSpan ids) const {
  std::string out;
  for (const TokenId id : ids) out.append(token_bytes(id));
  return out;
}

bool ByteLevelTokenizer::is_special(TokenId id) const {
  return id >= 0 && static_cast<size_t>(id) < special_.size() && special_[static_cast<size_t>(id)];
}

std::optional<TokenId> ByteLevelTokenizer::find_token(std::string_view text) const {
  if (const auto added = added_ids_.find(std::string(text)); added != added_ids_.end()) return added->second;
  const TokenId id = spec_.vocabulary.find(text);
  return id == kNoToken ? std::nullopt : std::optional<TokenId>(id);
}

}  // namespace ibid
