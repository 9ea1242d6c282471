#include "apps/inspect/logits_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "model/load_model.h"
#include "weights/model_file.h"

namespace ibid {

namespace {
constexpr size_t kMaxLogitsBytes = size_t{256} << 20;
}

Result<std::unique_ptr<LanguageModel>> load_for_feeding(const std::string& path, const ModelOptions& options) {
  TRY_ASSIGN(const auto file, open_model_file(path));
  return load_language_model(*file, options);
}

Status feed(LanguageModel& model, TokenSpan tokens, std::span<const size_t> chunks,
            const std::function<void(size_t, std::span<const float>)>& on_row) {
  const size_t most = std::clamp<size_t>(kMaxLogitsBytes / (model.vocab_size() * sizeof(float)), 1, model.max_chunk());
  KvPagePool pool(model.kv_layout(), model.kv_layout().room_for(tokens.size() + 1));
  KvCacheEntry entry(pool);
  Logits logits;
  for (size_t begin = 0, step = 0; begin < tokens.size(); ++step) {
    const size_t wanted = chunks.empty() ? most : std::min(chunks[step % chunks.size()], model.max_chunk());
    const size_t n = std::min(wanted, tokens.size() - begin);
    const SequenceChunk chunk{&entry, tokens.subspan(begin, n), WantLogits::kAll};
    TRY(model.forward(std::span(&chunk, 1), {}, logits));
    for (size_t i = 0; i < n; ++i) on_row(begin + i, logits.row(i));
    begin += n;
  }
  return {};
}

namespace {

std::string name_of(const char* what, size_t n) { return std::string(what) + "." + std::to_string(n); }

// A float32 tensor of the reference, copied because it may be unaligned in the file.
struct FloatRows {
  size_t n_rows = 0;
  size_t n_cols = 0;
  std::vector<float> values;
  std::span<const float> row(size_t i) const { return std::span(values).subspan(i * n_cols, n_cols); }
};

Result<FloatRows> read_rows(const ModelFile& file, const TensorView& tensor, const std::string& name, size_t row,
                            size_t n_rows) {
  if (tensor.dtype != DType::kF32 || tensor.shape.rank == 0 || tensor.shape.rank > 2 ||
      row + n_rows > tensor.shape[0]) {
    return Status(ErrorCode::kBadShape, file.path() + ": " + name + " is " + std::string(dtype_name(tensor.dtype)) +
                                            " " + tensor.shape.to_string() + ", expected F32 with a row " +
                                            std::to_string(row));
  }
  FloatRows rows{n_rows, tensor.shape.rank == 1 ? 1 : static_cast<size_t>(tensor.shape[1]), {}};
  rows.values.resize(n_rows * rows.n_cols);
  std::memcpy(rows.values.data(), tensor.data.data() + row * rows.n_cols * sizeof(float),
              rows.values.size() * sizeof(float));
  return rows;
}

size_t argmax(std::span<const float> row) {
  return static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

double kl_of_whole_rows(std::span<const float> reference, std::span<const float> ours) {
  const double log_z = log_sum_exp(reference);
  const double our_log_z = log_sum_exp(ours);
  double kl = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double log_p = static_cast<double>(reference[i]) - log_z;
    kl += std::exp(log_p) * (log_p - (static_cast<double>(ours[i]) - our_log_z));
  }
  return kl;
}

// Returns the KL divergence over the top tokens and one further outcome, which stands for all other tokens.
double kl_of_top(std::span<const int64_t> ids, std::span<const float> reference, double log_z,
                 std::span<const float> ours) {
  const double our_log_z = log_sum_exp(ours);
  double kl = 0;
  double rest = 1;
  double our_rest = 1;
  for (size_t i = 0; i < ids.size(); ++i) {
    const double log_p = static_cast<double>(reference[i]) - log_z;
    const double log_q = static_cast<double>(ours[static_cast<size_t>(ids[i])]) - our_log_z;
    kl += std::exp(log_p) * (log_p - log_q);
    rest -= std::exp(log_p);
    our_rest -= std::exp(log_q);
  }
  constexpr double kNothing = 1e-12;
  if (rest > kNothing) kl += rest * (std::log(rest) - std::log(std::max(our_rest, kNothing)));
  return kl;
}

}  // namespace

double log_sum_exp(std::span<const float> logits) {
  const double largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum);
}

