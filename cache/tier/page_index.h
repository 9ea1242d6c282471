// PageIndex: which pages a directory holds, in memory, so that a lookup opens only what it will read. It is a hint: a
// page is used only after its file was read and verified.
//
// Pages are sorted by (name of the pages before them, own ids). So the page that shares most ids with a text stands
// next to where that text would stand, and finding it costs O(log pages), however many pages continue the same
// beginning.
//
// For eviction the oldest goes first, and a page goes before the pages that it continues. Every use is younger than all
// before it, even when the clock jumps back.
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
#include "base/types.h"
#include "cache/tier/page_name.h"

namespace ibid {

struct StoredPage {
  std::string file_name;
  PageName before, name;
  Sha256Digest name_space{};
  size_t first_position = 0;
  Tokens ids;              // of its own rows; none: of another fingerprint or version, never found, only evicted
  uint64_t bytes = 0;      // of the file
  int64_t last_use_ns = 0;
};

class PageIndex {
 public:
  PageIndex() = default;
  PageIndex(const PageIndex&) = delete;
  PageIndex& operator=(const PageIndex&) = delete;

  // A page with all the memory that adding it takes.
  class Prepared;
  static Prepared prepare(StoredPage page);
  // Adds a page; one with the same file name is replaced. What was prepared cannot fail.
  void insert(Prepared prepared) noexcept;
  void insert(StoredPage page);
  void erase(const std::string& file_name);

  // The page behind `before` that begins with most of `ids`, and how many these are. None: n_rows is 0.
  struct Match {
    std::string file_name;
    size_t first_position = 0;
    size_t n_page_ids = 0;  // of the page
    size_t n_rows = 0;
  };
  Match best_match(const PageName& before, TokenSpan ids) const;
  // Whether a page behind `before` begins with all of `ids`.
  bool has(const PageName& before, TokenSpan ids) const;
  bool has_file(const std::string& file_name) const;

  // When something is used that is used at now_ns of a clock that may jump: later than everything else.
  int64_t next_use_ns(int64_t now_ns) const;
  // The page was used. Returns next_use_ns(). Does nothing else for a page that is not there.
  int64_t touch(const std::string& file_name, int64_t now_ns);

  // The file to evict next: the least recently used of those that no other page continues. None: empty.
  std::optional<std::string> oldest();

  // The files of a namespace; and the files behind `before` whose ids are a proper prefix of `ids`.
  std::vector<std::string> files_of(const Sha256Digest& name_space) const;
  std::vector<std::string> files_superseded_by(const PageName& before, TokenSpan ids) const;

  size_t pages() const;
  uint64_t bytes() const;

 private:
  struct Place {  // in by_ids_
    const PageName* before;
    TokenSpan ids;
  };
  struct ByIds {
    using is_transparent = void;
    static Place place(const StoredPage* page) { return {&page->before, page->ids}; }
    static bool less(const Place& a, const Place& b);
    bool operator()(const StoredPage* a, const StoredPage* b) const;
    bool operator()(const StoredPage* a, const Place& b) const { return less(place(a), b); }
    bool operator()(const Place& a, const StoredPage* b) const { return less(a, place(b)); }
  };
  struct ByAge {
    bool operator()(const StoredPage* a, const StoredPage* b) const;
  };

  using ByFileMap = std::map<std::string, std::unique_ptr<StoredPage>>;
  using ByIdsSet = std::set<StoredPage*, ByIds>;
  using ByAgeSet = std::set<StoredPage*, ByAge>;

  // REQUIRES of all: mutex_.
  std::pair<const StoredPage*, size_t> best(const PageName& before, TokenSpan ids) const;
  void remove(const std::string& file_name);
  void age(StoredPage* page, int64_t last_use_ns);

  mutable std::mutex mutex_;  // guards what follows
  ByFileMap by_file_;
  ByIdsSet by_ids_;  // those with ids
  ByAgeSet by_age_;
  uint64_t bytes_ = 0;
  int64_t newest_ns_ = 0;  // the latest use ever seen
};

class PageIndex::Prepared {
  friend class PageIndex;
  ByFileMap by_file_;  // one page each
  ByIdsSet by_ids_;
  ByAgeSet by_age_;
};

}  // namespace ibid
