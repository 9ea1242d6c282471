#include "server/events/kv_event_encoder.h"

#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace ibid::serve {

namespace {

// The medium of the memory that a model computes from; indexes weigh others lower.
constexpr const char* kMedium = "GPU";
constexpr size_t kNamespaceDigits = 32;

bool ends_in(const Json& events, const char* type) { return !events.empty() && events.back()["type"] == type; }

// True if everybody may know that a text is cached: the namespace is that of all clients of a server without keys.
bool is_public(const KvChange& change) { return change.is_shared || change.name_space.empty(); }

}  // namespace

Sha256Digest KvEventEncoder::digest_of_space(const KvChange& change) {
  sha_.update(secret_);
  sha_.update(change.is_shared ? "shared" : "namespace:");
  if (!change.is_shared) sha_.update(change.name_space);
  return sha_.finish();
}

uint64_t KvEventEncoder::hash_of(const Sha256Digest& space, uint64_t before, TokenSpan tokens) {
  sha_.update(secret_);
  sha_.update(space);
  sha_.update(std::as_bytes(std::span(&before, 1)));
  sha_.update(std::as_bytes(tokens));
  const Sha256Digest digest = sha_.finish();
  uint64_t hash = 0;
  std::memcpy(&hash, digest.data(), sizeof(hash));
  return hash >> 1;  // some indexes read signed numbers
}

void KvEventEncoder::clear() {
  hashes_.clear();
  last_ = {};
  events_.push_back({{"type", "AllBlocksCleared"}});
}

void KvEventEncoder::add(const KvChange& change) {
  change.tokens.empty() ? add_removed(change.serial) : add_stored(change);
}

void KvEventEncoder::add_removed(uint64_t serial) {
  const auto known = hashes_.find(serial);
  if (known == hashes_.end()) return;  // the page was never full
  if (!ends_in(events_, "BlockRemoved")) {
    events_.push_back({{"type", "BlockRemoved"}, {"block_hashes", Json::array()}, {"medium", kMedium}});
  }
  events_.back()["block_hashes"].push_back(known->second);
  hashes_.erase(known);
  ++n_blocks_;
}

void KvEventEncoder::add_stored(const KvChange& change) {
  const auto parent = hashes_.find(change.before);
  if (change.before != 0 && parent == hashes_.end()) return;  // no prefix could lead to it
  const Sha256Digest space = digest_of_space(change);
  const uint64_t before = change.before == 0 ? 0 : parent->second;
  const auto [known, is_new] = hashes_.try_emplace(change.serial, hash_of(space, before, change.tokens));
  if (!is_new) return;
  const bool follows = change.before != 0 && last_.serial == change.before && last_.is_shared == change.is_shared &&
                       last_.name_space == change.name_space;
  if (!follows || !ends_in(events_, "BlockStored")) {
    events_.push_back({{"type", "BlockStored"},
                       {"block_hashes", Json::array()},
                       {"parent_block_hash", change.before == 0 ? Json() : Json(before)},
                       {"token_ids", Json::array()},
                       {"block_size", change.tokens.size()},
                       {"lora_id", Json()},
                       {"medium", kMedium},
                       {"lora_name", Json()}});
  }
  Json& event = events_.back();
  event["block_hashes"].push_back(known->second);
  if (is_public(change) || private_tokens_) {
    for (const TokenId id : change.tokens) event["token_ids"].push_back(id);
  }
  if (!is_public(change)) event["extra_keys"].push_back(Json::array({to_hex(space).substr(0, kNamespaceDigits)}));
  last_ = {.serial = change.serial, .name_space = change.name_space, .is_shared = change.is_shared};
  ++n_blocks_;
}

std::string KvEventEncoder::take(double unix_s) {
  const Json batch = Json::array({unix_s, std::exchange(events_, Json::array()), 0});
  n_blocks_ = 0;
  const std::vector<uint8_t> bytes = Json::to_msgpack(batch);
  return {bytes.begin(), bytes.end()};
}

}  // namespace ibid::serve
