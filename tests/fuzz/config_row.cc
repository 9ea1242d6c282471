// Raw bytes as the JSON of a config.json, or of a GGUF's keys if they contain general.architecture. The keys are
// converted to a row of the architectures, first with only an embedding, then with every tensor that the row requires;
// the last bytes remove or change one of these tensors.
#include <map>
#include <string>

#include "base/check.h"
#include "base/json_limits.h"
#include "model/architectures/architectures.h"
#include "model/memory_plan.h"
#include "model/tensors/tensor_source.h"
#include "model/weights/unused_tensors.h"
#include "tests/fuzz/script.h"
#include "tests/tokenizer/memory_model_file.h"
#include "weights/model_json.h"

namespace ibid::fuzz {

namespace {

constexpr size_t kMaxTensors = 300;
constexpr uint64_t kMaxBytes = 1 << 20;  // of one tensor

// A config.json and tensors of zeros.
class MadeCheckpoint : public MemoryModelFile {
 public:
  explicit MadeCheckpoint(const Json& config)
      : MemoryModelFile({}), config_(config), values_(&config_, "config.json") {}

  void add(const std::string& name, const TensorView& tensor) { tensors_.insert_or_assign(name, tensor); }
  // Adds a tensor of zeros. Returns false if it would be too large.
  bool add(const std::string& name, const Shape& shape) {
    static const std::vector<std::byte>& zeros = *new std::vector<std::byte>(kMaxBytes);
    for (size_t i = 0; i < shape.rank; ++i) {
      if (shape[i] > kMaxBytes / sizeof(float)) return false;
    }
    if (shape.elements() > kMaxBytes / sizeof(float)) return false;
    add(name, TensorView{DType::kF32, shape, std::span(zeros).first(shape.elements() * sizeof(float))});
    return true;
  }
  std::map<std::string, TensorView, std::less<>>& tensors() { return tensors_; }

  Container container() const override {
    return config_.contains("general.architecture") ? Container::kGguf : Container::kSafetensors;
  }
  bool has(std::string_view key) const override { return values_.find(key) != nullptr; }
  Result<std::optional<int64_t>> get_int(std::string_view key) const override { return values_.get_int(key); }
  Result<std::optional<double>> get_float(std::string_view key) const override { return values_.get_float(key); }
  Result<std::optional<bool>> get_bool(std::string_view key) const override { return values_.get_bool(key); }
  Result<std::optional<std::string_view>> get_string(std::string_view key) const override {
    return values_.get_string(key);
  }
  Result<std::optional<std::vector<std::string_view>>> get_strings(std::string_view key) const override {
    return values_.get_strings(key);
  }
  Result<std::optional<std::vector<int64_t>>> get_ints(std::string_view key) const override {
    return values_.get_ints(key);
  }
  Result<std::optional<std::vector<double>>> get_floats(std::string_view key) const override {
    return values_.get_floats(key);
  }
  const std::vector<std::string>& tensor_names() const override {
    names_.clear();
    for (const auto& [name, tensor] : tensors_) names_.push_back(name);
    return names_;
  }
  const Json* config_json() const override { return container() == Container::kGguf ? nullptr : &config_; }
  const TensorView* find_tensor(std::string_view name) const override {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }

