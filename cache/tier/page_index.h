// PageIndex: the pages and states of a directory, in memory, so that a lookup opens only the files that it reads. The
// index is only a hint: a record is used only after its file was verified.
//
// Pages are sorted by (name of the pages before, own tokens). So the page with the longest common prefix is next to the
// insertion point of the wanted tokens: O(log pages), however many pages continue the same beginning. States are sorted
// by (name of the pages before the page that contains their position, tokens of that page up to their position).
//
// Evicts the least recently used record first, and a record before the pages that it continues. Each use gets a later
// time than all uses before it, even if the clock jumps back.
//
// Thread-safe: one mutex, and no I/O while it is held. Strong guarantee for std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "cache/tier/kv_page_file.h"
#include "cache/tier/page_name.h"
#include "ibid/token.h"

namespace ibid {

struct StoredRecord {
  std::string file_name;
  KvRecordKind kind = KvRecordKind::kPage;
  PageName before, name;
  Sha256Digest name_space{};
  size_t first_position = 0;
  Tokens ids;             // tokens from the page's beginning to the record's end; empty: the record can only be evicted
  bool is_known = false;  // the record is of this version; `ids` is set only then
  KvPageParts parts = KvPageParts::kBoth;
  uint64_t bytes = 0;  // size of the file
  int64_t last_use_ns = 0;

  // Number of tokens between first_position and the beginning of the page that contains it; 0 if the record is a page.
  size_t n_front() const { return first_position % kPagePositions; }
  TokenSpan front() const { return TokenSpan(ids).first(n_front()); }
};

class PageIndex {
 public:
  PageIndex() = default;
  PageIndex(const PageIndex&) = delete;
  PageIndex& operator=(const PageIndex&) = delete;

  // A record, together with all memory that insert() needs.
  class Prepared;
  static Prepared prepare(StoredRecord page);
  // Adds a record, or replaces the record with the same file name. Adding a prepared record cannot fail.
  void insert(Prepared prepared) noexcept;
  void insert(StoredRecord page);
  void erase(const std::string& file_name);

  struct Match {
    std::string file_name;
    size_t first_position = 0;
    size_t n_page_ids = 0;  // number of tokens of the page
    size_t n_rows = 0;
  };
  // Returns the page after `before` with the most tokens in common with `ids`. n_rows is the number of common tokens; 0
  // if no page matches.
  Match best_match(const PageName& before, TokenSpan ids) const;
  // True if a page after `before` begins with all of `ids`, and either has these parts or has more tokens.
  bool has(const PageName& before, TokenSpan ids, KvPageParts parts = KvPageParts::kBoth) const;
  bool has_file(const std::string& file_name) const;

  // Returns the time to record for a use at now_ns: later than all uses before, because the clock may jump back.
  int64_t next_use_ns(int64_t now_ns) const;
  // Records next_use_ns() as the time of a file's last use, if the file is known, and returns this time.
  int64_t touch(const std::string& file_name, int64_t now_ns);

  // Returns the file to evict next: the least recently used one that no other record continues. nullopt: no file.
  std::optional<std::string> oldest();
  // Returns the least recently used state, or nullopt.
  std::optional<std::string> oldest_state() const;

  struct StateMatch {
    std::string file_name;
    size_t first_position = 0;
    size_t n_rows = 0;  // number of rows in the file
    size_t n_used = 0;  // number of the rows whose tokens match `ids`
  };
  // Returns the states after `before` whose tokens are a prefix of `ids`; for each position only the state with the
  // most rows whose tokens match `ids`.
  std::vector<StateMatch> states_of(const PageName& before, TokenSpan ids) const;
  // True if there is a state after `before` and the first n_front tokens of `ids`, with rows for the remaining tokens.
  bool has_state(const PageName& before, TokenSpan ids, size_t n_front) const;
  // Call for a new state after `before` and the first n_front tokens of `ids` that has rows for all other tokens.
  // Returns the files that it supersedes: states at the same position, with rows for only the first of these tokens.
  std::vector<std::string> states_superseded_by(const PageName& before, TokenSpan ids, size_t n_front) const;

  // files_of() returns the files of a namespace; files_superseded_by() the page files after `before` whose tokens are a
  // proper prefix of `ids`.
  std::vector<std::string> files_of(const Sha256Digest& name_space) const;
  std::vector<std::string> files_superseded_by(const PageName& before, TokenSpan ids) const;

  // Returns the files of pages and states whose text begins with `text` and these tokens of its next page, pages before
  // those that continue them.
  std::vector<std::string> files_after(const TextName& text, TokenSpan page_ids) const;
  // Copies of all records.
  std::vector<StoredRecord> records() const;

  size_t pages() const;
  size_t states() const;
  uint64_t bytes() const;  // total of pages and states
  uint64_t state_bytes() const;

 private:
  struct Place {  // Key of a record in by_ids_.
    const PageName* before;
    TokenSpan ids;
  };
  struct ByIds {
    using is_transparent = void;
    static Place place(const StoredRecord* page) {
      return {&page->before, page->kind == KvRecordKind::kPage ? TokenSpan(page->ids) : page->front()};
    }
    static bool less(const Place& a, const Place& b);
    bool operator()(const StoredRecord* a, const StoredRecord* b) const;
    bool operator()(const StoredRecord* a, const Place& b) const { return less(place(a), b); }
    bool operator()(const Place& a, const StoredRecord* b) const { return less(a, place(b)); }
  };
  struct ByAge {
    bool operator()(const StoredRecord* a, const StoredRecord* b) const;
  };

  using ByFileMap = std::map<std::string, std::unique_ptr<StoredRecord>>;
  using ByIdsSet = std::set<StoredRecord*, ByIds>;
  using ByAgeSet = std::set<StoredRecord*, ByAge>;

  // REQUIRES, for all functions below: mutex_ is locked.
  std::pair<const StoredRecord*, size_t> best(const PageName& before, TokenSpan ids) const;
  ByIdsSet& by_ids(const StoredRecord& record) { return record.kind == KvRecordKind::kPage ? by_ids_ : states_by_ids_; }
  template <typename Visit>
  void visit_states(const PageName& before, TokenSpan front, Visit&& visit) const;
  const StoredRecord* continuation_of(const StoredRecord& page) const;
  void remove(const std::string& file_name);
  void age(StoredRecord* page, int64_t last_use_ns);

  mutable std::mutex mutex_;  // guards the members below
  ByFileMap by_file_;
  ByIdsSet by_ids_, states_by_ids_;  // records with is_known; by_ids_: pages; states_by_ids_: states
  ByAgeSet by_age_, states_by_age_;  // by_age_: all records; states_by_age_: the states
  uint64_t bytes_ = 0, state_bytes_ = 0;
  int64_t newest_ns_ = 0;  // time of the latest use of any record
};

class PageIndex::Prepared {
  friend class PageIndex;
  ByFileMap by_file_;  // each set and map has at most one entry
  ByIdsSet by_ids_;
  ByAgeSet by_age_, states_by_age_;
};

}  // namespace ibid
