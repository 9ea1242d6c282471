// MemoryTier: a KvTier whose pages are records in a map, as a server would have them. It is the second implementation
// of the interface, and a model for a remote one. Reads page by page; writes through WriteBehind.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "cache/tier/kv_tier.h"
#include "cache/tier/write_behind.h"

namespace ibid {

// The storage, which outlives tiers, like a server. Thread-safe.
class RecordServer {
 public:
  struct Record {
    Sha256Digest name_space{};
    Tokens page_ids;
    std::vector<std::byte> bytes;  // kv_record.h
    size_t position = 0;           // position of a state
    KvPageParts parts = KvPageParts::kBoth;
  };

  std::atomic<bool> fails{false};  // simulates an unreachable server: every call of a tier fails

  // Returns the record after `before` with the longest common prefix; kNotFound if there is no record.
  Result<Record> get(const PageName& before, TokenSpan page_ids) const;
  // Adds a record, and removes records after `before` whose tokens are a prefix of the new record's.
  Status put(const PageName& before, Record record);
  Status erase(const Sha256Digest& name_space);
  bool has(const PageName& before, TokenSpan page_ids, KvPageParts parts) const;
  // states() and put_state() are for states with their rows. states() returns those after `before` and a prefix of the
  // tokens.
  std::vector<Record> states(const PageName& before, TokenSpan page_ids) const;
  Status put_state(const PageName& before, Record record);
  bool has_state(const PageName& before, TokenSpan page_ids, size_t n_front) const;
  size_t size() const;
  // Flips a bit in the last byte of each record that starts at this position.
  void damage(size_t first_position);

 private:
  mutable std::mutex mutex_;
  std::multimap<PageName, Record> records_, states_;
};

class MemoryTier : public KvTier, private PageSink {
 public:
  MemoryTier(const Fingerprint& fingerprint, RecordServer& server, KvPagePool& pool, Clock& clock,
             std::unique_ptr<IdleTime> idle);

  using KvTier::extend;
  using KvTier::flush;
  size_t extend(std::string_view name_space, TokenSpan ids, KvCacheEntry& entry, const ReadLimits& limits) override;
  void write_behind(std::string_view name_space, const KvCacheEntry& entry) override;
  Status flush(int64_t limit_ns) override { return writing_.flush(limit_ns); }
  Status clear(std::string_view name_space) override;
  KvTierStats stats() const override;

 private:
  std::unique_lock<std::mutex> take_pen() override { return std::unique_lock(pen_); }
  bool has(const PageName& before, TokenSpan page_ids, KvPageParts parts) const override {
    return server_.has(before, page_ids, parts);
  }
  void touch(const PageName&, TokenSpan) override {}
  bool has_state(const PageName& before, TokenSpan page_ids, size_t n_front) const override {
    return server_.has_state(before, page_ids, n_front);
  }
  Status write(const WaitingPage& page, std::span<const std::byte> rows, KvPageParts parts) override;
  Status write(const WaitingState& state, std::span<const std::byte> bytes) override;
  Status settle() override { return {}; }

  struct Found {
    std::vector<KvPage> pages;
    size_t end = 0;  // end of the tokens whose pages were read
  };
  Found read_pages(const KvPageIdentity& identity, TokenSpan ids, size_t length, const ReadLimits& limits);
  std::optional<StateSnapshot> read_state(const KvPageIdentity& identity, TokenSpan ids, size_t length);

  KvPageIdentity identity_of(std::string_view name_space) const {
    return {fingerprint_, digest_of_namespace(name_space)};
  }

  const Fingerprint fingerprint_;
  RecordServer& server_;
  KvPagePool& pool_;
  Clock& clock_;
  std::mutex pen_;
  std::atomic<size_t> n_hits_{0}, n_misses_{0}, n_tokens_read_{0}, n_pages_read_{0}, n_written_{0};
  std::atomic<size_t> n_states_read_{0}, n_failures_{0};
  WriteBehind writing_;  // last, because its thread uses the other members
};

}  // namespace ibid
