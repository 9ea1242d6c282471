#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/random_text.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

inline constexpr const char* kGoldenFamilies[] = {"gpt2",   "smollm", "llama3", "qwen2",
                                                  "qwen35", "o200k",  "tekken", "deepseek_v3"};

// Byte-level families whose pre-tokenizer has several steps.
inline constexpr const char* kStagedFamilies[] = {"falcon",      "deepseek_coder", "kimi_k2",
                                                  "mixed_steps", "cl100k_removed", "right_digits",
                                                  "behaviors",   "words_alone",    "prefix_accents"};
// Families whose tokens are written as text.
inline constexpr const char* kPieceFamilies[] = {"llama2",        "gemma",   "metaspace_first", "metaspace_words",
                                                 "words_unknown", "unigram", "metaspace_digits"};

// REQUIRES: `family` is in one of these lists.
std::unique_ptr<Tokenizer> load_golden_tokenizer(const std::string& family);

// Returns the tokens of a text in which all added tokens are recognised.
inline Tokens all_ids(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, TextOrigin::kTemplate);
}

struct TokenizerCase {
  std::string text;
  TextOrigin origin = TextOrigin::kTemplate;
  bool add_special = false;
  Tokens ids;
  std::string decoded;  // equal to `text` if the file does not have it
  bool checks_decoded = true;
};

std::vector<TokenizerCase> read_tokenizer_cases(const std::string& path);

// Fails the running test for every case whose result differs.
void expect_cases(const Tokenizer& tokenizer, const std::vector<TokenizerCase>& cases);

}  // namespace ibid
