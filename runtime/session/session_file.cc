#include "runtime/session/session_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "base/sha256.h"
#include "runtime/session/session_rows.h"

namespace ibid {
namespace {

constexpr std::string_view kMagic = "IBIDCHAT";
constexpr uint32_t kVersion = 1;
constexpr uint32_t kEndianMark = 0x01020304;

// magic, version, endian mark, bytes of the JSON, SHA-256 of the JSON.
struct FileHeader {
  std::array<char, 8> magic{};
  uint32_t version = kVersion;
  uint32_t endian_mark = kEndianMark;
  uint64_t json_bytes = 0;
  Sha256Digest digest{};
};
static_assert(sizeof(FileHeader) == 56);

std::span<const std::byte> bytes_of(const FileHeader& header) { return std::as_bytes(std::span(&header, 1)); }

Sha256Digest digest_of(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.finish();
}

// Writes header, conversation and, unless `rows` is null, the records of its keys and values.
Status write_all(File& file, const std::string& json, const SavedRows* rows) {
  FileHeader header;
  std::copy(kMagic.begin(), kMagic.end(), header.magic.begin());
  header.json_bytes = json.size();
  header.digest = digest_of(json);
  TRY(file.write(bytes_of(header)));
  TRY(file.write(std::as_bytes(std::span(json))));
  if (rows != nullptr) TRY(write_rows(file, *rows));
  TRY(file.sync());
  return file.close();
}

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

Result<std::vector<std::byte>> read_exactly(File& file, uint64_t offset, uint64_t n_bytes, const std::string& path) {
  std::vector<std::byte> bytes(n_bytes);
  TRY_ASSIGN(const size_t n, file.read_at(offset, bytes));
  if (n < n_bytes) return {ErrorCode::kTruncated, path + ": the file ends at byte " + std::to_string(offset + n)};
  return bytes;
}

// Reads header and conversation; sets `end` to the offset where the records begin.
Result<SavedSession> read_conversation(File& file, const std::string& path, uint64_t& end) {
  TRY_ASSIGN(const uint64_t file_bytes, file.size());
  TRY_ASSIGN(const auto raw, read_exactly(file, 0, sizeof(FileHeader), path));
  FileHeader header;
  std::memcpy(&header, raw.data(), sizeof(header));
  if (!std::equal(kMagic.begin(), kMagic.end(), header.magic.begin())) {
    return {ErrorCode::kBadMagic, path + ": not a saved conversation"};
  }
  if (header.endian_mark != kEndianMark) {
    return {ErrorCode::kUnsupportedVersion, path + ": saved on a machine with another byte order"};
  }
  if (header.version != kVersion) {
    return {ErrorCode::kUnsupportedVersion, path + ": format version " + std::to_string(header.version) +
                                                ", this program reads version " + std::to_string(kVersion)};
  }
  if (header.json_bytes > kMaxSessionBytes) {
    return {ErrorCode::kLimitExceeded, path + ": the conversation has " + std::to_string(header.json_bytes) +
                                           " bytes, at most " + std::to_string(kMaxSessionBytes) + " are allowed"};
  }
  if (header.json_bytes > file_bytes - sizeof(header)) return {ErrorCode::kTruncated, path + ": the file is truncated"};
  TRY_ASSIGN(const auto text, read_exactly(file, sizeof(header), header.json_bytes, path));
  const std::string_view json(reinterpret_cast<const char*>(text.data()), text.size());
  if (digest_of(json) != header.digest) return {ErrorCode::kCorrupt, path + ": the file is damaged"};
  end = sizeof(header) + header.json_bytes;
  return session_from_text(json, path);
}

}  // namespace

Status write_session_file(FileOps& files, const std::string& path, const SavedSession& session, const KvCacheEntry* kv,
                          const KvPageIdentity& identity, std::span<const StateSnapshot> states) {
  std::optional<SavedRows> rows;
  if (kv != nullptr) rows.emplace(SavedRows{*kv, states, identity});
  TRY_ASSIGN(const std::string json, session_to_text(session_to_json(session)));
  const std::string directory = directory_of(path);
  TRY_ASSIGN(const TemporaryFile temporary, create_temporary(files, path));
  Status status = guarded([&]() -> Status {
    TRY(write_all(*temporary.file, json, rows ? &*rows : nullptr));
    return files.rename(temporary.path, path);
  });
  if (!status.ok()) {
    (void)guarded([&] { return files.remove(temporary.path); });
    return status;
  }
  return files.sync_directory(directory);
}

Result<SavedSession> read_saved_session(FileOps& files, const std::string& path) {
  return guarded([&]() -> Result<SavedSession> {
    TRY_ASSIGN(const std::unique_ptr<File> file, files.open_to_read(path));
    uint64_t end = 0;
    return read_conversation(*file, path, end);
  });
}

Result<LoadedSession> read_session_file(FileOps& files, const std::string& path, KvPagePool& pool,
                                        const KvPageIdentity* identity) {
  TRY_ASSIGN(const std::unique_ptr<File> file, files.open_to_read(path));
  uint64_t records = 0;
  TRY_ASSIGN(SavedSession session, read_conversation(*file, path, records));
  LoadedSession loaded{std::move(session), std::nullopt};
  TRY_ASSIGN(const uint64_t file_bytes, file->size());
  if (identity != nullptr) {
    KvCacheEntry entry(pool);
    // After any error in the records, the positions that were not read are prefilled again.
    loaded.session.load_warnings.rows = read_rows(*file, records, path, *identity, entry, pool);
    if (entry.length() > 0) loaded.kv = std::move(entry);
  } else if (records < file_bytes) {
    loaded.session.load_warnings.rows = {
        ErrorCode::kUnsupported, path + ": the engine has no fingerprint, so keys and values cannot be verified"};
  }
  return loaded;
}

}  // namespace ibid
