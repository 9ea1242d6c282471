#include "server/service/prompt_tokens.h"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace ibid::serve {
namespace {

// The tokens that one family of models has before the prefix, suffix and middle of a text, named as in llama.cpp
// (src/llama-vocab.cpp), and those of Mistral's models, which read the suffix first and have no token before the
// middle.
struct FamilyNames {
  std::string_view prefix, suffix, middle;
  bool suffix_first = false;
};
constexpr FamilyNames kFamilies[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},  // Qwen, CodeGemma
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},        // StarCoder, Granite
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
    {"<\uFF5Cfim\u2581begin\uFF5C>", "<\uFF5Cfim\u2581hole\uFF5C>", "<\uFF5Cfim\u2581end\uFF5C>"},  // DeepSeek
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},                                      // GLM
    {"<PRE>", "<SUF>", "<MID>"},                                                                    // CodeLlama
    {"\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>"},
    {" <PRE>", " <SUF>", " <MID>"},
    {"[PREFIX]", "[SUFFIX]", "", true},  // Codestral
};
constexpr std::string_view kRepositories[] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"};
constexpr std::string_view kFiles[] = {"<|file_sep|>", "<file_sep>"};

struct InfillTokens {
  TokenId prefix = 0, suffix = 0;
  std::optional<TokenId> middle = {}, repository = {}, file = {};
  bool suffix_first = false;
};

std::optional<TokenId> first_of(const Tokenizer& tokenizer, std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    if (const std::optional<TokenId> id = tokenizer.find_token(name)) return id;
  }
  return std::nullopt;
}

std::optional<InfillTokens> infill_tokens(const Tokenizer& tokenizer) {
  for (const FamilyNames& family : kFamilies) {
    const std::optional<TokenId> prefix = tokenizer.find_token(family.prefix);
    const std::optional<TokenId> suffix = tokenizer.find_token(family.suffix);
    const std::optional<TokenId> middle = family.middle.empty() ? std::nullopt : tokenizer.find_token(family.middle);
    if (!prefix || !suffix || (!family.middle.empty() && !middle)) continue;
    return InfillTokens{.prefix = *prefix,
                        .suffix = *suffix,
                        .middle = middle,
                        .repository = first_of(tokenizer, kRepositories),
                        .file = first_of(tokenizer, kFiles),
                        .suffix_first = family.suffix_first};
  }
  return std::nullopt;
}

// Returns the tokens that the tokenizer puts before every text.
Tokens tokens_in_front(const Tokenizer& tokenizer) {
  Tokens ids = tokenizer.encode("", TextOrigin::kTemplate, true);
  if (!tokenizer.bos() || ids.empty() || ids.front() != *tokenizer.bos()) return {};
  ids.resize(1);
  return ids;
}

void append(Tokens& ids, const Tokens& more) { ids.insert(ids.end(), more.begin(), more.end()); }

// Appends the context in the form of llama.cpp's server: the name of the repository, then each file after its name.
void append_files(const Tokenizer& tokenizer, const InfillTokens& special, const Infill& infill, Tokens& ids) {
  if (infill.files.empty()) return;
  const auto text = [&](const std::string& one) { append(ids, tokenizer.encode(one, TextOrigin::kInput)); };
  if (special.repository) {
    ids.push_back(*special.repository);
    text("myproject\n");
  }
  for (const Infill::File& file : infill.files) {
    if (special.file) {
      ids.push_back(*special.file);
      text(file.name + "\n");
    } else {
      text("\n\n--- snippet ---\n\n");
    }
    text(file.text);
  }
  if (!special.file) return;
  ids.push_back(*special.file);
  text("filename\n");
}

Tokens ids_of_infill(const Tokenizer& tokenizer, const InfillTokens& special, const Infill& infill) {
  Tokens ids = tokens_in_front(tokenizer);
  append_files(tokenizer, special, infill, ids);
  const auto part = [&](TokenId mark, const std::string& text) {
    ids.push_back(mark);
    append(ids, tokenizer.encode(text, TextOrigin::kInput));
  };
  if (special.suffix_first) part(special.suffix, infill.suffix);
  part(special.prefix, infill.prefix);
  if (!special.suffix_first) part(special.suffix, infill.suffix);
  if (special.middle) ids.push_back(*special.middle);
  return ids;
}

}  // namespace

Tokens ids_of_pieces(const Tokenizer& tokenizer, const PromptPieces& pieces) {
  Tokens ids;
  for (const auto& piece : pieces) {
    const auto* text = std::get_if<std::string>(&piece);
    if (text == nullptr) {
      append(ids, std::get<Tokens>(piece));
      continue;
    }
    if (&piece == &pieces.front()) ids = tokens_in_front(tokenizer);
    append(ids, tokenizer.encode(*text, TextOrigin::kTemplate));
  }
  return ids;
}

void set_text_biases(const Tokenizer& tokenizer, AnswerRequest& request) {
  std::map<TokenId, double> biases;
  for (const auto& [text, bias] : request.text_biases) {
    for (const TokenId id : tokenizer.encode(text, TextOrigin::kInput)) biases[id] = bias;
  }
  request.options.sampler.logit_bias.merge(std::move(biases));
}

bool can_infill(const Tokenizer& tokenizer) { return infill_tokens(tokenizer).has_value(); }

Status tokenize_prompt(const Engine& engine, std::optional<Prompt>& prompt) {
  if (!prompt) return {};
  const Tokenizer& tokenizer = engine.state().tokenizer();
  if (const auto* pieces = std::get_if<PromptPieces>(&*prompt)) {
    prompt = ids_of_pieces(tokenizer, *pieces);
  } else if (const auto* infill = std::get_if<Infill>(&*prompt)) {
    const std::optional<InfillTokens> special = infill_tokens(tokenizer);
    if (!special) {
      return {ErrorCode::kUnsupported,
              "suffix: the vocabulary of " + engine.name() + " has no tokens for filling in the middle"};
    }
    prompt = ids_of_infill(tokenizer, *special, *infill);
  }
  return {};
}

}  // namespace ibid::serve
