// PageFiles: pages and states as files of one directory, under a budget. PageIndex lists the existing files,
// TierDirectory reads and writes them, PageFiles evicts. WriteBehind writes through it, FileTier reads.
//
// Deletes the least recently used file first, and a page before the page that it continues. A longer last page of a
// sequence supersedes its shorter version, which is deleted once the new name is durable; likewise a state with more
// rows supersedes the state with fewer. A page with both parts replaces one without its window part. States take at
// most half of the budget, because one state is as large as many pages. Files that fail verification are moved to
// quarantine/.
//
// Thread-safe. A caller that changes files holds the writer lock, called the pen (take_pen()), for one page or one
// call; reading needs no lock. The index has its own lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_ops.h"
#include "base/result.h"
#include "cache/pages/kv_layout.h"
#include "cache/tier/kv_page_file.h"
#include "cache/tier/kv_state_file.h"
#include "cache/tier/page_index.h"
#include "cache/tier/tier_records.h"
#include "cache/tier/write_behind.h"
#include "ibid/token.h"

namespace ibid {

struct RecordList;

// The files of a cold tier. Each holds one record (cache/tier/kv_record.h), and after a crash is either complete or
// absent. TierDirectory has no policy and no index; it owns only the lock of the directory. In the list of files,
// <name> is the PageName of the record, <before> the PageName of the page before it, and <n> a number:
//   <directory>/lock                                held while this object exists
//              /<before>-<name>.kv                  a page
//              /<before>-<name>.state               a recurrent state, and rows after it
//              /<n>.tmp                             a file that is being written; scan() removes those of a crash
//              /quarantine/<before>-<name>.kv, .state   at most kMaxQuarantined files that failed verification
// The directory and quarantine/ are private to their user, and are accessed through the descriptors that open()
// checked. Entries with other names, or that are not regular files, were not made by a tier ("foreign"); they are never
// read or removed.
//
// Only one thread at a time calls write(), remove(), sync(), quarantine() and clear_quarantine(); any number may call
// read() meanwhile. `files` must outlive the object.
class TierDirectory {
 public:
  static constexpr size_t kMaxQuarantined = 8;

  // Creates the directory if it is missing, and takes its lock. Errors: kIo; kBusy if another process has the lock;
  // kUnsafePath, with a remedy, for a symlink, for a directory of another user and for one that others may access.
  static Result<std::unique_ptr<TierDirectory>> open(const std::string& path, FileOps& files);

  // Lists the records, reading only names and headers: records of this program's version and of `numerics_version` with
  // their tokens, other records without. Removes files that a crash left, quarantines invalid records, skips foreign
  // entries. Error: kIo if the directory cannot be listed.
  struct Contents {
    std::vector<StoredRecord> records;
    size_t n_quarantined = 0;
    size_t n_unreadable = 0;
    std::map<std::string, size_t> of_other_versions;  // reason -> number of records
  };
  Result<Contents> scan(uint32_t numerics_version, PageNamer& namer);

  struct PageFile {
    std::string file_name;
    size_t n_rows = 0;  // as in the index
  };
  // Reads a page's file into `page` (with both parts, not shared yet) and verifies it meanwhile; after an error the
  // content of `page` is unusable. Returns the parts that the file has. text: as in KvPageCheck. `scratch` is for the
  // header. Errors: kNotFound, kIo, kUnsafePath; those of KvPageCheck; kBadHeader if the file has another size.
  Result<KvPageParts> read(const PageFile& file, const KvLayout& layout, const KvPageIdentity& identity,
                           const KvRecordText& text, std::vector<std::byte>& scratch, const PageMemory& page);

  struct StateFile {
    std::string file_name;
    size_t position = 0;  // position and n_rows: as in the index
    size_t n_rows = 0;
  };
  // As read(), for a state and those of its rows whose tokens are in `text`. Further error: kOutOfMemory.
  Result<StateSnapshot> read_state(const StateFile& file, KvPagePool& pool, const KvPageIdentity& identity,
                                   const KvRecordText& text);

  // Reads the fixed beginning of a record. Errors: kNotFound, kIo, kUnsafePath, those of parse_kv_record_header().
  Result<KvRecordHeader> read_header(const std::string& file_name);

  using Pieces = std::span<const std::span<const std::byte>>;
  // Writes the pieces of a record to a new file and renames it to file_name. durable: the content is on the device
  // before the rename; the name is durable after sync(). After an error file_name is missing, or is still the old file.
  Status write(const std::string& file_name, Pieces pieces, int64_t mtime_ns, bool durable);
  Status remove(const std::string& file_name);
  bool has(const std::string& file_name) const;
  Status sync();

  // Moves a file to quarantine/, for diagnosis, and removes files there beyond the limit. If quarantine/ is not usable,
  // removes the file instead.
  Status quarantine(const std::string& file_name);
  Status clear_quarantine();

  // Sets the modification time of a file. Ignores errors, because the time is used only for the eviction order after a
  // restart. Any thread.
  void set_mtime(const std::string& file_name, int64_t mtime_ns) noexcept;

 private:
  TierDirectory(std::unique_ptr<Directory> directory, std::unique_ptr<FileLock> lock,
                std::unique_ptr<Directory> quarantine);
  Result<StoredRecord> read_stored(const std::string& file_name, uint32_t numerics_version, PageNamer& namer,
                                   Contents& contents);
  // Removes a file that a crash left incomplete.
  Status remove_temporary(const std::string& name);
  Result<std::unique_ptr<File>> create_temporary(std::string& name);
  Status write_new(File& file, Pieces pieces, bool durable);
  Result<std::vector<std::string>> quarantined() const;

