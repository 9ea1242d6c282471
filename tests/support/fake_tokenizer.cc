#include "tests/support/fake_tokenizer.h"

#include "base/check.h"

namespace ibid {

FakeTokenizer::FakeTokenizer(const std::vector<std::string>& more_special, const std::vector<std::string>& ends)
    : FakeTokenizer({"ab", "abc", "abcd", "\n\n", "Hello", "lo", " wor", " world", "th", "the", "ing", ".\n", "<think>",
                     "</think>", "user", "assistant"},
                    more_special, ends) {}

FakeTokenizer FakeTokenizer::small() { return FakeTokenizer({"ab", "Hello", "</think>", "assistant"}, {}, {}); }

FakeTokenizer::FakeTokenizer(const std::vector<std::string>& pieces, const std::vector<std::string>& more_special,
                             const std::vector<std::string>& ends) {
  for (int byte = 0; byte < 256; ++byte) pieces_.push_back(std::string(1, static_cast<char>(byte)));
  pieces_.insert(pieces_.end(), pieces.begin(), pieces.end());
  first_special_ = static_cast<TokenId>(pieces_.size());
  for (const char* special : {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|tool|>"}) pieces_.push_back(special);
  end_of_text = first_special_;
  im_start = first_special_ + 1;
  im_end = first_special_ + 2;
  end_of_turn_ = {end_of_text, im_end};
  pieces_.insert(pieces_.end(), more_special.begin(), more_special.end());
  for (const std::string& end : ends) end_of_turn_.push_back(find_token(end).value());
}

PartialEncoding FakeTokenizer::encode_growing(const MarkedText& marked, TextContext) const {
  const std::string_view text = marked.view();
  std::vector<size_t> special_until;  // by byte: largest end of a special token that begins there; 0: none may
  for (const MarkedText::Run run : marked.runs()) {
    const size_t end = special_until.size() + run.bytes.size();
    special_until.resize(end, run.origin == TextOrigin::kTemplate ? end : 0);
  }
  PartialEncoding out;
  bool final = true;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    size_t best = 0;
    bool can_grow = false;
    for (size_t id = 0; id < pieces_.size(); ++id) {
      const std::string& piece = pieces_[id];
      can_grow |= piece.size() > rest.size() && piece.starts_with(rest);
      if (!rest.starts_with(piece)) continue;
      if (is_special(static_cast<TokenId>(id)) && at + piece.size() > special_until[at]) continue;
      if (best == 0 || piece.size() > pieces_[best].size()) best = id;
    }
    final = final && !can_grow;
    at += pieces_[best].size();
    out.tokens.push_back(static_cast<TokenId>(best));
    if (!final) continue;
    out.n_final_tokens = out.tokens.size();
    out.n_final_bytes = at;
  }
  out.resume.at_start = false;
  return out;
}

Tokens FakeTokenizer::encode(std::string_view text, TextOrigin origin, bool) const {
  if (text.empty()) return {};
  return encode_growing(MarkedText(std::string(text), origin), {}).tokens;
}

std::string_view FakeTokenizer::token_bytes(TokenId id) const {
  if (id < 0 || static_cast<size_t>(id) >= pieces_.size()) return {};
  return pieces_[static_cast<size_t>(id)];
}

std::string FakeTokenizer::decode(TokenSpan ids) const {
  std::string text;
  for (const TokenId id : ids) text += token_bytes(id);
  return text;
}

std::optional<TokenId> FakeTokenizer::find_token(std::string_view text) const {
  for (size_t id = 0; id < pieces_.size(); ++id) {
    if (pieces_[id] == text) return static_cast<TokenId>(id);
  }
  return std::nullopt;
}

Tokens FakeTokenizer::sampled(const std::vector<std::string>& pieces) const {
  Tokens out;
  for (const std::string& piece : pieces) {
    const std::optional<TokenId> id = find_token(piece);
    CHECK(id.has_value()) << piece;
    out.push_back(*id);
  }
  return out;
}

}  // namespace ibid
