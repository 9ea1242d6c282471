// FileTierIndex: what the files of a cold tier hold, in memory, so that a lookup opens only what it will read.
// The index is a hint: a page is used only after its file was read and verified.
//
// Pages are sorted by (name of the pages before them, own ids). So the page that shares most ids with a text stands
// next to where that text would stand, and finding it costs O(log pages), however many pages continue the same
// beginning.
//
// For eviction the oldest goes first, and a page goes before the pages that it continues. The index does no I/O and
// is not thread-safe. Calls that throw std::bad_alloc have changed nothing.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "base/types.h"
#include "cache/tier/kv_page_file.h"

namespace ibid {

// Names the text up to the end of a page, or the empty text before the first one. It is a part of a SHA-256, so
// names cannot be guessed or made to collide; nothing relies on that.
struct PageName {
  std::array<std::byte, 16> bytes{};
  auto operator<=>(const PageName&) const = default;
};

class PageNamer {
 public:
  // bits: of 128, how many a name uses. Fewer make names collide, for tests.
  explicit PageNamer(size_t bits = 128) : bits_(bits) {}
  PageName first(const KvPageIdentity& identity);               // of no ids
  PageName next(const PageName& before, TokenSpan page_ids);    // of a page's ids after `before`

 private:
  PageName finish();
  size_t bits_;
  Sha256 hash_;
};

// "<before>-<name>.kv" in hexadecimal digits, and back.
std::string page_file_name(const PageName& before, const PageName& name);
std::optional<std::pair<PageName, PageName>> parse_page_file_name(std::string_view file_name);

struct StoredPage {
  std::string file_name;
  PageName before, name;
  Sha256Digest name_space{};
  size_t first_position = 0;
  Tokens ids;              // of its own rows; none: of another fingerprint or version, never found, only evicted
  uint64_t bytes = 0;      // of the file
  int64_t last_use_ns = 0;
};

class FileTierIndex {
 public:
  FileTierIndex() = default;
  FileTierIndex(const FileTierIndex&) = delete;
  FileTierIndex& operator=(const FileTierIndex&) = delete;

  // A page with all the memory that adding it takes.
  class Prepared;
  static Prepared prepare(StoredPage page);
  // Adds a page; one with the same file name is replaced. What was prepared cannot fail.
  void insert(Prepared prepared) noexcept;
  void insert(StoredPage page);
  void erase(const std::string& file_name);

  // Returns the page behind `before` that begins with most of `ids`, and how many these are; null when no page
  // shares the first id. Valid until the next insert or erase.
  struct Match {
    const StoredPage* page = nullptr;
    size_t n_rows = 0;
  };
  Match best_match(const PageName& before, TokenSpan ids) const;

  const StoredPage* find(const std::string& file_name) const;
  void touch(const std::string& file_name, int64_t now_ns);

  // Returns the page to evict next: the least recently used of those that no other page continues; null when empty.
  const StoredPage* oldest();

  // Returns the files of a namespace; and the files behind `before` whose ids are a proper prefix of `ids`.
  std::vector<std::string> files_of(const Sha256Digest& name_space) const;
  std::vector<std::string> files_superseded_by(const PageName& before, TokenSpan ids) const;

  size_t pages() const { return by_file_.size(); }
  uint64_t bytes() const { return bytes_; }
  int64_t newest_ns() const { return newest_ns_; }  // the latest use ever seen

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

  void age(StoredPage* page, int64_t last_use_ns);

  ByFileMap by_file_;
  ByIdsSet by_ids_;  // those with ids
  ByAgeSet by_age_;
  uint64_t bytes_ = 0;
  int64_t newest_ns_ = 0;
};

class FileTierIndex::Prepared {
  friend class FileTierIndex;
  ByFileMap by_file_;  // one page each
  ByIdsSet by_ids_;
  ByAgeSet by_age_;
};

}  // namespace ibid
