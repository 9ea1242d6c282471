// Encodes texts of raw bytes with the small tokenizers of tests/golden.
#include <algorithm>
#include <bitset>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "tests/fuzz/tokenizer_laws.h"
#include "tests/tokenizer/golden_tokenizers.h"

namespace ibid::fuzz {

namespace {

// Byte-level tokenizers that do not round-trip texts, because of a normal form or a step that drops characters.
constexpr std::string_view kChangeTexts[] = {"qwen2",     "qwen35",      "cl100k_removed",
                                             "behaviors", "words_alone", "prefix_accents"};

struct Family {
  std::unique_ptr<Tokenizer> tokenizer;
  bool keeps_texts;  // byte-level: decoding returns the encoded text if all its bytes have tokens
  std::bitset<256> has_token = {};
};

std::vector<Family> load_families() {
  std::vector<Family> families;
  const auto add = [&families](std::string_view name) {
    const bool byte_level = std::ranges::find(kPieceFamilies, name) == std::end(kPieceFamilies);
    Family& family =
        families.emplace_back(Family{load_golden_tokenizer(std::string(name)),
                                     byte_level && std::ranges::find(kChangeTexts, name) == std::end(kChangeTexts)});
    for (size_t b = 0; b < 256; ++b) {
      family.has_token[b] = !family.tokenizer->encode(std::string(1, static_cast<char>(b)), TextOrigin::kInput).empty();
    }
  };
  for (const char* name : kGoldenFamilies) add(name);
  for (const char* name : kStagedFamilies) add(name);
  for (const char* name : kPieceFamilies) add(name);
  return families;
}

}  // namespace

void encode(Input input) {
  static const std::vector<Family>& families = *new std::vector<Family>(load_families());
  Script script(input);
  const Family& family = script.pick(families);
  Script cuts(script.take(6));
  const std::string text(text_of(script.rest()));
  check_tokenizer(*family.tokenizer, text, cuts);
  if (!family.keeps_texts) return;
  const Tokens ids = family.tokenizer->encode(text, TextOrigin::kInput);
  const bool has_tokens = std::ranges::all_of(text, [&](char c) { return family.has_token[static_cast<uint8_t>(c)]; });
  // Some added tokens that a message may contain, <n...> and wn...w, remove spaces next to them.
  const bool may_swallow = text.find("<n") != text.npos || text.find("wn") != text.npos;
  if (has_tokens && !may_swallow) CHECK(family.tokenizer->decode(ids) == text);
  for (const TokenId id : ids) CHECK(!family.tokenizer->is_special(id)) << "message text was encoded as " << id;
}

}  // namespace ibid::fuzz
