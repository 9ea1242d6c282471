#include "tokenizer/loading/tokenizer_kind.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/json_limits.h"

namespace ibid {

namespace {

std::string gguf_family(std::string_view model) {
  if (model == "gpt2") return "byte-level BPE";
  if (model == "llama" || model == "gemma4") return "SentencePiece BPE";
  if (model == "t5") return "Unigram";
  if (model == "bert") return "WordPiece";
  return std::string(model);
}

// The types of a part of tokenizer.json, those of a Sequence one by one.
void add_types(const Json& part, std::vector<std::string>& types) {
  if (!part.is_object()) return;
  const auto type = part.find("type");
  if (type == part.end() || !type->is_string()) return;
  if (*type != "Sequence") {
    types.push_back(type->get<std::string>());
    return;
  }
  for (const char* list : {"pretokenizers", "decoders", "normalizers"}) {
    const auto steps = part.find(list);
    if (steps == part.end() || !steps->is_array()) continue;
    for (const Json& step : *steps) add_types(step, types);
  }
}

std::vector<std::string> types_of(const Json& json, const char* part) {
  std::vector<std::string> types;
  if (const auto found = json.find(part); found != json.end()) add_types(*found, types);
  return types;
}

bool holds(const std::vector<std::string>& types, std::string_view type) {
  return std::ranges::find(types, type) != types.end();
}

}  // namespace

TokenizerKind json_tokenizer_kind(const Json& root) {
  const auto model = root.find("model");
  std::string type = "BPE";
  if (model != root.end() && model->is_object()) {
    const auto named = model->find("type");
    if (named != model->end() && named->is_string()) type = named->get<std::string>();
  }
  const std::vector<std::string> pre = types_of(root, "pre_tokenizer");
  TokenizerKind kind{type, ""};
  if (type == "BPE") {
    const bool bytes = holds(pre, "ByteLevel") || holds(types_of(root, "decoder"), "ByteLevel");
    kind.family = bytes ? "byte-level BPE" : "SentencePiece BPE";
  }
  for (const std::string& step : pre) kind.pre_tokenizer += (kind.pre_tokenizer.empty() ? "" : ", ") + step;
  return kind;
}

std::optional<TokenizerKind> gguf_tokenizer_kind(const ModelFile& file) {
  const auto model = file.get_string("tokenizer.ggml.model");
  if (!model.ok() || !*model) return std::nullopt;
  const auto pre = file.get_string("tokenizer.ggml.pre");
  return TokenizerKind{gguf_family(**model), pre.ok() && *pre ? std::string(**pre) : std::string()};
}

}  // namespace ibid
