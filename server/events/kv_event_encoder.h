// KvEventEncoder: turns changes of the pages of a store into events in the form of vLLM, in msgpack: a batch is
// [time, [event, ...], 0], an event a map with "type" BlockStored, BlockRemoved or AllBlocksCleared.
// Source: vllm/distributed/kv_events.py. A block is a page of 64 tokens.
//
// The hash of a block is an opaque number: 63 bits of SHA-256 over a secret of the process, the namespace, the hash of
// the block before it and the tokens. So a subscriber cannot test whether a text that it guesses is cached, and hashes
// of an earlier process mean nothing. Blocks of a namespace with a name have extra_keys with a digest of the namespace,
// made with the same secret, and no token_ids unless private_tokens is set.
//
// For one thread. May throw std::bad_alloc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/json_limits.h"
#include "base/sha256.h"
#include "server/events/kv_change_queue.h"

namespace ibid::serve {

class KvEventEncoder {
 public:
  using Secret = std::array<std::byte, 32>;

  explicit KvEventEncoder(const Secret& secret, bool private_tokens = false)
      : secret_(secret), private_tokens_(private_tokens) {}

  // Adds AllBlocksCleared, and forgets all pages.
  void clear();
  void add(const KvChange& change);

  // Number of blocks in the events since the last take(), and whether there are any events.
  size_t n_blocks() const { return n_blocks_; }
  bool is_empty() const { return events_.empty(); }
  // Returns the events as a batch.
  std::string take(double unix_s);

 private:
  void add_stored(const KvChange& change);
  void add_removed(uint64_t serial);
  Sha256Digest digest_of_space(const KvChange& change);
  uint64_t hash_of(const Sha256Digest& space, uint64_t before, TokenSpan tokens);

  const Secret secret_;
  const bool private_tokens_;
  Sha256 sha_;
  std::unordered_map<uint64_t, uint64_t> hashes_;  // hashes of the known pages, by serial
  Json events_ = Json::array();
  size_t n_blocks_ = 0;
  KvChange last_;  // last page of the last event, without its tokens, if this event is a BlockStored
};

}  // namespace ibid::serve
