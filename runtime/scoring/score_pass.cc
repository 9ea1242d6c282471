#include "runtime/scoring/score_pass.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "cache/pages/kv_cache_entry.h"
#include "cache/store/lru_kv_cache_store.h"
#include "runtime/scheduler/task.h"
#include "sampling/sampler.h"

namespace ibid {

namespace {

Status check_scored(const EngineState& engine, TokenSpan ids, size_t n_top) {
  TRY(engine.check_process());
  TRY(engine.check_answers());
  if (ids.empty()) return {ErrorCode::kInvalidArgument, "there are no tokens to score"};
  if (n_top > kMaxTopLogprobs) {
    return {ErrorCode::kInvalidArgument,
            "n_top: " + std::to_string(n_top) + ", allowed: 0 to " + std::to_string(kMaxTopLogprobs)};
  }
  if (ids.size() > engine.max_seq_len()) {
    return {ErrorCode::kContextFull, "the text to score has " + std::to_string(ids.size()) +
                                         " tokens, the context has room for " + std::to_string(engine.max_seq_len())};
  }
  const size_t n_vocab = engine.model().vocab_size();
  for (const TokenId id : ids) {
    if (id >= 0 && static_cast<size_t>(id) < n_vocab) continue;
    return {ErrorCode::kInvalidArgument, "token id " + std::to_string(id) + " is out of vocabulary: the model has " +
                                             std::to_string(n_vocab) + " tokens"};
  }
  return {};
}

size_t rank_of(std::span<const float> logits, TokenId id) {
  const float own = logits[static_cast<size_t>(id)];
  return 1 + static_cast<size_t>(std::ranges::count_if(logits, [own](float logit) { return logit > own; }));
}

}  // namespace

// Feeds all tokens but the last one, whose logits would belong to a token after the text.
class ScorePass::Scoring final : public Task {
 public:
  using Publish = std::function<void(KvCacheEntry&)>;

  Scoring(KvCacheEntry entry, TokenSpan ids, const ScoreOptions& options, std::shared_ptr<Waker> waker, Publish publish)
      : Task(options.priority, options.stop, std::move(waker)),
        entry_(std::move(entry)),
        ids_(ids),
        first_(options.first),
        n_top_(options.n_top),
        publish_(std::move(publish)) {
    scored_.tokens.resize(ids.size() - first_);
    scored_.ranks.resize(ids.size() - first_);
  }

  Status take_status() { return std::move(status_); }
  Scored take_scored() { return std::move(scored_); }

 private:
  Action next(SequenceChunk& chunk) noexcept override {
    const size_t n_read = entry_.length(), n_all = ids_.size() - 1;
    if (n_read < n_all && status_.ok() && is_cancelled()) status_ = {ErrorCode::kCancelled, "cancelled"};
    if (n_read == n_all || !status_.ok()) {
      if (entry_.length() > 0) publish_(entry_);
      entry_.release();
      return Action::kOver;
    }
    // The logits of a row give the log-probability of the token after it.
    const bool scores = n_read + 1 >= first_;
    const size_t end = scores ? std::min(n_all, n_read + kScoreRows) : first_ - 1;
    chunk = {&entry_, ids_.subspan(n_read, end - n_read), scores ? WantLogits::kAll : WantLogits::kNone};
    return Action::kFeed;
  }

  void read_row(size_t position, std::span<const float> logits) noexcept override try {
    const TokenId id = ids_[position + 1];
    const size_t place = position + 1 - first_;
    TokenLogprobs token = token_logprobs(logits, id, n_top_);
    // A model may rule a token out by -infinity, but log-probabilities must be finite.
    if (!std::isfinite(token.logprob)) token.logprob = std::numeric_limits<float>::lowest();
    scored_.tokens[place] = std::move(token);
    scored_.ranks[place] = rank_of(logits, id);
  } catch (const std::bad_alloc&) {
    has_no_heap_.store(true, std::memory_order_relaxed);
  }

  void computed(size_t /*n_rows*/, Status status, const LogitsRows& /*rows*/) noexcept override {
    status_ = std::move(status);
    if (status_.ok() && has_no_heap_.load(std::memory_order_relaxed)) status_ = out_of_heap();
  }

  bool gives_way() const noexcept override { return true; }

  KvCacheEntry entry_;
  const TokenSpan ids_;
  const size_t first_, n_top_;
  const Publish publish_;
  Scored scored_;
  std::atomic<bool> has_no_heap_{false};
  Status status_;
};

ScorePass::ScorePass(EngineState& engine, Tokens ids, std::shared_ptr<Waker> waker)
    : engine_(engine), ids_(std::move(ids)), waker_(std::move(waker)) {}

ScorePass::~ScorePass() {
  if (scoring_ == nullptr) return;
  if (!engine_.check_process().ok()) {
    (void)scoring_.release();  // in a child of fork() no thread ends the task
    return;
  }
  scoring_->cancel();
  while (!scoring_->is_over()) waker_->wait();
}

Result<std::unique_ptr<ScorePass>> ScorePass::begin(EngineState& engine, Tokens ids, ScoreOptions options,
                                                    std::shared_ptr<Waker> waker) {
  return guarded([&]() -> Result<std::unique_ptr<ScorePass>> {
    TRY(check_scored(engine, ids, options.n_top));
    options.first = std::clamp<size_t>(options.first, 1, ids.size());
    std::unique_ptr<ScorePass> pass(new ScorePass(engine, std::move(ids), std::move(waker)));
    const TokenSpan all = pass->ids_;
    pass->usage_.n_prompt = all.size();
    KvCacheEntry entry(engine.pool());
    if (options.first > 1) {
      entry = engine.store().find_longest_prefix(options.cache_namespace, all.first(options.first - 1)).entry;
    }
    pass->usage_.n_cached = entry.length();
    pass->usage_.n_prefilled = all.size() - entry.length();
    if (options.first == all.size()) return pass;
    // A full store is not an error: caching is best effort.
    const auto publish = [&engine, name = options.cache_namespace](KvCacheEntry& rows) noexcept {
      (void)engine.store().insert(name, rows, {.extent = Extent::kAll});
    };
    auto scoring = std::make_unique<Scoring>(std::move(entry), all, options, pass->waker_, publish);
    TRY(engine.scheduler().submit(*scoring));
    pass->scoring_ = std::move(scoring);
    return pass;
  });
}

bool ScorePass::is_over() const { return scoring_ == nullptr || scoring_->is_over(); }

Result<Scored> ScorePass::finish() {
  CHECK(is_over());
  Scored scored;
  if (scoring_ != nullptr) {
    TRY(scoring_->take_status());
    scored = scoring_->take_scored();
  }
  scored.usage = usage_;
  return scored;
}

Result<Scored> score(EngineState& engine, Tokens ids, ScoreOptions options) {
  const auto waker = std::make_shared<Waker>();
  TRY_ASSIGN(const std::unique_ptr<ScorePass> pass,
             ScorePass::begin(engine, std::move(ids), std::move(options), waker));
  while (!pass->is_over()) waker->wait();
  return pass->finish();
}

}  // namespace ibid
