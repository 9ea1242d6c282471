#include "runtime/embedding/embeddings.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <new>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/result.h"

namespace ibid {
namespace {

// Number of pages, unless a text needs more: 2,048 positions, so that short texts fill a pass, but at most 1/4 of the
// budget, because idle conversations lose these pages.
constexpr size_t kUsualPages = 32, kPartOfBudget = 4;

// Returns how many tokens the tokenizer adds before a text. with: the tokens of the text and those added around it;
// plain: only those of the text.
size_t n_tokens_before(TokenSpan with, TokenSpan plain) {
  for (size_t n = 0; n + plain.size() <= with.size(); ++n) {
    if (std::equal(plain.begin(), plain.end(), with.begin() + static_cast<std::ptrdiff_t>(n))) return n;
  }
  return 0;
}

// Returns the name without the directories, which clients must not see.
std::string file_name(const std::string& path) {
  const std::filesystem::path all(path);
  return (all.has_filename() ? all : all.parent_path()).filename().string();
}

}  // namespace

Tokens ids_to_embed(const Tokenizer& tokenizer, std::string_view text, size_t most) {
  Tokens ids = tokenizer.encode(text, TextOrigin::kInput, true);
  if (most == 0 || ids.size() <= most) return ids;
  const Tokens plain = tokenizer.encode(text, TextOrigin::kInput);
  const size_t n_before = n_tokens_before(ids, plain), n_around = ids.size() - plain.size();
  if (ids.size() < plain.size() || n_around >= most) {  // no token of the text would remain
    ids.resize(most);
    return ids;
  }
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(n_before + plain.size());
  ids.erase(end - static_cast<std::ptrdiff_t>(ids.size() - most), end);
  return ids;
}

// --- one text

TextEmbedding::TextEmbedding(EngineState& engine, Text text, Priority priority, std::stop_token stop,
                             std::shared_ptr<Waker> waker)
    : Task(priority, std::move(stop), std::move(waker)),
      entry_(engine.pool()),
      unfed_tokens_(text.ids),
      pooling_(engine.pooling().value_or(Pooling::kLast)),
      n_tokens_(text.ids.size()),
      dim_(engine.model().dim()),
      sum_(text.n_dims),
      vector_(text.n_dims) {
  CHECK(engine.pooling() && !unfed_tokens_.empty() && text.n_dims <= dim_);
  const size_t n_rows = pooling_ == Pooling::kMean ? std::min(n_tokens_, engine.model().max_chunk()) : 1;
  hidden_.resize(n_rows * dim_);
}

Task::Action TextEmbedding::next(SequenceChunk& chunk) noexcept {
  if (!unfed_tokens_.empty() && status_.ok() && is_cancelled()) status_ = {ErrorCode::kCancelled, "cancelled"};
  if (unfed_tokens_.empty() || !status_.ok()) {
    entry_.release();
    return Action::kOver;
  }
  const bool mean = pooling_ == Pooling::kMean;
  const size_t n_rows = mean ? std::min(unfed_tokens_.size(), hidden_.size() / dim_) : unfed_tokens_.size();
  chunk = {&entry_, unfed_tokens_.first(n_rows), mean ? WantLogits::kAll : WantLogits::kLast, hidden_.data()};
  return Action::kFeed;
}

void TextEmbedding::computed(size_t n_rows, Status status, const LogitsRows& /*rows*/) noexcept {
  status_ = std::move(status);
  if (!status_.ok()) return;
  unfed_tokens_ = unfed_tokens_.subspan(n_rows);
  if (pooling_ == Pooling::kLast && !unfed_tokens_.empty()) return;
  const size_t n_states = pooling_ == Pooling::kMean ? n_rows : 1;
  for (size_t i = 0; i < n_states; ++i) {
    const float* state = hidden_.data() + i * dim_;
    for (size_t d = 0; d < sum_.size(); ++d) sum_[d] += double{state[d]};
  }
  if (unfed_tokens_.empty()) finish();
}

// The sum is not divided by the count, because the vector is normalised anyway.
void TextEmbedding::finish() noexcept {
  double squares = 0;
  for (const double number : sum_) squares += number * number;
  const double length = std::sqrt(squares);
  for (size_t d = 0; d < sum_.size(); ++d) vector_[d] = length > 0 ? static_cast<float>(sum_[d] / length) : 0.0f;
}

// --- many texts

Embeddings::Embeddings(EngineState& engine, std::vector<Tokens> texts, EmbeddingOptions options,
                       std::shared_ptr<Waker> waker)
    : engine_(engine),
      texts_(std::move(texts)),
      options_(std::move(options)),
      waker_(std::move(waker)),
      waiting_(texts_.size()),
      vectors_(texts_.size()) {
  std::iota(waiting_.begin(), waiting_.end(), size_t{0});
  size_t longest = 0;
  for (const Tokens& text : texts_) longest = std::max(longest, text.size());
  most_bytes_ = most_bytes(engine_, longest);
}

Embeddings::~Embeddings() {
  for (RunningText& one : running_) {
    // In a child of fork() no thread ends the task, so leak it.
    if (!engine_.check_process().ok()) (void)one.task.release();
    if (one.task != nullptr) one.task->cancel();
  }
  const auto is_over = [](const RunningText& one) { return one.task == nullptr || one.task->is_over(); };
  while (!std::ranges::all_of(running_, is_over)) waker_->wait();
}

size_t Embeddings::most_bytes(const EngineState& engine, size_t longest) {
  const KvLayout& layout = engine.pool().layout();
  const size_t usual = std::min(kUsualPages * layout.page_bytes(), engine.pool().budget_bytes() / kPartOfBudget);
  return std::max(layout.work_bytes(std::min(longest, engine.max_seq_len())), usual);
}

Result<std::unique_ptr<Embeddings>> Embeddings::begin(EngineState& engine, std::vector<Tokens> texts,
                                                      EmbeddingOptions options, std::shared_ptr<Waker> waker) {
  std::unique_ptr<Embeddings> all(new Embeddings(engine, std::move(texts), std::move(options), std::move(waker)));
  TRY(all->engine_.check_process());
  TRY(all->check());
  all->advance();
  return all;
}

Status Embeddings::check() const {
  const LanguageModel& model = engine_.model();
  if (!engine_.pooling() || model.dim() == 0) {
    return {ErrorCode::kUnsupported,
            file_name(engine_.name()) +
                " cannot make embeddings: its file names no pooling method; choose one when the model is loaded (`ibid "
                "serve --pooling mean` or `last`), or use an embedding model"};
  }
  if (options_.n_dims > model.dim()) {
    return {ErrorCode::kInvalidArgument, "embeddings of " + std::to_string(options_.n_dims) +
                                             " dimensions were requested, but the model's have " +
                                             std::to_string(model.dim())};
  }
  for (size_t i = 0; i < texts_.size(); ++i) {
    const std::string name = "text " + std::to_string(i + 1) + " of " + std::to_string(texts_.size());
    if (texts_[i].empty()) return {ErrorCode::kInvalidArgument, name + " has no tokens"};
    if (texts_[i].size() > model.max_seq_len()) {
      return {ErrorCode::kContextFull, name + " has " + std::to_string(texts_[i].size()) +
                                           " tokens, the context has room for " + std::to_string(model.max_seq_len())};
    }
    for (const TokenId id : texts_[i]) {
      if (id >= 0 && static_cast<size_t>(id) < model.vocab_size()) continue;
      return {ErrorCode::kInvalidArgument, name + ": token id " + std::to_string(id) +
                                               " is out of vocabulary: the model has " +
                                               std::to_string(model.vocab_size()) + " tokens"};
    }
  }
  return {};
}

bool Embeddings::advance() noexcept {
  try {
    take_results();
    while (status_.ok() && !waiting_.empty()) {
      const size_t n_bytes = engine_.pool().layout().work_bytes(texts_[waiting_.front()].size());
      if (!running_.empty() && n_bytes_ + n_bytes > most_bytes_) break;
      if (Status status = submit_next(); !status.ok()) fail(std::move(status));
    }
  } catch (const std::bad_alloc&) {
    fail(out_of_heap());
  }
  return running_.empty() && (waiting_.empty() || !status_.ok());
}

Status Embeddings::submit_next() {
  const size_t text = waiting_.front();
  const size_t n_dims = options_.n_dims == 0 ? engine_.model().dim() : options_.n_dims;
  const size_t n_bytes = engine_.pool().layout().work_bytes(texts_[text].size());
  running_.reserve(running_.size() + 1);
  auto task = std::make_unique<TextEmbedding>(engine_, TextEmbedding::Text{texts_[text], n_dims}, options_.priority,
                                              options_.stop, waker_);
  TRY(engine_.scheduler().submit(*task));
  running_.push_back({text, n_bytes, std::move(task)});
  n_bytes_ += n_bytes;
  waiting_.pop_front();
  return {};
}

// Takes the results of tasks that are over. A text that lacked memory is retried when fewer texts run.
void Embeddings::take_results() {
  for (size_t i = 0; i < running_.size();) {
    RunningText& one = running_[i];
    if (!one.task->is_over()) {
      ++i;
      continue;
    }
    Status status = one.task->take_status();
    const bool may_wait = status.code() == ErrorCode::kOutOfMemory && running_.size() > 1 && status_.ok();
    if (may_wait) waiting_.push_front(one.text);
    if (may_wait) most_bytes_ = n_bytes_ - one.n_bytes;
    if (status.ok()) vectors_[one.text] = one.task->take_vector();
    n_bytes_ -= one.n_bytes;
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    if (!status.ok() && !may_wait) fail(std::move(status));
  }
}

// Keeps the first error and cancels the running tasks.
void Embeddings::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
  for (RunningText& one : running_) one.task->cancel();
}

Result<std::vector<std::vector<float>>> Embeddings::finish() {
  CHECK(running_.empty());
  TRY(status_);
  return std::move(vectors_);
}

Result<std::vector<std::vector<float>>> embed(EngineState& engine, std::vector<Tokens> texts,
                                              const EmbeddingOptions& options) {
  const auto waker = std::make_shared<Waker>();
  TRY_ASSIGN(const std::unique_ptr<Embeddings> all, Embeddings::begin(engine, std::move(texts), options, waker));
  while (!all->advance()) waker->wait();
  return all->finish();
}

}  // namespace ibid
