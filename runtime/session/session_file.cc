#include "runtime/session/session_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/sha256.h"
#include "cache/pages/finite_rows.h"
#include "runtime/out_of_heap.h"

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

// --- records

// The rows of the last page behind its last position would be another text's: they are not written.
Status write_page(File& file, const KvLayout& layout, const KvPageIdentity& identity, TokenSpan ids,
                  const PageMemory& page, std::vector<std::byte>& scratch) {
  scratch.assign(layout.page_bytes(), std::byte{0});
  layout.copy_rows(page, layout.parts_of(scratch.data()), (ids.size() - 1) % kPagePositions + 1);
  TRY(file.write(encode_kv_page_header(layout, identity, ids, scratch.data())));
  return file.write(scratch);
}

Status write_all(File& file, const std::string& json, const KvCacheEntry* kv, const KvPageIdentity& identity) {
  FileHeader header;
  std::copy(kMagic.begin(), kMagic.end(), header.magic.begin());
  header.json_bytes = json.size();
  header.digest = digest_of(json);
  TRY(file.write(bytes_of(header)));
  TRY(file.write(std::as_bytes(std::span(json))));
  if (kv != nullptr) {
    std::vector<std::byte> scratch;
    for (size_t i = 0; i < KvLayout::pages_for(kv->length()); ++i) {
      const size_t n_ids = std::min((i + 1) * kPagePositions, kv->length());
      TRY(write_page(file, kv->layout(), identity, kv->tokens().first(n_ids), kv->parts(i), scratch));
    }
  }
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

// The ids of a record, which must begin with those of the records before it.
Result<Tokens> ids_of_record(std::span<const std::byte> record, const KvPageHeader& header, TokenSpan before) {
  const uint64_t bytes = header.n_ids() * sizeof(TokenId);
  if (header.ids_offset() + bytes > record.size() || header.first_position != before.size()) {
    return {ErrorCode::kMismatch, "session: its pages do not follow each other"};
  }
  Tokens ids(header.n_ids());
  std::memcpy(ids.data(), record.data() + header.ids_offset(), bytes);
  return ids;
}

// Reads records from `offset` to the end of the file into `entry`. What was read before an error stays.
Status read_pages(File& file, uint64_t offset, uint64_t file_bytes, const KvPageIdentity& identity, KvPagePool& pool,
                  const std::string& path, KvCacheEntry& entry) {
  const KvLayout& layout = pool.layout();
  if (layout.n_states() > 0 && offset < file_bytes) {
    return {ErrorCode::kUnsupported, path + ": the states of recurrent layers are not in the file"};
  }
  while (offset < file_bytes) {
    if (entry.length() % kPagePositions != 0) return {ErrorCode::kMismatch, path + ": a page follows a partial one"};
    TRY_ASSIGN(const auto fixed, read_exactly(file, offset, kKvPageFixedBytes, path));
    TRY_ASSIGN(const KvPageHeader header, parse_kv_page_header(fixed));
    const uint64_t most = std::min<uint64_t>(file_bytes - offset, kv_page_record_bytes(layout, header.n_ids()));
    if (header.record_bytes > most) {
      return {ErrorCode::kTruncated, path + ": the record at byte " + std::to_string(offset) + " is cut"};
    }
    TRY_ASSIGN(const auto record, read_exactly(file, offset, header.record_bytes, path));
    TRY_ASSIGN(const Tokens ids, ids_of_record(record, header, entry.tokens()));
    if (!std::equal(entry.tokens().begin(), entry.tokens().end(), ids.begin())) {
      return {ErrorCode::kMismatch, path + ": its pages are of different texts"};
    }
    TRY_ASSIGN(KvPage page, pool.allocate());
    TRY(decode_kv_page(record, layout, identity, ids, page.parts()).status());
    if (!rows_are_finite(layout, page.parts())) {
      return {ErrorCode::kNonFinite, path + ": the record at byte " + std::to_string(offset) + " has no numbers"};
    }
    std::vector<KvPage> pages;
    pages.push_back(std::move(page));
    TRY(entry.adopt_more(std::move(pages), TokenSpan(ids).subspan(entry.length())));
    offset += header.record_bytes;
  }
  return {};
}

}  // namespace

