// EmbeddingRequest: what a client wants embedded, in the runtime's own words. EmbeddingListener: what it hears of it.
// Beside server/service/answer_request.h this is the border between protocols and the service.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "ibid/token.h"

namespace ibid::serve {

struct EmbeddingRequest {
  std::string model = {};            // a name that ModelHost knows; empty: the first
  std::string cache_namespace = {};  // of the API key, whose queue it waits in
  // Texts, in which no special token is meant and which get what the model's texts begin and end with; or ids, to which
  // nothing is added.
  std::vector<std::variant<std::string, Tokens>> inputs = {};
  size_t n_dims = 0;                 // the first numbers of each vector; 0: all
  bool cuts = false;                 // the end of an input that is too long is left out
  std::chrono::milliseconds deadline{0};  // these as in AnswerRequest
  std::optional<std::chrono::milliseconds> keep_alive = {};
};

struct EmbeddingReply {
  std::string model;                 // its name
  std::vector<std::vector<float>> vectors;  // by input
  size_t n_prompt = 0;               // ids of all inputs
  std::chrono::nanoseconds queued{0};  // until its turn, its model and memory
  std::chrono::nanoseconds computed{0};
};

// Hears of one request, on the service's threads. Must not wait and must not throw.
class EmbeddingListener {
 public:
  virtual ~EmbeddingListener() = default;
  // One of these comes, once. retry_after: what the queue is expected to take, of kBusy. Errors: as
  // AnswerListener::end() has them; kUnsupported where the model makes no embeddings.
  virtual void reply(EmbeddingReply reply) = 0;
  virtual void fail(const Status& status, std::chrono::seconds retry_after) = 0;
};

}  // namespace ibid::serve
