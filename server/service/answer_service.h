// AnswerService: begins answers and passes on what becomes of them. It admits a request or refuses it, loads its model,
// finds the conversation that it goes on from (server/service/conversations.h), and submits it to the engine. One
// thread hears all answers that are under way and calls their listeners; an answer has no thread of its own.
//
// A request waits in its owner's queue (server/service/admission.h), then perhaps for its model, then, with turns
// again, until its keys, values and states fit beside those of the others. It is planned on a work thread. From then on
// the engine computes, and the hearing thread passes on what comes. If memory runs out all the same, the request waits
// for more and is computed again: an answer is a function of its prompt and its seed, so the listener hears the rest of
// the same answer. A request that finds too little memory alone ends with kOutOfMemory.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "server/service/answer_request.h"
#include "server/service/conversations.h"
#include "server/service/embedding_request.h"

namespace ibid::serve {

class ModelHost;
class RequestDesk;
struct ModelTask;

struct AdmissionOptions {
  size_t max_running = 64;                      // answers under way; others wait in their namespace's queue
  size_t max_waiting = 512;                     // requests, beyond which a request is refused (kBusy)
  size_t max_waiting_prompt_bytes = 256u << 20;
  std::chrono::milliseconds queue_timeout{60'000};  // 0: none
  std::chrono::milliseconds total_timeout{0};   // 0: none
  // An answer without max_tokens is expected to have so many when room is reserved for it.
  size_t expected_answer_tokens = 512;
  ConversationOptions conversations = {};
};

// For /metrics and /monitor. Counters since the start, but for what is "now".
struct ServiceStats {
  // Requests, by how they ended. n_bad: what the request asked for cannot be had (is_of_request()); n_failed: it could,
  // and the server did not; n_refused: there was no room for it.
  uint64_t n_answers = 0, n_cancelled = 0, n_bad = 0, n_failed = 0, n_refused = 0;
  uint64_t n_retried = 0;                                    // attempts that found no memory, and were begun again
  uint64_t n_running = 0, n_waiting = 0;                     // now
  uint64_t n_prompt = 0, n_cached = 0, n_prefilled = 0, n_decoded = 0;  // ids
  uint64_t n_conversations = 0, conversation_bytes = 0;      // known now
  uint64_t n_continued = 0, n_forked = 0, n_unknown = 0;     // how requests found theirs
  uint64_t n_restored = 0, n_to_write = 0;                   // from the store; that wait to be written there now
  HistoryStats histories = {};
};

class AnswerService {
 public:
  // Nobody else may use models.set_on_unload().
  AnswerService(ModelHost& models, Clock& clock, const AdmissionOptions& options);
  // Cancels what is under way; every listener has heard its end.
  ~AnswerService();

  // Returns soon. Everything else, errors included, comes to the listener, perhaps within the call. `stop`: the client
  // has gone, and nobody hears the rest; the rows of its passes are free within a layer.
  void start(AnswerRequest request, std::shared_ptr<AnswerListener> listener, std::stop_token stop);
  // The same for embeddings, which wait in the same queue.
  void start(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener, std::stop_token stop);
  // A task of a model, which has to be loaded for it and computes nothing. Its queue is its own.
  void start(ModelTask task, std::stop_token stop);
  // How many ids the request's prompt has, and the text that the template makes of it, as such tasks. Errors: as
  // AnswerListener::end().
  void count_prompt(AnswerRequest request, std::function<void(const Result<size_t>&)> then, std::stop_token stop);
  void render_prompt(AnswerRequest request, std::function<void(const Result<std::string>&)> then,
                     std::stop_token stop);
  // Has the model unloaded once nobody uses it. Returns at once. Error: kNotFound.
  Status unload(std::string_view model);

  // Where what clients keep is, as ConversationOptions have it.
  ConversationStore& store();
  // As Conversations has it. What waits is run before this service has ended.
  void write_behind(std::function<void()> work);
  // Forgets all that is kept of a namespace, and what the loaded models' stores have of it.
  void forget_namespace(std::string_view cache_namespace);

  // New requests are refused (kIo). wait_until_quiet() waits until none is under way; false: some are, at the end of
  // the time.
  void stop_admitting();
  bool wait_until_quiet(std::chrono::milliseconds limit);

  ServiceStats stats() const;

 private:
  std::unique_ptr<RequestDesk> desk_;
};

}  // namespace ibid::serve
