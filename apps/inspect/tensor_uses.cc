#include "apps/inspect/tensor_uses.h"

#include <algorithm>
#include <map>
#include <set>

#include "model/tensors/tensor_source.h"

namespace ibid {

namespace {

bool has_any(std::string_view name, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return name.find(word) != std::string_view::npos; });
}

// Collects tensors by name, without duplicates.
class Collector {
 public:
  Collector(const ModelFile& file, std::vector<TensorUse>& uses) : file_(file), uses_(uses) {}

  bool add(const std::string& name, std::string_view tensor_class, std::string_view role, size_t layer) {
    const TensorView* tensor = file_.find_tensor(name);
    if (tensor == nullptr || !seen_.insert(name).second) return false;
    if (tensor->source != nullptr) {
      for (const std::span<const std::byte> part : tensor->source->parts()) parts_.insert(part.data());
    }
    uses_.push_back({name, *tensor, tensor_class, role, layer});
    return true;
  }
  bool is_part(const TensorView& tensor) const { return parts_.contains(tensor.data.data()); }

 private:
  const ModelFile& file_;
  std::vector<TensorUse>& uses_;
  std::set<std::string> seen_;
  std::set<const std::byte*> parts_;  // addresses of the parts of composed tensors
};

void add_layer(const ModelFile& file, const ModelConfig& config, const TensorRow& row, size_t layer, Collector& all) {
  for (size_t copy = 0; copy < n_copies(row, config, layer); ++copy) {
    const Result<TensorSource> source = find_source(file, config, row, layer, copy);
    if (!source.ok() || !source->found()) return;
    const bool added =
        all.add(source->name, class_of_tensor(row.gguf, row.is_matrix()), row.gguf, row.per_layer() ? layer : kNoLayer);
    if (!added) return;  // already listed: all experts or several roles share this tensor
  }
}

}  // namespace

std::string_view class_of_tensor(std::string_view name, bool is_matrix) {
  if (has_any(name, {"norm", "ln_", "layernorm"})) return "norms";
  if (!is_matrix) return "vectors";
  if (has_any(name, {"_shexp", "shared_expert", "shared_mlp"})) {
    return has_any(name, {"_inp", "shared_expert_gate"}) ? "router" : "shared experts";
  }
  if (has_any(name, {"_exps", "experts.", "experts"})) return "experts";
  if (has_any(name, {"gate_inp", "router", "mlp.gate.weight"})) return "router";
  if (has_any(name, {"embd", "embed", "wte", "wpe"})) return "embedding";
  if (has_any(name, {"lm_head"}) || name == "output.weight") return "head";
  if (has_any(name, {"attn", "attention"})) return "attention";
  if (has_any(name, {"ffn", "mlp", "feed_forward"})) return "MLP";
  return "other";
}

std::vector<TensorUse> tensor_uses(const ModelFile& file, const ModelConfig* config) {
  std::vector<TensorUse> uses;
  Collector all(file, uses);
  if (config != nullptr) {
    for (const TensorRow& row : tensor_table()) {
      const size_t n_layers = row.per_layer() ? config->n_layers : 1;
      for (size_t layer = 0; layer < n_layers; ++layer) add_layer(file, *config, row, layer, all);
    }
  }
  for (const std::string& name : file.tensor_names()) {
    const TensorView* tensor = file.find_tensor(name);
    if (tensor == nullptr || all.is_part(*tensor)) continue;
    const std::string_view by_name = class_of_tensor(name, tensor->shape.rank > 1);
    all.add(name, config == nullptr ? by_name : kUnusedClass, "", kNoLayer);
  }
  return uses;
}

ParameterCount count_parameters(const std::vector<TensorUse>& uses, const ModelConfig* config) {
  uint64_t experts = 0, others = 0;
  for (const TensorUse& use : uses) {
    if (use.tensor_class == kUnusedClass) continue;
    (use.tensor_class == "experts" ? experts : others) += use.tensor.shape.elements();
  }
  ParameterCount count{experts + others, experts + others};
  if (config != nullptr && config->has_experts()) {
    const RouterRule& router = config->moe.router;
    count.active = others + experts / router.n_experts * router.n_experts_active;
  }
  return count;
}

std::vector<TypeShare> type_shares(const std::vector<TensorUse>& uses) {
  std::vector<std::string_view> classes;
  std::map<std::pair<std::string_view, std::string_view>, TypeShare> shares;
  for (const TensorUse& use : uses) {
    if (std::ranges::find(classes, use.tensor_class) == classes.end()) classes.push_back(use.tensor_class);
    const std::string_view type = dtype_name(use.tensor.dtype);
    TypeShare& share = shares[{use.tensor_class, type}];
    share.tensor_class = use.tensor_class;
    share.type = type;
    ++share.n_tensors;
    share.bytes += use.tensor.bytes();
  }
  std::vector<TypeShare> sorted;
  for (const auto& [key, share] : shares) sorted.push_back(share);
  std::ranges::stable_sort(sorted, [&](const TypeShare& a, const TypeShare& b) {
    const auto of_a = std::ranges::find(classes, a.tensor_class), of_b = std::ranges::find(classes, b.tensor_class);
    return of_a != of_b ? of_a < of_b : a.bytes > b.bytes;
  });
  return sorted;
}

}  // namespace ibid
