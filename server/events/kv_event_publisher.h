// KvEventPublisher: publishes which blocks of keys and values this process can reuse, for routers, over ZeroMQ, in the
// protocol of vLLM's ZmqEventPublisher: messages [topic, number, batch] on a PUB socket, and a ROUTER socket that
// repeats batches. The number is big-endian in 8 bytes and grows by one; server/events/kv_event_encoder.h has the
// batches. The first number is the time of the start in microseconds, so that the numbers of a new process differ from
// those of an earlier one.
//
// Events are hints: a router that missed events sends a request to a server that has to compute more; no answer
// changes. Unlike vLLM's publisher, this one begins with AllBlocksCleared, and publishes a snapshot (AllBlocksCleared
// and then all blocks) whenever a subscriber arrives or requests batches that are not kept any more. Changes are
// published at once, also those of an idle server.
//
// A request to repeat is [empty, number]. The reply is a message [empty, topic, number, batch] for each kept batch from
// this number on, and [empty, empty, -1, empty]. A number that is neither kept nor the next one requests a snapshot. At
// most one snapshot a second is made for requests and subscribers.
//
// One thread uses the sockets; no other thread waits for this thread, and it waits for no subscriber: messages that a
// slow subscriber does not take are dropped. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "server/events/kv_event_encoder.h"

namespace ibid {
class LruKvCacheStore;
}

namespace ibid::serve {

struct KvEventOptions {
  std::string endpoint;              // endpoint of the PUB socket: "ipc:///run/ibid/events", "tcp://127.0.0.1:5557"
  std::string replay_endpoint = {};  // endpoint of the ROUTER socket; empty: no such socket
  std::string topic = {};            // the first part of each message
  bool may_leave_machine = false;    // allows endpoints that other machines can reach
  bool private_tokens = false;       // as in KvEventEncoder
  std::optional<KvEventEncoder::Secret> secret = {};  // default: random
};

// Checks the form of an endpoint, and that only this machine can reach it unless may_leave_machine: a path, whose
// socket only this user may use, or a loopback address. Error: kInvalidArgument, naming the endpoint.
Status check_event_endpoint(std::string_view endpoint, bool may_leave_machine);

class KvEventPublisher {
 public:
  // Binds the sockets and starts the thread. Errors: those of check_event_endpoint(); kIo if an endpoint cannot be
  // bound; kOutOfMemory if no thread can be started.
  static Result<std::unique_ptr<KvEventPublisher>> open(KvEventOptions options, Clock& clock);
  // Publishes AllBlocksCleared.
  ~KvEventPublisher();

  // Publishes the pages of this store from now on, until it is destroyed, in place of another store's.
  void watch(LruKvCacheStore& store);

  // The bound endpoints, with the port in place of "*".
  const std::string& endpoint() const;
  const std::string& replay_endpoint() const;

  struct Stats {
    uint64_t n_batches = 0, n_snapshots = 0, n_replays = 0;  // since the start
  };
  Stats stats() const;

 private:
  struct Parts;
  explicit KvEventPublisher(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace ibid::serve
