#include "model/architectures/rules.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "weights/model_file.h"

namespace ibid {

namespace {

struct Other {
  std::string_view name;
  const char* what;
};

constexpr const char* kAdapter = "a LoRA adapter: load a model that it was merged into";
constexpr const char* kProjector = "an image projector: load the file of the language model";
constexpr const char* kMatrix = "an importance matrix for quantisation: load the model itself";
constexpr const char* kVocabulary = "a vocabulary without weights: load the model itself";
constexpr const char* kControl = "a control vector: load the model that it was made for";
constexpr const char* kEmbedding = "a bidirectional embedding model: only decoder models are supported";
constexpr const char* kReranker = "a reranker, which generates no text: load a chat model";
constexpr const char* kTwoParts = "an encoder-decoder model: only decoder models are supported";

// By general.type in GGUF.
constexpr Other kOtherTypes[] = {
    {"adapter", kAdapter}, {"mmproj", kProjector}, {"imatrix", kMatrix}, {"vocab", kVocabulary}};

// By general.architecture in GGUF, or model_type in config.json.
constexpr Other kOtherArchitectures[] = {
    {"clip", kProjector},
    {"controlvector", kControl},
    {"bert", kEmbedding},
    {"nomic-bert", kEmbedding},
    {"nomic-bert-moe", kEmbedding},
    {"nomic_bert", kEmbedding},
    {"jina-bert-v2", kEmbedding},
    {"jina-bert-v3", kEmbedding},
    {"modern-bert", kEmbedding},
    {"modernbert", kEmbedding},
    {"neo-bert", kEmbedding},
    {"eurobert", kEmbedding},
    {"gemma-embedding", kEmbedding},
    {"roberta", kEmbedding},
    {"xlm-roberta", kEmbedding},
    {"distilbert", kEmbedding},
    {"mpnet", kEmbedding},
    {"t5", kTwoParts},
    {"t5encoder", kEmbedding},
    {"bart", kTwoParts},
    {"whisper", kTwoParts},
};

constexpr int64_t kPoolingOfRerankers = 4;  // enum llama_pooling_type

template <size_t n>
const char* find(const Other (&rows)[n], const std::string& name) {
  for (const Other& row : rows) {
    if (row.name == name) return row.what;
  }
  return nullptr;
}

std::string text_at(const ModelFile& file, std::string_view key) {
  const auto text = file.get_string(key);
  return text.ok() && *text ? std::string(**text) : std::string();
}

const char* gguf_kind(const ModelFile& file) {
  if (const char* what = find(kOtherTypes, text_at(file, "general.type"))) return what;
  if (file.has("imatrix.datasets") || file.has("imatrix.chunk_count")) return kMatrix;
  const std::string architecture = text_at(file, "general.architecture");
  if (const char* what = find(kOtherArchitectures, architecture)) return what;
  const auto pooling = file.get_int(architecture + ".pooling_type");
  if (pooling.ok() && pooling->value_or(0) == kPoolingOfRerankers) return kReranker;
  return file.tensor_names().empty() && file.has("tokenizer.ggml.tokens") ? kVocabulary : nullptr;
}

const char* hf_kind(const ModelFile& file) {
  if (const char* what = find(kOtherArchitectures, text_at(file, "model_type"))) return what;
  const auto two_parts = file.get_bool("is_encoder_decoder");
  return two_parts.ok() && two_parts->value_or(false) ? kTwoParts : nullptr;
}

bool is_of_an_adapter(const std::string& tensor) {
  return tensor.find(".lora_A.") != std::string::npos || tensor.ends_with(".lora_a");
}

}  // namespace

Status refuse_other_files(const ModelFile& file) {
  const bool gguf = file.container() == Container::kGguf;
  const char* what = gguf ? gguf_kind(file) : hf_kind(file);
  if (what == nullptr && std::ranges::any_of(file.tensor_names(), is_of_an_adapter)) what = kAdapter;
  if (what != nullptr) return {ErrorCode::kUnsupported, file.path() + ": is " + what};
  if (!gguf && file.config_json() == nullptr) {
    return {ErrorCode::kMissingKey, file.path() +
                                        ": config.json, which describes the weights, is missing in its directory; "
                                        "name the model's directory"};
  }
  return {};
}

}  // namespace ibid
