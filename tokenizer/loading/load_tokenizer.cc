#include <optional>
#include <string>

#include "tokenizer/loading/tokenizer_loaders.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

namespace {

Result<std::unique_ptr<Tokenizer>> load(const ModelFile& file, std::optional<TokenizerKind>& kind) {
  TRY_ASSIGN(const std::optional<std::string> json, file.companion("tokenizer.json"));
  if (json) return load_json_tokenizer(file, *json, kind);
  kind = gguf_tokenizer_kind(file);
  if (file.container() == Container::kGguf) return load_gguf_tokenizer(file);
  return {ErrorCode::kMissingKey, file.path() + ": there is no tokenizer.json beside the weights, so no text can be "
                                                "read: fetch it from where the model came from"};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const ModelFile& file, std::optional<TokenizerKind>& kind) {
  Result<std::unique_ptr<Tokenizer>> tokenizer = load(file, kind);
  TRY(file.check_unchanged());  // first: an error may come of it
  return tokenizer;
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const ModelFile& file) {
  std::optional<TokenizerKind> kind;
  return load_tokenizer(file, kind);
}

}  // namespace ibid
