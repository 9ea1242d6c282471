// TierDirectory: the files of a cold tier: one record (cache/kv_page_file.h) a file, written so that a crash leaves a
// file whole or not at all. It has no policy and no index, and it owns nothing but the lock of the directory:
//
//   <directory>/lock                     held while this lives
//              /<before>-<name>.kv       a page
//              /<n>.tmp                  being written; what a crash left is removed by open()
//              /quarantine/...           at most kMaxQuarantined files that were not what they said
//
// write(), remove(), sync(), quarantine() and clear_quarantine() are called by one thread at a time; read() by any
// number meanwhile. `files` must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_ops.h"
#include "base/result.h"
#include "base/types.h"
#include "cache/file_tier_index.h"
#include "cache/kv_layout.h"
#include "cache/kv_page_file.h"

namespace ibid {

class TierDirectory {
 public:
  static constexpr size_t kMaxQuarantined = 8;

  // Makes the directory if it is not there, and takes its lock. Errors: kIo; kBusy when another process has it.
  static Result<std::unique_ptr<TierDirectory>> open(const std::string& path, FileOps& files);

  // What is there, by names and headers alone: the pages of `fingerprint` with their ids, others without. Removes
  // what a crash left, quarantines what is no record, skips what is not ours. Error: kIo when it cannot be listed.
  struct Contents {
    std::vector<StoredPage> pages;
    size_t n_quarantined = 0;
    size_t n_unreadable = 0;
  };
  Result<Contents> scan(const Fingerprint& fingerprint, PageNamer& namer);

  // Reads a file into `page` (page_bytes() long, of nobody yet) and verifies all of it on the way: if this fails,
  // what is in `page` is worth nothing.
  //   n_ids: of the file, as the index says; ids: what its ids must begin with. `scratch` is for the header.
  // Errors: kNotFound, kIo, kUnsafePath; those of KvPageCheck; kBadHeader when the file has another size.
  Status read(const std::string& file_name, const KvLayout& layout, const KvPageIdentity& identity, size_t n_ids,
              TokenSpan ids, std::vector<std::byte>& scratch, std::byte* page);

  // Writes header and page to a new file and moves it to its name. durable: what the file holds is on the device
  // before it has its name; the name is after sync(). On error there is no such file, or the one that was there.
  Status write(const std::string& file_name, std::span<const std::byte> header, std::span<const std::byte> page,
               int64_t mtime_ns, bool durable);
  Status remove(const std::string& file_name);
  Status sync();

  // Moves a file out of the way, for whoever wants to know what happened; the number of such files is bounded.
  Status quarantine(const std::string& file_name);
  Status clear_quarantine();

  // For the order of eviction after a restart, and nothing else: failing does not matter. Called by any thread.
  void set_mtime(const std::string& file_name, int64_t mtime_ns) noexcept;

 private:
  TierDirectory(std::string path, FileOps& files, std::unique_ptr<FileLock> lock);
  Result<StoredPage> read_stored(const std::string& file_name, const Fingerprint& fingerprint, PageNamer& namer);
  Status write_new(const std::string& path, std::span<const std::byte> header, std::span<const std::byte> page,
                   int64_t mtime_ns, bool durable);
  std::string path_of(const std::string& file_name) const { return path_ + "/" + file_name; }

  const std::string path_;
  FileOps& files_;
  std::unique_ptr<FileLock> lock_;
  uint64_t n_written_ = 0;
};

}  // namespace ibid
