#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/byte_level_builder.h"
#include "tokenizer/tokenizer_loaders.h"
#include "weights/in_quotes.h"

namespace ibid {
namespace {

// tokenizer.ggml.token_type (ggml, docs/gguf.md).
enum TokenType : int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

Status error(const ModelFile& file, ErrorCode code, const std::string& words) {
  return {code, file.path() + ": " + words};
}

Status missing(const ModelFile& file, std::string_view key) {
  return error(file, ErrorCode::kMissingKey, std::string(key) + " is missing");
}

Result<const PretokenizerFamily*> read_pretokenizer(const ModelFile& file) {
  constexpr std::string_view kKey = "tokenizer.ggml.pre";
  TRY_ASSIGN(const std::optional<std::string_view> name, file.get_string(kKey));
  if (!name) return missing(file, kKey);
  const PretokenizerFamily* family = find_pretokenizer_by_gguf_name(*name);
  if (family == nullptr) {
    return error(file, ErrorCode::kUnsupported,
                 "the pre-tokenizer " + in_quotes(*name) + " is not supported");
  }
  return family;
}

// The embedding has a row for every token; rows beyond the vocabulary are padding.
Status check_embedding(const ModelFile& file, size_t n_tokens) {
  const TensorView* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.rank < 2 || embedding->shape[0] >= n_tokens) return {};
  return error(file, ErrorCode::kBadVocab,
               "the vocabulary has " + std::to_string(n_tokens) + " tokens, token_embd.weight only " +
                   std::to_string(embedding->shape[0]) + " rows");
}

Status add_token(ByteLevelBuilder& builder, TokenId id, std::string_view text, int64_t type) {
  switch (type) {
    case kNormal:
    case kUnused: return builder.add_model_token(id, text);
    case kUnknown:
    case kControl:
    case kUserDefined:
      return builder.add_added_token({.text = std::string(text), .id = id, .special = type != kUserDefined});
    case kByte: return builder.add_byte_token(id, text);
    default:
      return builder.error(ErrorCode::kBadVocab,
                           "token " + std::to_string(id) + " has the unknown type " + std::to_string(type));
  }
}

Status add_tokens(const ModelFile& file, ByteLevelBuilder& builder,
                  const std::vector<std::string_view>& tokens) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  TRY_ASSIGN(const std::optional<std::vector<int64_t>> types, file.get_ints(kKey));
  if (types && types->size() != tokens.size()) {
    return error(file, ErrorCode::kBadVocab,
                 std::string(kKey) + " has " + std::to_string(types->size()) + " entries for " +
                     std::to_string(tokens.size()) + " tokens");
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    TRY(add_token(builder, static_cast<TokenId>(i), tokens[i], types ? (*types)[i] : int64_t{kNormal}));
  }
  return {};
}

Status add_merges(const ModelFile& file, ByteLevelBuilder& builder) {
  constexpr std::string_view kKey = "tokenizer.ggml.merges";
  TRY_ASSIGN(const std::optional<std::vector<std::string_view>> merges, file.get_strings(kKey));
  if (!merges) return missing(file, kKey);
  for (const std::string_view merge : *merges) {
    const size_t space = merge.find(' ');
    if (space == std::string_view::npos) {
      return error(file, ErrorCode::kBadMerge, "the merge " + in_quotes(merge) + " has no two sides");
    }
    TRY(builder.add_merge(merge.substr(0, space), merge.substr(space + 1)));
  }
  return {};
}

Result<std::optional<TokenId>> read_id(const ModelFile& file, const ByteLevelBuilder& builder,
                                       std::string_view key) {
  TRY_ASSIGN(const std::optional<int64_t> id, file.get_int(key));
  if (!id) return std::optional<TokenId>();
  TRY_ASSIGN(const TokenId checked, builder.checked_id(*id, key));
  return std::optional<TokenId>(checked);
}

// Adds `id` at the ends of texts where the file, or else its family, says so.
Status add_around(const ModelFile& file, std::string_view key, bool by_default, std::optional<TokenId> id,
                  Tokens& around) {
  TRY_ASSIGN(const std::optional<bool> wanted, file.get_bool(key));
  if (!wanted.value_or(by_default)) return {};
  if (!id) {
    if (!wanted) return {};
    return error(file, ErrorCode::kMissingKey,
                 std::string(key) + " is true, but the file does not name that token");
  }
  around.push_back(*id);
  return {};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_gguf_tokenizer(const ModelFile& file) {
  TRY_ASSIGN(const std::optional<std::string_view> model, file.get_string("tokenizer.ggml.model"));
  if (!model) return missing(file, "tokenizer.ggml.model");
  if (*model != "gpt2") {
    return error(file, ErrorCode::kUnsupported,
                 "the tokenizer model " + in_quotes(*model) + " is not supported, only 'gpt2' is");
  }
  TRY_ASSIGN(const PretokenizerFamily* family, read_pretokenizer(file));
  TRY_ASSIGN(const std::optional<std::vector<std::string_view>> tokens,
             file.get_strings("tokenizer.ggml.tokens"));
  if (!tokens) return missing(file, "tokenizer.ggml.tokens");
  if (tokens->empty() || tokens->size() > VocabularyLimits::kMaxTokens) {
    return error(file, ErrorCode::kBadVocab,
                 "tokenizer.ggml.tokens has " + std::to_string(tokens->size()) + " entries, wanted 1 to " +
                     std::to_string(VocabularyLimits::kMaxTokens));
  }
  TRY(check_embedding(file, tokens->size()));

  ByteLevelBuilder builder(file.path(), tokens->size());
  TRY(add_tokens(file, builder, *tokens));
  TRY(add_merges(file, builder));
  ByteLevelSpec& spec = builder.spec();
  spec.pretokenizer = family;
  spec.nfc = family->nfc;
  spec.bpe.ignore_merges = family->ignore_merges;
  TRY_ASSIGN(spec.bos, read_id(file, builder, "tokenizer.ggml.bos_token_id"));
  TRY_ASSIGN(spec.eos, read_id(file, builder, "tokenizer.ggml.eos_token_id"));
  for (const std::string_view key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    TRY_ASSIGN(const std::optional<TokenId> id, read_id(file, builder, key));
    if (id) spec.end_of_turn.push_back(*id);
  }
  TRY(add_around(file, "tokenizer.ggml.add_bos_token", family->add_bos, spec.bos, spec.prefix));
  TRY(add_around(file, "tokenizer.ggml.add_eos_token", false, spec.eos, spec.suffix));
  return builder.finish();
}

}  // namespace ibid
