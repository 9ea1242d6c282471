#include "tests/oracle/file_tensors.h"

#include <numeric>

#include "base/check.h"
#include "weights/block_formats.h"

namespace ibid::oracle {

namespace {

using enum TensorRole;

// Returns a reproducible number in [-1, 1] for each weight of a file.
double unit_noise(uint64_t tensor, uint64_t i) {
  uint64_t z = tensor + (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1;
}

std::vector<double> decode(const TensorView& tensor) {
  std::vector<std::byte> made;
  std::span<const std::byte> bytes = tensor.data;
  if (tensor.source != nullptr) {
    std::vector<uint64_t> rows(tensor.shape.elements() / tensor.shape[tensor.shape.rank - 1]);
    std::iota(rows.begin(), rows.end(), tensor.first_row);
    made.resize(tensor.bytes());
    tensor.source->read_rows(rows, made.data());
    bytes = made;
  }
  std::vector<float> floats(tensor.shape.elements());
  dequantize_row(tensor.dtype, bytes, floats);
  return {floats.begin(), floats.end()};
}

bool is_expert_matrix(TensorRole role) {
  return role == kExpertGateUp || role == kExpertGate || role == kExpertUp || role == kExpertDown;
}

// Returns `n` rows from each of `n_groups` groups, starting at row `first` of the group.
Matrix rows_of_groups(const Matrix& all, Index n_groups, Index first, Index n) {
  Matrix rows(n_groups * n, all.cols());
  const Index stride = all.rows() / n_groups;
  for (Index g = 0; g < n_groups; ++g) rows.middleRows(g * n, n) = all.middleRows(g * stride + first, n);
  return rows;
}

}  // namespace

const FileTensors::Stored* FileTensors::find(const std::string& name) const {
  if (const auto known = read_.find(name); known != read_.end()) return &known->second;
  const TensorView* tensor = file_.find_tensor(name);
  if (tensor == nullptr) return nullptr;
  Stored stored{tensor->shape, dtype_is_float(tensor->dtype), decode(*tensor)};
  if (noise_ != 0) {
    const uint64_t seed = std::hash<std::string>()(name);
    for (size_t i = 0; i < stored.values.size(); ++i) stored.values[i] *= 1 + noise_ * unit_noise(seed, i);
  }
  return &read_.emplace(name, std::move(stored)).first->second;
}

std::vector<std::string> FileTensors::spellings(TensorRole role) const {
  const bool gguf = file_.container() == Container::kGguf;
  std::string all = gguf ? tensor_row(role).gguf : tensor_row(role).hf;
  for (const TensorName& name : config_.tensor_names) {
    const std::string own = gguf ? name.gguf : name.hf;
    if (name.role == role && !own.empty()) all = own;
  }
  std::vector<std::string> each(1);
  for (const char c : all) {
    if (c == '|') {
      each.emplace_back();
    } else {
      each.back() += c;
    }
  }
  return each;
}

std::string FileTensors::fill_in(const std::string& spelling, size_t layer, size_t copy) const {
  std::string name;
  for (const char c : spelling) {
    if (c == '@') {
      name += config_.name_prefix;
    } else if (c == '#' || c == '%') {
      name += std::to_string(c == '#' ? layer : copy);
    } else {
      name += c;
    }
  }
  return name;
}

// Returns the tensor that begins at `values`: a matrix, or a vector as one column.
Matrix FileTensors::as_matrix(const Stored& stored, TensorRole role, const double* values) const {
  const TensorRow& row = tensor_row(role);
  const size_t rank = stored.shape.rank;
  const auto cols = static_cast<Index>(rank == 0 ? 1 : stored.shape[rank - 1]);
  if (!row.is_matrix()) {
    const size_t n_copies = rank == 2 && row.copies != Copies::kNone ? stored.shape[0] : 1;
    const auto n = static_cast<Index>(stored.values.size() / n_copies);
    return Eigen::Map<const Matrix>(values, n, 1);
  }
  auto rows = static_cast<Index>(rank < 2 ? 1 : stored.shape[rank - 2]);
  if (role == kMixConv || row.part_of == kMixConv) rows = static_cast<Index>(stored.values.size()) / cols;
  const Matrix as_it_is = Eigen::Map<const Matrix>(values, rows, cols);
  // Some checkpoints store float experts as [in, out], others of the architecture do not: the shape decides.
  const auto inputs = static_cast<Index>(role == kExpertDown ? config_.moe.ffn_dim : config_.dim);
  const bool turned = is_expert_matrix(role) ? config_.experts_transposed && stored.is_float && rows == inputs
                                             : config_.transposed && row.per_layer();
  return turned ? Matrix(as_it_is.transpose()) : as_it_is;
}

// Concatenates a vector that is stored as one tensor per head.
Matrix FileTensors::heads_side_by_side(const std::string& spelling, size_t layer) const {
  std::vector<double> all;
  for (size_t head = 0;; ++head) {
    const Stored* part = find(fill_in(spelling, layer, head));
    if (part == nullptr) break;
    all.insert(all.end(), part->values.begin(), part->values.end());
  }
  return Eigen::Map<const Matrix>(all.data(), static_cast<Index>(all.size()), 1);
}

Matrix FileTensors::own(TensorRole role, size_t layer, size_t copy) const {
  const bool several = tensor_row(role).copies != Copies::kNone;
  for (const std::string& spelling : spellings(role)) {
    const bool numbered = spelling.find('%') != std::string::npos;
    const Stored* stored = find(fill_in(spelling, layer, numbered && !several ? 0 : copy));
    if (stored == nullptr) continue;
    if (numbered && !several) return heads_side_by_side(spelling, layer);
    const bool stacked = several && !numbered;
    const size_t each = stacked ? stored->values.size() / stored->shape[0] : 0;
    return as_matrix(*stored, role, stored->values.data() + copy * each);
  }
  return {};
}

// Returns a part of fused q|k|v, whose rows are in that order, in total or for each KV head.
Matrix FileTensors::part_of_qkv(const Matrix& fused, TensorRole role, size_t layer) const {
  const auto q = static_cast<Index>(config_.q_dim(layer)), kv = static_cast<Index>(config_.kv_dim(layer));
  const Index first = role == kWq || role == kBq ? 0 : role == kWk || role == kBk ? q : q + kv;
  const Index n = first == 0 ? q : kv;
  const auto n_groups = static_cast<Index>(config_.qkv_by_group ? config_.layers[layer].n_kv_heads : 1);
  return rows_of_groups(fused, n_groups, first / n_groups, n / n_groups);
}

// Returns the queries or the gates of a tensor that has for each head its query, then its gate.
Matrix FileTensors::query_or_gate(const Matrix& fused, bool is_gate, size_t layer) const {
  const auto n = static_cast<Index>(config_.n_heads), d = static_cast<Index>(config_.layers[layer].head_dim);
  return rows_of_groups(fused, n, is_gate ? d : 0, d);
}

// Returns gate or up of a fused tensor. They follow each other or, in some experts, alternate row by row.
Matrix FileTensors::half_of(const Matrix& gate_up, bool is_up, bool of_expert) const {
  const Index half = gate_up.rows() / 2;
  if (of_expert && config_.experts_interleaved) return rows_of_groups(gate_up, half, is_up ? 1 : 0, 1);
  return is_up ? gate_up.bottomRows(half) : gate_up.topRows(half);
}

Matrix FileTensors::find_or_cut(TensorRole role, size_t layer, size_t copy) const {
  if (config_.gate_beside_query && (role == kWq || role == kWAttnGate)) {
    return query_or_gate(own(kWqGate, layer, copy), role == kWAttnGate, layer);
  }
  if (config_.gate_beside_query && (role == kBq || role == kBAttnGate)) {
    const Matrix biases = own(kBqGate, layer, copy);
    return biases.size() == 0 ? biases : query_or_gate(biases, role == kBAttnGate, layer);
  }
  const Matrix own_one = own(role, layer, copy);
  const auto fused = [&](TensorRole whole) { return own(whole, layer, copy); };
  // GGUF uses one name for up and for fused gate|up.
  const bool is_gate_up =
      role == kWUp && config_.gated && own_one.rows() == 2 * static_cast<Index>(config_.layers[layer].ffn_dim);
  if (own_one.size() > 0 && !is_gate_up) return own_one;
  Matrix whole;
  switch (role) {
    case kWq:
    case kWk:
    case kWv: whole = fused(kWqkv); break;
    case kBq:
    case kBk:
    case kBv: whole = fused(kBqkv); break;
    case kWGate:
    case kWUp: whole = fused(kWGateUp); break;
    case kSharedGate:
    case kSharedUp: whole = fused(kSharedGateUp); break;
    case kExpertGate:
    case kExpertUp: whole = fused(kExpertGateUp); break;
    case kBExpertGate:
    case kBExpertUp: whole = fused(kBExpertGateUp); break;
    default: break;
  }
  if (whole.size() == 0) return {};
  switch (role) {
    case kWq:
    case kWk:
    case kWv:
    case kBq:
    case kBk:
    case kBv: return part_of_qkv(whole, role, layer);
    case kWGate:
    case kSharedGate: return half_of(whole, false, false);
    case kWUp:
    case kSharedUp: return half_of(whole, true, false);
    default: return half_of(whole, role == kExpertUp || role == kBExpertUp, true);
  }
}

Matrix FileTensors::matrix(TensorRole role, size_t layer, size_t copy) const {
  CHECK(tensor_row(role).is_matrix()) << tensor_row(role).gguf;
  return find_or_cut(role, layer, copy);
}

Vector FileTensors::vector(TensorRole role, size_t layer, size_t copy) const {
  CHECK(!tensor_row(role).is_matrix()) << tensor_row(role).gguf;
  const Matrix column = find_or_cut(role, layer, copy);
  return column.size() == 0 ? Vector() : Vector(column.col(0).transpose());
}

Vector FileTensors::norm(TensorRole role, size_t layer) const {
  Vector weight = vector(role, layer);
  if (config_.norms_minus_one) weight.array() += 1;
  return weight;
}

}  // namespace ibid::oracle
