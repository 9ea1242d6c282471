// PageIndex: which pages and states a directory holds, in memory, so that a lookup opens only what it will read. It is
// a hint: a record is used only after its file was read and verified.
//
// Pages are sorted by (name of the pages before them, own ids). So the page that shares most ids with a text stands
// next to where that text would stand, and finding it costs O(log pages), however many pages continue the same
// beginning.
//
// States are sorted likewise, by (name of the pages in front of the page that their position lies in, ids of that page
// in front of the position).
//
// For eviction the oldest goes first, and a page or a state goes before the pages that it continues. Every use is
// younger than all before it, even when the clock jumps back.
//
// Thread-safe, one mutex, under which there is no I/O. Calls that throw std::bad_alloc have changed nothing.
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
  Tokens ids;              // from its page's beginning to its end; none: never found, only evicted
  bool is_known = false;   // of this fingerprint and version, so that `ids` are there
  KvPageParts parts = KvPageParts::kBoth;
  uint64_t bytes = 0;      // of the file
  int64_t last_use_ns = 0;

  // How many of the ids stand in front of the first position: a page has none.
  size_t n_front() const { return first_position % kPagePositions; }
  TokenSpan front() const { return TokenSpan(ids).first(n_front()); }
};

class PageIndex {
 public:
  PageIndex() = default;
  PageIndex(const PageIndex&) = delete;
  PageIndex& operator=(const PageIndex&) = delete;

  // A record with all the memory that adding it takes.
  class Prepared;
  static Prepared prepare(StoredRecord page);
  // Adds a record; one with the same file name is replaced. What was prepared cannot fail.
  void insert(Prepared prepared) noexcept;
  void insert(StoredRecord page);
  void erase(const std::string& file_name);

  // The page behind `before` that begins with most of `ids`, and how many these are. None: n_rows is 0.
  struct Match {
    std::string file_name;
    size_t first_position = 0;
    size_t n_page_ids = 0;  // of the page
    size_t n_rows = 0;
  };
  Match best_match(const PageName& before, TokenSpan ids) const;
  // Whether a page behind `before` begins with all of `ids`, and has these parts or more ids.
  bool has(const PageName& before, TokenSpan ids, KvPageParts parts = KvPageParts::kBoth) const;
  bool has_file(const std::string& file_name) const;

  // When something is used that is used at now_ns of a clock that may jump: later than everything else.
  int64_t next_use_ns(int64_t now_ns) const;
  // The page was used. Returns next_use_ns(). Does nothing else for a page that is not there.
  int64_t touch(const std::string& file_name, int64_t now_ns);

  // The file to evict next: the least recently used of those that no other page continues. None: empty.
  std::optional<std::string> oldest();
  // The least recently used state. None: there is no state.
  std::optional<std::string> oldest_state() const;

  // States behind `before` that the ids begin with, and how many of the ids they and their rows stand for: of those of
  // one position the one whose rows reach furthest.
  struct StateMatch {
    std::string file_name;
    size_t first_position = 0;
    size_t n_rows = 0;   // in the file
    size_t n_used = 0;   // of its rows, that the ids agree with
  };
  std::vector<StateMatch> states_of(const PageName& before, TokenSpan ids) const;
  // Whether a state behind `before` of exactly the first n_front ids, with rows of the others, is there.
  bool has_state(const PageName& before, TokenSpan ids, size_t n_front) const;
  // The files of states of the first n_front ids whose rows are of a proper prefix of the others.
  std::vector<std::string> states_superseded_by(const PageName& before, TokenSpan ids, size_t n_front) const;

  // The files of a namespace; and the files behind `before` whose ids are a proper prefix of `ids`.
  std::vector<std::string> files_of(const Sha256Digest& name_space) const;
  std::vector<std::string> files_superseded_by(const PageName& before, TokenSpan ids) const;

  size_t pages() const;
  size_t states() const;
  uint64_t bytes() const;  // of both
  uint64_t state_bytes() const;

 private:
  struct Place {  // in by_ids_
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

  // REQUIRES of all: mutex_.
  std::pair<const StoredRecord*, size_t> best(const PageName& before, TokenSpan ids) const;
  ByIdsSet& by_ids(const StoredRecord& record) {
    return record.kind == KvRecordKind::kPage ? by_ids_ : states_by_ids_;
  }
  template <typename Visit>
  void visit_states(const PageName& before, TokenSpan front, Visit&& visit) const;
  const StoredRecord* continuation_of(const StoredRecord& page) const;
  void remove(const std::string& file_name);
  void age(StoredRecord* page, int64_t last_use_ns);

  mutable std::mutex mutex_;  // guards what follows
  ByFileMap by_file_;
  ByIdsSet by_ids_, states_by_ids_;  // pages and states that are known
  ByAgeSet by_age_, states_by_age_;  // all; states alone
  uint64_t bytes_ = 0, state_bytes_ = 0;
  int64_t newest_ns_ = 0;  // the latest use ever seen
};

class PageIndex::Prepared {
  friend class PageIndex;
  ByFileMap by_file_;  // one record each
  ByIdsSet by_ids_;
  ByAgeSet by_age_, states_by_age_;
};

}  // namespace ibid
