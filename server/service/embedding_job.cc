#include "server/service/embedding_job.h"

#include <algorithm>
#include <new>
#include <utility>

#include "runtime/out_of_heap.h"
#include "server/service/prompt_text.h"
#include "server/store/cache_namespace.h"

namespace ibid::serve {
namespace {

size_t bytes_of(const std::variant<std::string, Tokens>& input) {
  if (const auto* text = std::get_if<std::string>(&input)) return text->size();
  return std::get<Tokens>(input).size() * sizeof(TokenId);
}

size_t bytes_of_inputs(const EmbeddingRequest& request) {
  size_t n = 0;
  for (const auto& input : request.inputs) n += bytes_of(input);
  return n;
}

// The ids of an input. most: so many are left of one that has more; 0: all.
Tokens ids_of_input(const Tokenizer& tokenizer, const std::variant<std::string, Tokens>& input, size_t most) {
  if (const auto* text = std::get_if<std::string>(&input)) return ids_to_embed(tokenizer, *text, most);
  Tokens ids = std::get<Tokens>(input);
  if (most != 0 && ids.size() > most) ids.resize(most);
  return ids;
}

}  // namespace

EmbeddingJob::EmbeddingJob(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener,
                           std::stop_token gone, std::shared_ptr<Bell> bell, Clock& clock)
    : Job({request.model, std::string(owner_of_namespace(request.cache_namespace)), request.deadline,
           bytes_of_inputs(request), request.keep_alive},
          std::move(bell)),
      request_(std::move(request)),
      listener_(std::move(listener)),
      clock_(clock) {
  watch(std::move(gone));
}

EmbeddingJob::~EmbeddingJob() { end_watch(); }

KvReservations::Room EmbeddingJob::room(const Engine& engine, size_t /*expected_answer*/) const {
  return {.engine = &engine,
          .n_bytes = Embeddings::most_bytes(engine, longest_),
          .budget_bytes = engine.pool().budget_bytes()};
}

Status EmbeddingJob::prepare(const Place& place) try {
  reply_.model = place.model;
  start_ns_ = clock_.steady_ns();
  const size_t most = request_.cuts ? place.engine()->max_seq_len() : 0;
  for (const auto& input : request_.inputs) {
    if (is_stopped()) return why_stopped();
    texts_.push_back(ids_of_input(place.engine()->tokenizer(), input, most));
    longest_ = std::max(longest_, texts_.back().size());
    reply_.n_prompt += texts_.back().size();
  }
  return {};
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Status EmbeddingJob::plan(const Place& place) try {
  TRY_ASSIGN(embeddings_, Embeddings::begin(place.engine(), texts_, {.n_dims = request_.n_dims, .stop = stop_token()},
                                            bell()));
  return {};
} catch (const std::bad_alloc&) {
  return out_of_heap();
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

}  // namespace ibid::serve