  const std::unique_ptr<Directory> directory_;
  const std::unique_ptr<FileLock> lock_;
  const std::unique_ptr<Directory> quarantine_;  // null: quarantine/ could not be opened, and is not used
  uint64_t n_written_ = 0;
};

struct PageFilesOptions {
  std::string directory;
  uint32_t numerics_version = 0;  // records of other versions are not used
  KvWriterId writer{};
  uint64_t budget_bytes = 0;  // limit for the record files; quarantined files, at most a few, are not counted
  // false: files are not synced. A power loss may then lose files, but never corrupts what is read.
  bool durable = true;
  PageNameRule name_rule = first_half;
};

class PageFiles : public PageSink {
 public:
  // A page to read.
  struct Found {
    TierDirectory::PageFile file;
    TextName before;
    size_t n_used = 0;  // number of wanted tokens up to the last token that the page supplies
  };
  // A state to read.
  struct FoundState {
    TierDirectory::StateFile file;
    TextName before;
    size_t n_used = 0;  // number of wanted tokens up to the last row that is used

    size_t reach(size_t n) const { return std::min(n_used, n); }
  };

  // Creates the directory or opens an existing one. When opening, removes what a crash left, reads the headers, and
  // deletes files over the budget. Errors: those of TierDirectory::open() and scan(); kIo. May throw std::bad_alloc.
  static Result<std::unique_ptr<PageFiles>> open(PageFilesOptions options, KvLayout layout, FileOps& files,
                                                 Clock& clock);

  // Returns the pages that continue the first `length` tokens of `ids`, in order. Opens no file.
  std::vector<Found> find(const KvPageIdentity& identity, TokenSpan ids, size_t length) const;
  // Returns the states after prefixes of `ids` that reach beyond the first `length` tokens; the state that reaches
  // furthest is first.
  std::vector<FoundState> find_states(const KvPageIdentity& identity, TokenSpan ids, size_t length) const;
  // Reads a file into `page` (both parts, not shared yet) and verifies it. Returns the parts that the file has. Errors:
  // those of TierDirectory::read(); the content of `page` is then unusable.
  Result<KvPageParts> read(const Found& found, const KvPageIdentity& identity, TokenSpan ids,
                           std::vector<std::byte>& scratch, const PageMemory& page);
  // Reads a state with its rows, up to the first n tokens of `ids`. Errors: those of TierDirectory::read_state().
  Result<StateSnapshot> read_state(const FoundState& found, KvPagePool& pool, const KvPageIdentity& identity,
                                   TokenSpan ids, size_t n);
  // --- Single records (cache/tier/page_files_records.cc)

  // Returns the file of a record with this text. Error: kNotFound.
  Result<Found> find_page(const KvPageIdentity& identity, const TierRecord& record) const;
  Result<FoundState> find_state(const KvPageIdentity& identity, const TierRecord& record) const;
  // As TierRecords::remove_wrong(), without the queued writes. REQUIRES: the caller holds the pen.
  Result<TierRecords::Removed> remove_wrong(const KvPageIdentity& identity, const TierRecord& record);
  // Lists the records of this computation.
  RecordList list(const Fingerprint& fingerprint);

  // Marks a file, and all files that it continues, as used.
  void touch(const std::string& file_name);
  // Call after a file could not be read, with the error `why`. If the content of the file is the cause, removes the
  // file from the index and quarantines it, so that it is not read again. Takes the pen.
  void give_up(const std::string& file_name, const Status& why);

  std::unique_lock<std::mutex> take_pen() override { return std::unique_lock(pen_); }
  bool has(const RecordPlace& place, KvPageParts parts) const override {
    return index_.has(place.before, place.page_ids, parts);
  }
  void touch(const PageName& before, TokenSpan page_ids) override;
  bool has_state(const RecordPlace& place, size_t n_front) const override {
    return index_.has_state(place.before, place.page_ids, n_front);
  }
  Status write(const WaitingPage& page, std::span<const std::byte> rows, KvPageParts parts) override;
  Status write(const WaitingState& state, std::span<const std::byte> bytes) override;
  Status settle() override;

  // Deletes all files of a namespace, of any fingerprint, and the quarantined files. Tries to delete all of them, even
  // after an error; returns the last error. REQUIRES: the caller holds the pen.
  Status clear(const Sha256Digest& name_space);

  // Adds the counters of this object to the statistics of a tier.
  void add_to(KvTierStats& stats) const;

 private:
  PageFiles(PageFilesOptions options, KvLayout layout, std::unique_ptr<TierDirectory> directory, Clock& clock);
  Status take_over();
  KvPageParts parts_of(const StoredRecord& record) const;
  Status check_writable(const std::string& file_name) const;
  Status make_room(const std::string& continues, uint64_t bytes);
  Status make_room_for_state(uint64_t bytes);
  Status add(StoredRecord record, TierDirectory::Pieces pieces, std::vector<std::string> superseded);
  Status remove(const std::string& file_name);

  const PageFilesOptions options_;
  const KvLayout layout_;
  const std::unique_ptr<TierDirectory> directory_;
  Clock& clock_;
  PageIndex index_;

  std::string other_versions_;  // reported as KvTierStats::other_versions

  std::mutex pen_;                       // held by the thread that changes files
  std::vector<std::string> superseded_;  // guarded by the pen: files to delete once the new names are durable
  // Guarded by the pen: wrong files that were removed. This process does not write them again, because a turn that has
  // read one may be in progress.
  std::set<std::string> wrong_;

  std::atomic<size_t> n_pages_written_{0}, n_states_written_{0}, n_evicted_{0}, n_quarantined_{0}, n_failures_{0};
};

}  // namespace ibid