namespace {

// The part in front of the records, which begin at `end`.
Result<SavedSession> read_conversation(File& file, const std::string& path, uint64_t& end) {
  TRY_ASSIGN(const uint64_t file_bytes, file.size());
  TRY_ASSIGN(const auto raw, read_exactly(file, 0, sizeof(FileHeader), path));
  FileHeader header;
  std::memcpy(&header, raw.data(), sizeof(header));
  if (!std::equal(kMagic.begin(), kMagic.end(), header.magic.begin())) {
    return {ErrorCode::kBadMagic, path + ": not a saved conversation"};
  }
  if (header.version != kVersion || header.endian_mark != kEndianMark) {
    return {ErrorCode::kUnsupportedVersion, path + ": version " + std::to_string(header.version) +
                                                ", or saved on a machine of another byte order"};
  }
  if (header.json_bytes > kMaxSessionBytes) return {ErrorCode::kLimitExceeded, path + ": larger than any conversation"};
  if (header.json_bytes > file_bytes - sizeof(header)) return {ErrorCode::kTruncated, path + ": the file is cut"};
  TRY_ASSIGN(const auto text, read_exactly(file, sizeof(header), header.json_bytes, path));
  const std::string_view json(reinterpret_cast<const char*>(text.data()), text.size());
  if (digest_of(json) != header.digest) return {ErrorCode::kCorrupt, path + ": the file is damaged"};
  end = sizeof(header) + header.json_bytes;
  return session_from_text(json, path);
}

Status write_and_rename(FileOps& files, File& file, const std::string& json, const KvCacheEntry* kv,
                        const KvPageIdentity& identity, const std::string& temporary, const std::string& path) {
  try {
    TRY(write_all(file, json, kv, identity));
    return files.rename(temporary, path);
  } catch (const std::bad_alloc&) {
    return out_of_heap();
  }
}

}  // namespace

Status write_session_file(FileOps& files, const std::string& path, const SavedSession& session,
                          const KvCacheEntry* kv, const KvPageIdentity& identity) {
  try {
    TRY_ASSIGN(const std::string json, session_to_text(session_to_json(session)));
    const std::string directory = directory_of(path);
    TRY_ASSIGN(const TemporaryFile temporary, create_temporary(files, path));
    Status status = write_and_rename(files, *temporary.file, json, kv, identity, temporary.path, path);
    if (!status.ok()) {
      (void)files.remove(temporary.path);
      return status;
    }
    return files.sync_directory(directory);
  } catch (const std::bad_alloc&) {
    return out_of_heap();
  }
}

Result<SavedSession> read_saved_session(FileOps& files, const std::string& path) {
  try {
    TRY_ASSIGN(const std::unique_ptr<File> file, files.open_to_read(path));
    uint64_t end = 0;
    return read_conversation(*file, path, end);
  } catch (const std::bad_alloc&) {
    return out_of_heap();
  }
}

Result<LoadedSession> read_session_file(FileOps& files, const std::string& path, KvPagePool& pool,
                                        const KvPageIdentity* identity) {
  try {
    TRY_ASSIGN(const std::unique_ptr<File> file, files.open_to_read(path));
    uint64_t records = 0;
    TRY_ASSIGN(SavedSession session, read_conversation(*file, path, records));
    LoadedSession loaded{std::move(session), std::nullopt};
    TRY_ASSIGN(const uint64_t file_bytes, file->size());
    if (identity != nullptr) {
      KvCacheEntry entry(pool);
      // Whatever is wrong with the records: what was not used is read again.
      loaded.session.losses.rows = read_pages(*file, records, file_bytes, *identity, pool, path, entry);
      if (entry.length() > 0) loaded.kv = std::move(entry);
    } else if (records < file_bytes) {
      loaded.session.losses.rows = {ErrorCode::kUnsupported, path + ": the engine has no fingerprint to know them by"};
    }
    return loaded;
  } catch (const std::bad_alloc&) {
    return out_of_heap();
  }
}

}  // namespace ibid
