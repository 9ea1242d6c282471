// TierDirectory: the files of a cold tier. Each holds one record (cache/tier/kv_record.h), and is written so that a
// crash leaves it whole or not at all. It has no policy and no index, and it owns nothing but the lock of the
// directory:
//
//   <directory>/lock                                held while this lives
//              /<before>-<name>.kv                  a page
//              /<before>-<name>.state               a recurrent state, and rows behind it
//              /<n>.tmp                             being written; what a crash left is removed by scan()
//              /quarantine/<before>-<name>.kv, .state   at most kMaxQuarantined files that were not what they said
//
// The directory and quarantine/ belong to their user alone, and are reached through the descriptors that open()
// checked. Anything in them that has another name or is no regular file belongs to somebody else, and is never read
// or removed.
//
// write(), remove(), sync(), quarantine() and clear_quarantine() are called by one thread at a time; read() by any
// number meanwhile. `files` must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_ops.h"
#include "base/result.h"
#include "cache/pages/kv_layout.h"
#include "cache/tier/kv_page_file.h"
#include "cache/tier/kv_state_file.h"
#include "cache/tier/page_index.h"
#include "ibid/token.h"

namespace ibid {

class TierDirectory {
 public:
  static constexpr size_t kMaxQuarantined = 8;

  // Makes the directory if it is not there, and takes its lock. Errors: kIo; kBusy when another process has it;
  // kUnsafePath, with what to do about it, for a symlink and for a directory that others own or may enter.
  static Result<std::unique_ptr<TierDirectory>> open(const std::string& path, FileOps& files);

  // What is there, by names and headers alone: the records of `fingerprint` with their ids, others without. Removes
  // what a crash left, quarantines what is no record, skips what is not ours. Error: kIo when it cannot be listed.
  struct Contents {
    std::vector<StoredRecord> records;
    size_t n_quarantined = 0;
    size_t n_unreadable = 0;
    std::map<std::string, size_t> of_other_versions;  // why they cannot be read -> how many
  };
  Result<Contents> scan(const Fingerprint& fingerprint, PageNamer& namer);

  // Reads a page's file into `page` (both parts, of nobody yet) and verifies all of it on the way: if this fails,
  // what is in `page` is worth nothing. Returns which parts the file has.
  //   n_ids: of the file, as the index says; ids: what its ids must begin with. `scratch` is for the header.
  // Errors: kNotFound, kIo, kUnsafePath; those of KvPageCheck; kBadHeader when the file has another size.
  Result<KvPageParts> read(const std::string& file_name, const KvLayout& layout, const KvPageIdentity& identity,
                           size_t n_ids, TokenSpan ids, std::vector<std::byte>& scratch, const PageMemory& page);

  // The same for a state: of its rows those that `ids` reach.
  //   position, n_rows: of the file, as the index says.
  // Further error: kOutOfMemory.
  struct StateFile {
    std::string file_name;
    size_t position = 0;
    size_t n_rows = 0;
  };
  Result<StateSnapshot> read_state(const StateFile& file, KvPagePool& pool, const KvPageIdentity& identity,
                                   TokenSpan ids);

  // Writes the pieces of a record to a new file and moves it to its name. durable: what the file holds is on the device
  // before it has its name; the name is after sync(). On error there is no such file, or the one that was there.
  using Pieces = std::span<const std::span<const std::byte>>;
  Status write(const std::string& file_name, Pieces pieces, int64_t mtime_ns, bool durable);
  Status remove(const std::string& file_name);
  bool has(const std::string& file_name) const;
  Status sync();

  // Moves a file out of the way, for whoever wants to know what happened; the number of such files is bounded. Where
  // quarantine/ is not ours the file is removed.
  Status quarantine(const std::string& file_name);
  Status clear_quarantine();

  // Serves the order of eviction after a restart and nothing else, so failing does not matter. Called by any
  // thread.
  void set_mtime(const std::string& file_name, int64_t mtime_ns) noexcept;

 private:
  TierDirectory(std::unique_ptr<Directory> directory, std::unique_ptr<FileLock> lock,
                std::unique_ptr<Directory> quarantine);
  Result<StoredRecord> read_stored(const std::string& file_name, const Fingerprint& fingerprint, PageNamer& namer,
                                   Contents& contents);
  // Removes a file that a crash left in the middle of being written.
  Status remove_temporary(const std::string& name);
  Result<std::unique_ptr<File>> create_temporary(std::string& name);
  Status write_new(File& file, Pieces pieces, bool durable);
  Result<std::vector<std::string>> quarantined() const;

  const std::unique_ptr<Directory> directory_;
  const std::unique_ptr<FileLock> lock_;
  const std::unique_ptr<Directory> quarantine_;  // null: what has this name is not ours
  uint64_t n_written_ = 0;
};

}  // namespace ibid
