#include "cache/tier_directory.h"

#include <array>
#include <new>
#include <utility>

#include "base/check.h"

namespace ibid {

namespace {

constexpr const char* kLock = "lock";
constexpr const char* kQuarantine = "quarantine";
constexpr const char* kTemporary = ".tmp";

// Reads all of `out`. Error: kTruncated when the file ends before.
Status read_exactly(File& file, uint64_t offset, std::span<std::byte> out) {
  TRY_ASSIGN(const size_t n, file.read_at(offset, out));
  if (n == out.size()) return {};
  return {ErrorCode::kTruncated, "KV page: the file ends at byte " + std::to_string(offset + n)};
}

Status expect_size(File& file, uint64_t record_bytes) {
  TRY_ASSIGN(const uint64_t size, file.size());
  if (size == record_bytes) return {};
  return {size < record_bytes ? ErrorCode::kTruncated : ErrorCode::kBadHeader,
          "KV page: the file has " + std::to_string(size) + " bytes, its record " + std::to_string(record_bytes)};
}

}  // namespace

TierDirectory::TierDirectory(std::string path, FileOps& files, std::unique_ptr<FileLock> lock)
    : path_(std::move(path)), files_(files), lock_(std::move(lock)) {}

Result<std::unique_ptr<TierDirectory>> TierDirectory::open(const std::string& path, FileOps& files) {
  TRY(files.make_directory(path));
  TRY_ASSIGN(std::unique_ptr<FileLock> lock, files.lock(path + "/" + kLock));
  TRY(files.make_directory(path + "/" + kQuarantine));
  return std::unique_ptr<TierDirectory>(new TierDirectory(path, files, std::move(lock)));
}

Result<TierDirectory::Contents> TierDirectory::scan(const Fingerprint& fingerprint, PageNamer& namer) {
  TRY_ASSIGN(const std::vector<std::string> names, files_.list(path_));
  Contents contents;
  for (const std::string& name : names) {
    if (name.ends_with(kTemporary)) {
      TRY(files_.remove(path_of(name)));
      continue;
    }
    if (!parse_page_file_name(name)) continue;
    Result<StoredPage> page = read_stored(name, fingerprint, namer);
    if (page.ok()) {
      contents.pages.push_back(*std::move(page));
      continue;
    }
    switch (page.status().code()) {
      case ErrorCode::kIo:
      case ErrorCode::kNotFound:
      case ErrorCode::kUnsafePath:
      case ErrorCode::kNotRegularFile: ++contents.n_unreadable; break;
      default: contents.n_quarantined += quarantine(name).ok() ? 1 : 0;
    }
  }
  return contents;
}

Result<StoredPage> TierDirectory::read_stored(const std::string& file_name, const Fingerprint& fingerprint,
                                              PageNamer& namer) {
  const std::string path = path_of(file_name);
  const auto names = parse_page_file_name(file_name).value();
  TRY_ASSIGN(const FileInfo info, files_.info(path));
  if (info.kind != FileKind::kRegular) {
    return Status(ErrorCode::kNotRegularFile, path + ": not a regular file");
  }
  StoredPage page{.file_name = file_name, .before = names.first, .name = names.second, .bytes = info.size,
                  .last_use_ns = info.mtime_ns};
  TRY_ASSIGN(const std::unique_ptr<File> file, files_.open_to_read_no_follow(path));
  std::array<std::byte, kKvPageFixedBytes> fixed{};
  TRY(read_exactly(*file, 0, fixed));
  const Result<KvPageHeader> header = parse_kv_page_header(fixed);
  if (header.status().code() == ErrorCode::kUnsupportedVersion) return page;
  if (!header.ok()) return header.status();
  TRY(expect_size(*file, header->record_bytes));
  page.name_space = header->identity.name_space;
  page.first_position = header->first_position;
  if (header->identity.fingerprint != fingerprint) return page;

  Tokens ids(header->n_rows);
  TRY(read_exactly(*file, header->ids_offset() + header->first_position * sizeof(TokenId),
                   std::as_writable_bytes(std::span(ids))));
  if (namer.next(page.before, ids) != page.name) {
    return Status(ErrorCode::kCorrupt, path + ": its name is not that of its ids");
  }
  page.ids = std::move(ids);
  return page;
}

Status TierDirectory::read(const std::string& file_name, const KvLayout& layout, const KvPageIdentity& identity,
                           size_t n_ids, TokenSpan ids, std::vector<std::byte>& scratch, std::byte* page) {
  TRY_ASSIGN(const std::unique_ptr<File> file, files_.open_to_read_no_follow(path_of(file_name)));
  TRY(expect_size(*file, kv_page_record_bytes(layout, n_ids)));
  scratch.resize(kv_page_header_bytes(layout, n_ids));
  TRY(read_exactly(*file, 0, scratch));
  TRY_ASSIGN(const KvPageCheck check, KvPageCheck::open(scratch, layout, identity, ids));
  if (check.header().n_ids() != n_ids) return {ErrorCode::kMismatch, file_name + ": holds other ids than it did"};
  // A layer at a time: it is still in the processor's cache when it is summed.
  for (size_t layer = 0; layer < layout.n_layers; ++layer) {
    const std::span<std::byte> block(page + layout.layer_offset(layer), layout.layer_bytes());
    TRY(read_exactly(*file, scratch.size() + layout.layer_offset(layer), block));
    TRY(check.check_block(layer, block));
  }
  return {};
}

Status TierDirectory::write(const std::string& file_name, std::span<const std::byte> header,
                            std::span<const std::byte> page, int64_t mtime_ns, bool durable) {
  const std::string path = path_of(file_name);
  const std::string temporary = path_of(std::to_string(n_written_++) + kTemporary);
  // Whether or not this works, the error to report is the first one; open() removes what stays.
  const auto clean_up = [&] {
    try {
      static_cast<void>(files_.remove(temporary));
    } catch (const std::bad_alloc&) {
      return;
    }
  };
  try {
    Status status = write_new(temporary, header, page, mtime_ns, durable);
    if (status.ok()) status = files_.rename(temporary, path);
    if (!status.ok()) clean_up();
    return status;
  } catch (const std::bad_alloc&) {
    clean_up();
    throw;
  }
}

Status TierDirectory::write_new(const std::string& path, std::span<const std::byte> header,
                                std::span<const std::byte> page, int64_t mtime_ns, bool durable) {
  TRY_ASSIGN(const std::unique_ptr<File> file, files_.create_new(path));
  TRY(file->write(header));
  TRY(file->write(page));
  if (durable) TRY(file->sync());
  TRY(file->close());
  return files_.set_mtime(path, mtime_ns);
}

Status TierDirectory::remove(const std::string& file_name) { return files_.remove(path_of(file_name)); }

Status TierDirectory::sync() { return files_.sync_directory(path_); }

Status TierDirectory::quarantine(const std::string& file_name) {
  const std::string directory = path_of(kQuarantine);
  TRY_ASSIGN(const std::vector<std::string> names, files_.list(directory));
  for (size_t i = 0; i + kMaxQuarantined <= names.size(); ++i) TRY(files_.remove(directory + "/" + names[i]));
  return files_.rename(path_of(file_name), directory + "/" + file_name);
}

Status TierDirectory::clear_quarantine() {
  const std::string directory = path_of(kQuarantine);
  TRY_ASSIGN(const std::vector<std::string> names, files_.list(directory));
  for (const std::string& name : names) TRY(files_.remove(directory + "/" + name));
  return names.empty() ? Status() : files_.sync_directory(directory);
}

void TierDirectory::set_mtime(const std::string& file_name, int64_t mtime_ns) noexcept {
  try {
    static_cast<void>(files_.set_mtime(path_of(file_name), mtime_ns));
  } catch (const std::bad_alloc&) {
    return;
  }
}

}  // namespace ibid
