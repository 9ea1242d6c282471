#include "cache/tier/tier_directory.h"

#include <algorithm>
#include <array>
#include <new>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace ibid {

namespace {

constexpr const char* kLock = "lock";
constexpr const char* kQuarantine = "quarantine";
constexpr std::string_view kTemporary = ".tmp";

// Reads all of `out`. Error: kTruncated when the file ends before.
Status read_exactly(File& file, uint64_t offset, std::span<std::byte> out) {
  TRY_ASSIGN(const size_t n, file.read_at(offset, out));
  if (n == out.size()) return {};
  return {ErrorCode::kTruncated, "KV record: the file ends at byte " + std::to_string(offset + n)};
}

Status expect_size(File& file, uint64_t record_bytes) {
  TRY_ASSIGN(const uint64_t size, file.size());
  if (size == record_bytes) return {};
  return {size < record_bytes ? ErrorCode::kTruncated : ErrorCode::kBadHeader,
          "KV record: the file has " + std::to_string(size) + " bytes, its record " + std::to_string(record_bytes)};
}

// <n>.tmp
bool is_temporary(std::string_view name) {
  if (!name.ends_with(kTemporary)) return false;
  name.remove_suffix(kTemporary.size());
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

TierDirectory::TierDirectory(std::unique_ptr<Directory> directory, std::unique_ptr<FileLock> lock,
                             std::unique_ptr<Directory> quarantine)
    : directory_(std::move(directory)), lock_(std::move(lock)), quarantine_(std::move(quarantine)) {}

Result<std::unique_ptr<TierDirectory>> TierDirectory::open(const std::string& path, FileOps& files) {
  TRY_ASSIGN(std::unique_ptr<Directory> directory, files.open_directory(path));
  TRY_ASSIGN(std::unique_ptr<FileLock> lock, directory->lock(kLock));
  Result<std::unique_ptr<Directory>> quarantine = directory->open_directory(kQuarantine);
  return std::unique_ptr<TierDirectory>(
      new TierDirectory(std::move(directory), std::move(lock), quarantine.ok() ? *std::move(quarantine) : nullptr));
}

Result<TierDirectory::Contents> TierDirectory::scan(const Fingerprint& fingerprint, PageNamer& namer) {
  TRY_ASSIGN(const std::vector<std::string> names, directory_->list());
  Contents contents;
  for (const std::string& name : names) {
    if (is_temporary(name)) TRY(remove_temporary(name));
    if (!parse_record_file_name(name)) continue;
    Result<StoredRecord> record = read_stored(name, fingerprint, namer, contents);
    if (record.ok()) {
      contents.records.push_back(*std::move(record));
      continue;
    }
    switch (record.status().code()) {
      case ErrorCode::kIo:
      case ErrorCode::kNotFound:
      case ErrorCode::kUnsafePath:
      case ErrorCode::kNotRegularFile: ++contents.n_unreadable; break;
      default: contents.n_quarantined += quarantine(name).ok() ? 1 : 0;
    }
  }
  return contents;
}

Status TierDirectory::remove_temporary(const std::string& name) {
  TRY_ASSIGN(const FileInfo info, directory_->info(name));
  return info.kind == FileKind::kRegular ? directory_->remove(name) : Status();
}

Result<StoredRecord> TierDirectory::read_stored(const std::string& file_name, const Fingerprint& fingerprint,
                                                PageNamer& namer, Contents& contents) {
  const RecordName name = parse_record_file_name(file_name).value();
  TRY_ASSIGN(const FileInfo info, directory_->info(file_name));
  if (info.kind != FileKind::kRegular) {
    return Status(ErrorCode::kNotRegularFile, file_name + ": not a regular file");
  }
  StoredRecord record{.file_name = file_name, .kind = name.kind, .before = name.before, .name = name.name,
                      .bytes = info.size, .last_use_ns = info.mtime_ns};
  TRY_ASSIGN(const std::unique_ptr<File> file, directory_->open_to_read(file_name));
  std::array<std::byte, kKvRecordFixedBytes> fixed{};
  TRY(read_exactly(*file, 0, fixed));
  const Result<KvRecordHeader> header = parse_kv_record_header(fixed);
  if (header.status().code() == ErrorCode::kUnsupportedVersion) {
    ++contents.of_other_versions[header.status().message()];
    return record;
  }
  if (!header.ok()) return header.status();
  if (header->kind != name.kind) return Status(ErrorCode::kBadHeader, file_name + ": is a record of another kind");
  TRY(expect_size(*file, header->record_bytes));
  record.name_space = header->identity.name_space;
  record.first_position = header->first_position;
  const uint32_t version = header->identity.fingerprint.numerics_version;
  if (version != fingerprint.numerics_version) {
    ++contents.of_other_versions[kv_record_of_other_numerics(version, fingerprint.numerics_version).message()];
  }
  if (header->identity.fingerprint != fingerprint) return record;

  Tokens ids(header->n_ids() - header->page_begin());  // two pages at most
  TRY(read_exactly(*file, header->ids_offset() + header->page_begin() * sizeof(TokenId),
                   std::as_writable_bytes(std::span(ids))));
  const PageName own = name.kind == KvRecordKind::kPage ? namer.next(record.before, ids)
                                                        : namer.state(record.before, ids, record.n_front());
  if (own != record.name) return Status(ErrorCode::kCorrupt, file_name + ": its name is not that of its ids");
  record.ids = std::move(ids);
  record.is_known = true;
  return record;
}

Result<KvPageParts> TierDirectory::read(const std::string& file_name, const KvLayout& layout,
                                        const KvPageIdentity& identity, size_t n_ids, TokenSpan ids,
                                        std::vector<std::byte>& scratch, const PageMemory& page) {
  TRY_ASSIGN(const std::unique_ptr<File> file, directory_->open_to_read(file_name));
  TRY_ASSIGN(const uint64_t size, file->size());
  const bool is_first_part =
      layout.window() > 0 && size == kv_page_record_bytes(layout, n_ids, KvPageParts::kFirst);
  const KvPageParts parts = is_first_part ? KvPageParts::kFirst : KvPageParts::kBoth;
  TRY(expect_size(*file, kv_page_record_bytes(layout, n_ids, parts)));
  scratch.resize(kv_page_header_bytes(layout, n_ids, parts));
  TRY(read_exactly(*file, 0, scratch));
  TRY_ASSIGN(const KvPageCheck check, KvPageCheck::open(scratch, layout, identity, ids));
  TRY(expect_size(*file, check.header().record_bytes));  // it may have the size of a page with other parts
  if (check.header().n_ids() != n_ids) {
    return Status(ErrorCode::kMismatch, file_name + ": holds other ids than it did");
  }
  // A layer at a time: it is still in the processor's cache when it is summed.
  TRY(check.read_blocks(layout, page, [&](uint64_t offset, std::span<std::byte> block) {
    return read_exactly(*file, offset, block);
  }));
  return parts;
}

Result<StateSnapshot> TierDirectory::read_state(const StateFile& wanted, KvPagePool& pool,
                                                const KvPageIdentity& identity, TokenSpan ids) {
  const KvLayout& layout = pool.layout();
  TRY_ASSIGN(const std::unique_ptr<File> file, directory_->open_to_read(wanted.file_name));
  std::array<std::byte, kKvRecordFixedBytes> fixed{};
  TRY(read_exactly(*file, 0, fixed));
  TRY_ASSIGN(const KvRecordHeader found, parse_kv_record_header(fixed));
  TRY(expect_size(*file, found.record_bytes));
  if (found.record_bytes != kv_state_record_bytes(layout, wanted.position, wanted.n_rows)) {
    return kv_record_mismatch("layout");
  }
  std::vector<std::byte> header(kv_state_header_bytes(layout, wanted.position, wanted.n_rows));
  TRY(read_exactly(*file, 0, header));
  TRY_ASSIGN(const KvStateCheck check, KvStateCheck::open(header, layout, identity, ids));
  if (check.header().first_position != wanted.position || check.header().n_rows != wanted.n_rows) {
    return Status(ErrorCode::kMismatch, wanted.file_name + ": holds other ids than it did");
  }
  return check.read_snapshot(pool, ids.size() - wanted.position, [&](uint64_t offset, std::span<std::byte> block) {
    return read_exactly(*file, offset, block);
  });
}

Status TierDirectory::write(const std::string& file_name, Pieces pieces, int64_t mtime_ns, bool durable) {
  std::string temporary;
  TRY_ASSIGN(const std::unique_ptr<File> file, create_temporary(temporary));
  // Whether or not this works, the error to report is the first one; scan() removes what stays.
  const auto clean_up = [&] {
    try {
      static_cast<void>(directory_->remove(temporary));
    } catch (const std::bad_alloc&) {
      return;
    }
  };
  try {
    Status status = write_new(*file, pieces, durable);
    if (status.ok()) status = directory_->set_mtime(temporary, mtime_ns);
    if (status.ok()) status = directory_->rename(temporary, *directory_, file_name);
    if (!status.ok()) clean_up();
    return status;
  } catch (const std::bad_alloc&) {
    clean_up();
    throw;
  }
}

// Under the first number that is free: one that is not may be anybody's.
Result<std::unique_ptr<File>> TierDirectory::create_temporary(std::string& name) {
  for (;;) {
    name = std::to_string(n_written_++) + std::string(kTemporary);
    Result<std::unique_ptr<File>> file = directory_->create_new(name);
    if (file.status().code() != ErrorCode::kDuplicate) return file;
  }
}

Status TierDirectory::write_new(File& file, Pieces pieces, bool durable) {
  for (const std::span<const std::byte> piece : pieces) {
    if (!piece.empty()) TRY(file.write(piece));
  }
  if (durable) TRY(file.sync());
  return file.close();
}

Status TierDirectory::remove(const std::string& file_name) { return directory_->remove(file_name); }

bool TierDirectory::has(const std::string& file_name) const { return directory_->info(file_name).ok(); }

Status TierDirectory::sync() { return directory_->sync(); }

Result<std::vector<std::string>> TierDirectory::quarantined() const {
  TRY_ASSIGN(std::vector<std::string> names, quarantine_->list());
  std::erase_if(names, [this](const std::string& name) {
    if (!parse_record_file_name(name)) return true;
    const Result<FileInfo> info = quarantine_->info(name);
    return !info.ok() || info->kind != FileKind::kRegular;
  });
  return names;
}

Status TierDirectory::quarantine(const std::string& file_name) {
  if (quarantine_ == nullptr) return directory_->remove(file_name);
  TRY_ASSIGN(const std::vector<std::string> names, quarantined());
  for (size_t i = 0; i + kMaxQuarantined <= names.size(); ++i) TRY(quarantine_->remove(names[i]));
  return directory_->rename(file_name, *quarantine_, file_name);
}

Status TierDirectory::clear_quarantine() {
  if (quarantine_ == nullptr) return {};
  TRY_ASSIGN(const std::vector<std::string> names, quarantined());
  for (const std::string& name : names) TRY(quarantine_->remove(name));
  return names.empty() ? Status() : quarantine_->sync();
}

void TierDirectory::set_mtime(const std::string& file_name, int64_t mtime_ns) noexcept {
  try {
    static_cast<void>(directory_->set_mtime(file_name, mtime_ns));
  } catch (const std::bad_alloc&) {
    return;
  }
}

}  // namespace ibid
