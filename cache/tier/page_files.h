// PageFiles: pages and states as files of one directory, under a budget: what is there (PageIndex), how it gets there
// and goes again (TierDirectory), and which file goes when the budget is reached. It decides nothing about when:
// WriteBehind writes through it, FileTier reads.
//
// The least recently used page goes first, and a page goes before the one that it continues. A newer last page of a
// sequence supersedes its beginning, which is removed when the new name is durable; so does a state with more rows
// behind it. A page with all of its parts takes the place of one without its window. States take at most half of the
// budget: one of them is as large as many pages. Files that are not what they say go to quarantine/.
//
// Thread-safe. Whoever changes files has the pen (take_pen()), for a page or for one call; reading needs none. The
// index is looked at under its own lock, with the pen or without.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_ops.h"
#include "base/result.h"
#include "cache/pages/kv_layout.h"
#include "cache/tier/page_index.h"
#include "cache/tier/tier_directory.h"
#include "cache/tier/write_behind.h"
#include "ibid/token.h"

namespace ibid {

struct PageFilesOptions {
  std::string directory;
  Fingerprint fingerprint;
  uint64_t budget_bytes = 0;  // of the files of pages; the bounded quarantine is not counted
  // false: files are not synced. A power loss may then cost any of them, but never makes a wrong one.
  bool durable = true;
  PageNameRule name_rule = first_half;
};

class PageFiles : public PageSink {
 public:
  // A page to read.
  struct Found {
    std::string file_name;
    size_t n_ids = 0;   // in the file, from position 0
    size_t n_used = 0;  // of the wanted ids, up to the end of what is used
  };
  // A state to read.
  struct FoundState {
    TierDirectory::StateFile file;
    size_t n_used = 0;  // of the wanted ids, up to the last row that is used

    size_t reach(size_t n) const { return std::min(n_used, n); }
  };

  // Makes the directory or takes it over: removes what a crash left, reads the headers of the files, and evicts what
  // is over the budget. Errors: those of TierDirectory::open() and scan(); kIo. May throw std::bad_alloc.
  static Result<std::unique_ptr<PageFiles>> open(PageFilesOptions options, KvLayout layout, FileOps& files,
                                                 Clock& clock);

  // What continues the first `length` of `ids`, page by page. The files are not opened yet.
  std::vector<Found> find(const KvPageIdentity& identity, TokenSpan ids, size_t length) const;
  // States that the ids begin with and that reach beyond the first `length` of them; those that reach furthest come
  // first.
  std::vector<FoundState> find_states(const KvPageIdentity& identity, TokenSpan ids, size_t length) const;
  // Reads a file into `page` (both parts, of nobody yet) and verifies it. Returns which parts the file has. Errors:
  // those of TierDirectory::read(); `page` is then worth nothing.
  Result<KvPageParts> read(const Found& found, const KvPageIdentity& identity, TokenSpan ids,
                           std::vector<std::byte>& scratch, const PageMemory& page);
  // Reads a state up to the first n of the ids. Errors: those of TierDirectory::read_state().
  Result<StateSnapshot> read_state(const FoundState& found, KvPagePool& pool, const KvPageIdentity& identity,
                                   TokenSpan ids, size_t n);
  // The file was used, and with it all that it continues.
  void touch(const std::string& file_name);
  // A file could not be read, for this reason. Where the file is to blame it is taken out of the index and put away, so
  // that it is not read again. Takes the pen.
  void give_up(const std::string& file_name, const Status& why);

  std::unique_lock<std::mutex> take_pen() override { return std::unique_lock(pen_); }
  bool has(const PageName& before, TokenSpan page_ids, KvPageParts parts) const override {
    return index_.has(before, page_ids, parts);
  }
  void touch(const PageName& before, TokenSpan page_ids) override;
  bool has_state(const PageName& before, TokenSpan page_ids, size_t n_front) const override {
    return index_.has_state(before, page_ids, n_front);
  }
  Status write(const WaitingPage& page, std::span<const std::byte> rows, KvPageParts parts) override;
  Status write(const WaitingState& state, std::span<const std::byte> bytes) override;
  Status settle() override;

  // Removes all files of a namespace, those of other fingerprints included, and all of the quarantine. The first error
  // there is, after all were tried. REQUIRES: the pen.
  Status clear(const Sha256Digest& name_space);

  // Adds what is known here to the statistics of a tier.
  void add_to(KvTierStats& stats) const;

 private:
  PageFiles(PageFilesOptions options, KvLayout layout, std::unique_ptr<TierDirectory> directory, Clock& clock);
  Status take_over();
  KvPageParts parts_of(const StoredRecord& record) const;
  Status make_room(const std::string& continues, uint64_t bytes);
  Status make_room_for_state(uint64_t bytes);
  Status add(StoredRecord record, TierDirectory::Pieces pieces, std::vector<std::string> superseded);
  Status remove(const std::string& file_name);

  const PageFilesOptions options_;
  const KvLayout layout_;
  const std::unique_ptr<TierDirectory> directory_;
  Clock& clock_;
  PageIndex index_;

  std::string other_versions_;  // KvTierStats::other_versions

  std::mutex pen_;                       // of whoever changes files
  std::vector<std::string> superseded_;  // of whoever has the pen: to be removed when the new names are durable

  std::atomic<size_t> n_pages_written_{0}, n_states_written_{0}, n_evicted_{0}, n_quarantined_{0}, n_failures_{0};
};

}  // namespace ibid