 private:
  const Json& config_;
  JsonValues values_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  mutable std::vector<std::string> names_;
};

void check_config(const ModelConfig& config) {
  CHECK(config.n_layers >= 1 && config.layers.size() == config.n_layers);
  CHECK((config.n_heads >= 1 || !config.attends()) && config.dim >= 1);
  for (const LayerConfig& layer : config.layers) {
    if (!layer.attends) continue;
    CHECK(layer.n_kv_heads >= 1 && layer.head_dim >= 1 && config.n_heads % layer.n_kv_heads == 0);
  }
  CHECK(config.ropes.size() <= kMaxRopes && config.norm_eps > 0);
  for (const LayerConfig& layer : config.layers) {
    CHECK(!layer.attends || layer.rope == kNoRope || layer.rope < config.ropes.size());
    CHECK(layer.ffn_dim != 0 || config.has_experts() || config.recurs());
    CHECK_LE(layer.window, size_t{1} << 30);
  }
  if (config.has_experts()) CHECK_LE(config.moe.router.n_experts_active, config.moe.router.n_experts);
}

// Adds every tensor that the table requires for the model. Returns false if there are too many, or one is too large.
bool make_tensors(const ModelConfig& config, MadeCheckpoint& file) {
  if (config.n_layers > 8 || config.moe.router.n_experts > 8) return false;
  for (const TensorRow& row : tensor_table()) {
    const size_t n_layers = row.per_layer() ? config.n_layers : 1;
    for (size_t layer = 0; layer < n_layers; ++layer) {
      if (row.presence(config, layer) != Presence::kMust) continue;
      for (size_t e = 0; e < n_copies(row, config, layer); ++e) {
        const std::string name = tensor_name(file, config, row.role, layer, e);
        if (name.empty()) continue;  // such a role is always part of another tensor
        Shape shape{{row.rows(config, layer)}, 1};
        if (row.is_matrix()) shape.dims[shape.rank++] = row.cols(config, layer);
        if (row.is_matrix() && row.per_layer() && config.transposed) std::swap(shape.dims[0], shape.dims[1]);
        if (!file.add(name, shape) || file.tensors().size() > kMaxTensors) return false;
      }
    }
  }
  return true;
}

// Removes a tensor, or changes its shape or type.
void spoil(Script& script, MadeCheckpoint& file) {
  auto tensor = file.tensors().begin();
  std::advance(tensor, script.byte() % file.tensors().size());
  switch (script.byte() % 8) {
    case 0: file.tensors().erase(tensor); break;
    case 1: tensor->second.shape.rank = 1; break;
    case 2: tensor->second.shape.dims[0] += 1; break;
    case 3: tensor->second.dtype = DType::kI8; break;
    case 4: tensor->second.shape.dims[tensor->second.shape.rank++] = 1; break;
    default: break;
  }
}

bool lies_within(const TensorView& part, const TensorView& whole) {
  if (part.data.empty()) return true;
  return part.data.data() >= whole.data.data() &&
         part.data.data() + part.data.size() <= whole.data.data() + whole.data.size();
}

void check_sources(const MadeCheckpoint& file, const ModelConfig& config) {
  for (const TensorRow& row : tensor_table()) {
    for (size_t layer = 0; layer < (row.per_layer() ? config.n_layers : 1); ++layer) {
      const auto source = find_source(file, config, row, layer, 0);
      if (!source.ok() || !source->found()) continue;
      const TensorView* whole = file.find_tensor(source->name);
      CHECK(whole != nullptr && lies_within(source->tensor, *whole)) << source->name;
      if (!source->transposed) CHECK_LE(source->n_rows, source->tensor.shape.elements()) << source->name;
    }
  }
}

}  // namespace

void config_row(Input input) {
  const auto config = parse_model_json(text_of(input), "config.json", {.max_depth = 16});
  if (!config.ok() || !config->is_object()) return;
  MadeCheckpoint file(*config);
  const auto said = file.get_int("hidden_size");
  const int64_t dim = said.ok() ? said->value_or(64) : 64;
  const Shape embedding{{16, static_cast<uint64_t>(std::clamp<int64_t>(dim, 1, 4096))}, 2};
  for (const char* name :
       {"token_embd.weight", "model.embed_tokens.weight", "transformer.wte.weight", "gpt_neox.embed_in.weight",
        "transformer.word_embeddings.weight", "language_model.model.embed_tokens.weight"}) {
    file.add(name, embedding);
  }
  const auto row = read_config(file);
  if (!row.ok()) {
    CHECK(!row.status().message().empty());
    return;
  }
  check_config(*row);
  if (!make_tensors(*row, file)) return;
  Script script(input.last(std::min<size_t>(input.size(), 2)));
  spoil(script, file);
  const auto again = read_config(file);
  if (!again.ok()) return;
  check_sources(file, *again);
  ModelOptions options;
  options.n_threads = 1;
  options.max_seq_len = 16;
  options.max_chunk = 4;
  const auto plan = plan_memory(file, *again, options);
  if (!plan.ok()) return;
  CHECK(plan->weights_bytes > 0 && plan->kv_page_bytes > 0);
  for (const UnusedTensor& tensor : unused_tensors(file, *again)) CHECK(file.find_tensor(tensor.name) != nullptr);
}

}  // namespace ibid::fuzz
