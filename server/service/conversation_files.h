// ConversationFiles: the known conversations of one engine as files, so that a server that begins again goes on with
// the ids that were sampled before. A file is a saved session without keys and values (runtime/session/session_file.h);
// its notes say whose it is, of which model, and its messages as the client sees them (Conversation::to_saved()).
//
//   <cache directory>/conversations/<32 hex digits>.chat
//
// It is a lossy, verified cache, as the directory around it is (cache/tier/kv_tier.h): a file that is not, whole and
// unharmed, a conversation of this model is not found, and is named in a remark; what cannot be written is dropped. A
// file takes its place all at once, so a crash leaves the one before. Together the files have at most so many bytes:
// what goes first is the oldest of the owner who has the most. The directory around it is locked by its tier.
//
// Thread-safe. One thread at a time calls write().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/file_ops.h"
#include "base/result.h"
#include "base/sha256.h"
#include "cache/tier/kv_record.h"
#include "runtime/session/session_json.h"
#include "server/service/conversation.h"

namespace ibid::serve {

struct ConversationFileStats {
  uint64_t n_files = 0, n_bytes = 0;  // now
  uint64_t n_written = 0, n_failed = 0, n_refused = 0;  // files that were written, could not be, were not sound

  ConversationFileStats& operator+=(const ConversationFileStats& other) {
    n_files += other.n_files, n_bytes += other.n_bytes, n_written += other.n_written;
    n_failed += other.n_failed, n_refused += other.n_refused;
    return *this;
  }
};

class ConversationFiles {
 public:
  struct Options {
    std::string directory;  // of the conversations; made where it is not there
    Fingerprint fingerprint;
    uint64_t budget_bytes = 0;
    // The places of a sound file's conversation; nothing: its notes are not sound.
    std::function<std::optional<ConversationPlaces>(const SavedSession& saved)> places_of;
    std::function<void(const std::string&)> remark;  // for who reads the log; may be empty
  };
  // Reads what is there. Errors: those of FileOps::open_directory() and of listing it.
  static Result<std::unique_ptr<ConversationFiles>> open(Options options, FileOps& files);

  // The file whose conversation begins with the most messages of a history, more than n_known of them.
  struct Found {
    std::string name;
    size_t n = 0;
  };
  std::optional<Found> find(std::span<const uint64_t> hashes, size_t n_known) const;
  // Errors: those of read_saved_session(). The file goes, where it is not sound.
  Result<SavedSession> read(const std::string& name);
  // For a conversation that read() gave and that is of no use.
  void refuse(const std::string& name, const Status& why);

  // A name that no file has.
  static std::string new_name();
  void write(const std::string& name, const SavedSession& saved, ConversationPlaces places);
  void forget_namespace(const Sha256Digest& name_space);

  ConversationFileStats stats() const;

 private:
  struct Entry {
    uint64_t n_bytes = 0;
    uint64_t used = 0;       // a higher number: later
    std::string name_space;  // its digest, as digits; empty: another model's, or of another version
    std::string owner = {};  // the digest of its namespace's owner
    ConversationPlaces places;
  };
  struct Place {
    std::string name;
    size_t n = 0;
  };
  using Entries = std::map<std::string, Entry>;

  ConversationFiles(Options options, FileOps& files) : options_(std::move(options)), files_(files) {}
  Status scan(Directory& directory);
  void tell_of_other_versions() const;
  void scan_file(const std::string& name, uint64_t n_bytes);
  std::string path_of(const std::string& name) const { return options_.directory + "/" + name; }
  void remark(const std::string& text) const;
  void add(const std::string& name, Entry entry);      // with the lock
  void take_out(Entries::iterator it);                 // with the lock
  std::vector<std::string> make_room();                // with the lock; the files that go
  void remove_files(const std::vector<std::string>& names);

  const Options options_;
  FileOps& files_;
  mutable std::mutex mutex_;  // guards what follows
  Entries entries_;
  std::unordered_multimap<uint64_t, Place> by_hash_;
  uint64_t n_used_ = 0;
  ConversationFileStats stats_;
  std::map<uint32_t, size_t> of_other_versions_;  // numerics version -> files, as open() found them
};

}  // namespace ibid::serve
