#include "runtime/embedding/text_embedding.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace ibid {

TextEmbedding::TextEmbedding(EngineState& engine, Text text, Priority priority, std::stop_token stop,
                             std::shared_ptr<Waker> bell)
    : Task(priority, std::move(stop), std::move(bell)),
      entry_(engine.pool()),
      rest_(text.ids),
      pooling_(engine.pooling().value_or(Pooling::kLast)),
      n_ids_(text.ids.size()),
      dim_(engine.model().dim()),
      sum_(text.n_dims),
      vector_(text.n_dims) {
  CHECK(engine.pooling() && !rest_.empty() && text.n_dims <= dim_);
  const size_t n_rows = pooling_ == Pooling::kMean ? std::min(n_ids_, engine.model().max_chunk()) : 1;
  hidden_.resize(n_rows * dim_);
}

Task::Wish TextEmbedding::next(SequenceChunk& chunk) noexcept {
  if (!rest_.empty() && status_.ok() && is_cancelled()) status_ = {ErrorCode::kCancelled, "cancelled"};
  if (rest_.empty() || !status_.ok()) {
    entry_.release();
    return Wish::kOver;
  }
  const bool mean = pooling_ == Pooling::kMean;
  const size_t n_rows = mean ? std::min(rest_.size(), hidden_.size() / dim_) : rest_.size();
  chunk = {&entry_, rest_.first(n_rows), mean ? WantLogits::kAll : WantLogits::kLast, hidden_.data()};
  return Wish::kFeed;
}

void TextEmbedding::fed(size_t n_rows, Status status, const LogitsRows& /*rows*/) noexcept {
  status_ = std::move(status);
  if (!status_.ok()) return;
  rest_ = rest_.subspan(n_rows);
  if (pooling_ == Pooling::kLast && !rest_.empty()) return;
  const size_t n_states = pooling_ == Pooling::kMean ? n_rows : 1;
  for (size_t i = 0; i < n_states; ++i) {
    const float* state = hidden_.data() + i * dim_;
    for (size_t d = 0; d < sum_.size(); ++d) sum_[d] += double{state[d]};
  }
  if (rest_.empty()) finish();
}

// The sum is not divided by the count, because the vector is normalised anyway.
void TextEmbedding::finish() noexcept {
  double squares = 0;
  for (const double number : sum_) squares += number * number;
  const double length = std::sqrt(squares);
  for (size_t d = 0; d < sum_.size(); ++d) vector_[d] = length > 0 ? static_cast<float>(sum_[d] / length) : 0.0f;
}

}  // namespace ibid