Result<std::vector<int64_t>> read_int64(const ModelFile& file, const std::string& name) {
  const TensorView* tensor = file.find_tensor(name);
  if (tensor == nullptr) return Status(ErrorCode::kMissingTensor, file.path() + ": tensor " + name + " is missing");
  if (tensor->dtype != DType::kI64) {
    return Status(ErrorCode::kBadType, file.path() + ": tensor " + name + " is " +
                                           std::string(dtype_name(tensor->dtype)) + ", expected I64");
  }
  std::vector<int64_t> values(tensor->shape.elements());
  std::memcpy(values.data(), tensor->data.data(), values.size() * sizeof(int64_t));
  return values;
}

void LogitsComparison::add_kl(double kl, bool same_top1) {
  sum_kl_ += kl;
  largest_kl_ = std::max(largest_kl_, kl);
  ++n_kl_;
  n_same_top1_ += same_top1 ? 1 : 0;
}

Status LogitsComparison::add(const ModelFile& reference, size_t n, size_t position, std::span<const float> logits) {
  const TensorView* whole = reference.find_tensor(name_of("logits", n));
  const TensorView* top = reference.find_tensor(name_of("top_logits", n));
  if (whole != nullptr) {
    size_t row = position;
    if (reference.find_tensor(name_of("positions", n)) != nullptr) {
      TRY_ASSIGN(const auto positions, read_int64(reference, name_of("positions", n)));
      const auto found = std::find(positions.begin(), positions.end(), static_cast<int64_t>(position));
      row = found == positions.end() ? whole->shape[0] : static_cast<size_t>(found - positions.begin());
    }
    if (row < whole->shape[0]) {
      TRY_ASSIGN(const FloatRows wanted, read_rows(reference, *whole, name_of("logits", n), row, 1));
      if (wanted.n_cols != logits.size()) {
        return {ErrorCode::kBadShape, reference.path() + ": " + name_of("logits", n) + " has rows of " +
                                          std::to_string(wanted.n_cols) + ", the model has a vocabulary of " +
                                          std::to_string(logits.size())};
      }
      for (size_t i = 0; i < logits.size(); ++i) {
        const double difference = static_cast<double>(logits[i]) - static_cast<double>(wanted.values[i]);
        max_dlogit_ = std::max(max_dlogit_, std::abs(difference));
      }
      if (top == nullptr) add_kl(kl_of_whole_rows(wanted.values, logits), argmax(wanted.values) == argmax(logits));
    }
  }
  if (top == nullptr) return {};

  const TensorView* sums = reference.find_tensor(name_of("logsumexp", n));
  TRY_ASSIGN(const std::vector<int64_t> ids, read_int64(reference, name_of("top_ids", n)));
  TRY_ASSIGN(const FloatRows best, read_rows(reference, *top, name_of("top_logits", n), position, 1));
  if (sums == nullptr || ids.size() < (position + 1) * best.n_cols) {
    return {ErrorCode::kBadShape, reference.path() + ": top_ids, top_logits and logsumexp do not match"};
  }
  TRY_ASSIGN(const FloatRows log_z, read_rows(reference, *sums, name_of("logsumexp", n), position, 1));
  const auto row_ids = std::span(ids).subspan(position * best.n_cols, best.n_cols);
  for (const int64_t id : row_ids) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size()) {
      return {ErrorCode::kBadNumber, reference.path() + ": id " + std::to_string(id) + " is outside the vocabulary"};
    }
  }
  add_kl(kl_of_top(row_ids, best.values, static_cast<double>(log_z.values[0]), logits),
         static_cast<size_t>(row_ids[0]) == argmax(logits));
  return {};
}

Json LogitsComparison::to_json() const {
  return {{"max_dlogit", max_dlogit_},
          {"mean_kl", mean_kl()},
          {"largest_kl", largest_kl_},
          {"top1_agreement", top1_agreement()},
          {"positions", n_kl_}};
}

}  // namespace ibid
