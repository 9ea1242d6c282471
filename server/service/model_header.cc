#include "server/service/model_header.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/dtype.h"

namespace ibid::serve {

namespace {

// general.file_type of GGUF: what the file was made as (llama.h, enum llama_ftype).
constexpr std::array<std::string_view, 39> kFileTypes = {
    "F32",     "F16",    "Q4_0",   "Q4_1",   "",       "",        "",       "Q8_0",   "Q5_0",   "Q5_1",
    "Q2_K",    "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_K_S", "Q4_K_M",  "Q5_K_S", "Q5_K_M", "Q6_K",   "IQ2_XXS",
    "IQ2_XS",  "Q2_K_S", "IQ3_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL",  "IQ3_S",  "IQ3_M",  "IQ2_S",  "IQ2_M",
    "IQ4_XS",  "IQ1_M",  "BF16",   "",       "",       "",        "TQ1_0",  "TQ2_0",  "MXFP4"};

std::string text_of(const ModelFile& file, std::string_view key) {
  const Result<std::optional<std::string_view>> text = file.get_string(key);
  return text.ok() && *text ? std::string(**text) : std::string();
}

size_t count_of(const ModelFile& file, const std::string& key) {
  const Result<std::optional<int64_t>> number = file.get_int(key);
  return number.ok() && *number && **number > 0 ? static_cast<size_t>(**number) : 0;
}

std::string_view type_of_most(const ModelFile& file, uint64_t& n_params) {
  std::array<uint64_t, kDTypeCount> n_of_type{};
  size_t most = 0;
  for (const std::string& name : file.tensor_names()) {
    const TensorView* tensor = file.find_tensor(name);
    if (tensor == nullptr) continue;
    const auto type = static_cast<size_t>(tensor->dtype);
    n_params += tensor->shape.elements();
    n_of_type.at(type) += tensor->shape.elements();
    if (n_of_type.at(type) > n_of_type.at(most)) most = type;
  }
  return n_params > 0 ? dtype_name(static_cast<DType>(most)) : std::string_view();
}

}  // namespace

ModelHeader read_model_header(const ModelFile& file) {
  const bool is_gguf = file.container() == Container::kGguf;
  ModelHeader header{.format = is_gguf ? "gguf" : "safetensors",
                     .family = text_of(file, is_gguf ? "general.architecture" : "model_type")};
  header.quantization = type_of_most(file, header.n_params);
  if (is_gguf) {
    const size_t made_as = file.has("general.file_type") ? count_of(file, "general.file_type") : kFileTypes.size();
    if (made_as < kFileTypes.size() && !kFileTypes[made_as].empty()) header.quantization = kFileTypes[made_as];
    header.trained_context = count_of(file, header.family + ".context_length");
    header.embedding_dim = count_of(file, header.family + ".embedding_length");
    header.chat_template = text_of(file, "tokenizer.chat_template");
    return header;
  }
  header.trained_context = count_of(file, "max_position_embeddings");
  header.embedding_dim = count_of(file, "hidden_size");
  if (Result<std::optional<std::string>> source = file.companion("chat_template.jinja"); source.ok() && *source) {
    header.chat_template = **std::move(source);
  }
  return header;
}

ModelHeader ModelHeaders::of(const HostedModel& model) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = by_path_.find(model.path);
    const bool is_known = known != by_path_.end() && known->second.file_bytes == model.file_bytes &&
                          known->second.created_s == model.created_s;
    if (is_known) return known->second.header;
  }
  const Result<std::unique_ptr<ModelFile>> file = open_model_file(model.path);
  ModelHeader header = file.ok() ? read_model_header(**file) : ModelHeader();
  const std::lock_guard lock(mutex_);
  by_path_[model.path] = {model.file_bytes, model.created_s, header};
  return header;
}

}  // namespace ibid::serve
