#include <algorithm>
#include <vector>

#include "runtime/embedding/embeddings.h"
#include "server/service/jobs.h"
#include "server/service/request_prompt.h"
#include "server/store/cache_namespace.h"

namespace ibid::serve {
namespace {

size_t bytes_of_inputs(const EmbeddingRequest& request) {
  size_t n = 0;
  for (const Prompt& input : request.inputs) n += bytes_of_prompt(input);
  return n;
}

// Returns the tokens of an input, truncated to `most`; 0: no limit.
Tokens ids_of_input(const Tokenizer& tokenizer, const Prompt& input, size_t most) {
  if (const auto* text = std::get_if<std::string>(&input)) return ids_to_embed(tokenizer, *text, most);
  const auto* pieces = std::get_if<PromptPieces>(&input);
  Tokens ids = pieces != nullptr ? ids_of_pieces(tokenizer, *pieces) : std::get<Tokens>(input);
  if (most != 0 && ids.size() > most) ids.resize(most);
  return ids;
}

// A request for embeddings. A work thread tokenizes its texts. Tasks of the engine (runtime/embedding/embeddings.h)
// then compute the embeddings beside answers.
class EmbeddingJob final : public Job {
 public:
  EmbeddingJob(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener, std::stop_token gone,
               std::shared_ptr<Waker> waker, Clock& clock)
      : Job({request.model, std::string(owner_of_namespace(request.cache_namespace)), request.deadline,
             bytes_of_inputs(request), request.keep_alive},
            std::move(waker)),
        request_(std::move(request)),
        listener_(std::move(listener)),
        clock_(clock) {
    watch(std::move(gone));
  }
  ~EmbeddingJob() override { end_watch(); }

  Status prepare(const Place& place) override;
  KvRoom room(const Engine& engine, size_t expected_answer) const override;
  Status plan(const Place& place) override;
  Next advance(Conversations& conversations) override;
  void leave_queue(std::chrono::nanoseconds waited) override;
  void refuse(const Status& busy, std::chrono::seconds retry_after) override;
  void end(const Status& status) override;

 private:
  EmbeddingRequest request_;
  std::shared_ptr<EmbeddingListener> listener_;  // null: the result was sent
  Clock& clock_;
  std::unique_ptr<Embeddings> embeddings_;  // set while the engine computes
  EmbeddingReply reply_;
  int64_t start_ns_ = 0;
  std::vector<Tokens> texts_;
  size_t longest_ = 0;  // number of tokens of the longest text
};

KvRoom EmbeddingJob::room(const Engine& engine, size_t /*expected_answer*/) const {
  return {.engine = &engine,
          .n_bytes = Embeddings::most_bytes(engine.state(), longest_),
          .budget_bytes = engine.state().pool().budget_bytes()};
}

Status EmbeddingJob::prepare(const Place& place) {
  reply_.model = place.model;
  start_ns_ = clock_.steady_ns();
  const size_t most = request_.cuts ? place.engine()->max_seq_len() : 0;
  for (const Prompt& input : request_.inputs) {
    if (is_stopped()) return why_stopped();
    texts_.push_back(ids_of_input(place.engine()->state().tokenizer(), input, most));
    longest_ = std::max(longest_, texts_.back().size());
    reply_.n_prompt += texts_.back().size();
  }
  return {};
}

Status EmbeddingJob::plan(const Place& place) {
  TRY_ASSIGN(embeddings_, Embeddings::begin(place.engine()->state(), texts_,
                                            {.n_dims = request_.n_dims, .stop = stop_token()}, waker()));
  return {};
}

Job::Next EmbeddingJob::advance(Conversations& /*conversations*/) {
  if (!embeddings_->advance()) return Next::kWait;
  Result<std::vector<std::vector<float>>> vectors = embeddings_->finish();
  embeddings_.reset();
  status_ = vectors.status();
  if (!vectors.ok()) return status_.code() == ErrorCode::kOutOfMemory ? Next::kRetry : Next::kOver;
  usage_.n_prompt = usage_.n_prefilled = reply_.n_prompt;
  reply_.vectors = *std::move(vectors);
  return Next::kLongEnd;
}

void EmbeddingJob::leave_queue(std::chrono::nanoseconds waited) {
  if (reply_.queued.count() == 0) reply_.queued = waited;
}

void EmbeddingJob::refuse(const Status& busy, std::chrono::seconds retry_after) {
  if (const auto listener = std::exchange(listener_, nullptr)) listener->fail(busy, retry_after);
}

void EmbeddingJob::end(const Status& status) {
  const auto listener = std::exchange(listener_, nullptr);
  if (listener == nullptr) return;
  if (!status.ok()) {
    const bool was_stopped = status.code() == ErrorCode::kCancelled && is_stopped();
    return listener->fail(was_stopped ? why_stopped() : status, std::chrono::seconds(1));
  }
  reply_.computed = std::chrono::nanoseconds(clock_.steady_ns() - start_ns_);
  listener->reply(std::move(reply_));
}

}  // namespace

std::unique_ptr<Job> make_embedding_job(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener,
                                        std::stop_token gone, std::shared_ptr<Waker> waker, Clock& clock) {
  return std::make_unique<EmbeddingJob>(std::move(request), std::move(listener), std::move(gone), std::move(waker),
                                        clock);
}

}  // namespace ibid::serve
