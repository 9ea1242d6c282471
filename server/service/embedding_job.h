// EmbeddingJob: a request for embeddings from its beginning to its end. Its texts become ids on a work thread; then
// they are tasks of the engine (runtime/embedding/embeddings.h), beside the answers that are under way.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "runtime/embedding/embeddings.h"
#include "server/service/embedding_request.h"
#include "server/service/job.h"

namespace ibid::serve {

class EmbeddingJob final : public Job {
 public:
  EmbeddingJob(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener, std::stop_token gone,
               std::shared_ptr<Bell> bell, Clock& clock);
  ~EmbeddingJob() override;

  KvReservations::Room room(const Engine& engine, size_t expected_answer) const override;
  Status prepare(const Place& place) override;
  Status plan(const Place& place) override;
  Next advance(Conversations& conversations) override;
  void leave_queue(std::chrono::nanoseconds waited) override;
  void refuse(const Status& busy, std::chrono::seconds retry_after) override;
  void end(const Status& status) override;
  const Status& status() const override { return status_; }
  const Usage& usage() const override { return usage_; }

 private:
  EmbeddingRequest request_;
  std::shared_ptr<EmbeddingListener> listener_;  // null: it has heard the end
  Clock& clock_;
  std::unique_ptr<Embeddings> embeddings_;       // while the engine computes
  EmbeddingReply reply_;
  int64_t start_ns_ = 0;
  std::vector<Tokens> texts_;
  size_t longest_ = 0;                           // of the texts, in ids
  Status status_;
  Usage usage_;
};

}  // namespace ibid::serve
