#include "cache/tier/page_files.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace ibid {

namespace {

constexpr const char* kLock = "lock";
constexpr const char* kQuarantine = "quarantine";
constexpr std::string_view kTemporary = ".tmp";

// Reads all of `out`. Error: kTruncated if the file is shorter.
Status read_exactly(File& file, uint64_t offset, std::span<std::byte> out) {
  TRY_ASSIGN(const size_t n, file.read_at(offset, out));
  if (n == out.size()) return {};
  return {ErrorCode::kTruncated, "KV record: the file ends at byte " + std::to_string(offset + n)};
}

Status expect_size(File& file, uint64_t record_bytes) {
  TRY_ASSIGN(const uint64_t size, file.size());
  if (size == record_bytes) return {};
  return {
      size < record_bytes ? ErrorCode::kTruncated : ErrorCode::kBadHeader,
      "KV record: the file has " + std::to_string(size) + " bytes, but its record has " + std::to_string(record_bytes)};
}

// True for names of the form "<n>.tmp".
bool is_temporary(std::string_view name) {
  if (!name.ends_with(kTemporary)) return false;
  name.remove_suffix(kTemporary.size());
  return !name.empty() && has_only_digits(name);
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

Result<TierDirectory::Contents> TierDirectory::scan(uint32_t numerics_version, PageNamer& namer) {
  TRY_ASSIGN(const std::vector<std::string> names, directory_->list());
  Contents contents;
  for (const std::string& name : names) {
    if (is_temporary(name)) TRY(remove_temporary(name));
    if (!parse_record_file_name(name)) continue;
    Result<StoredRecord> record = read_stored(name, numerics_version, namer, contents);
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

Result<StoredRecord> TierDirectory::read_stored(const std::string& file_name, uint32_t numerics_version,
                                                PageNamer& namer, Contents& contents) {
  const RecordName name = parse_record_file_name(file_name).value();
  TRY_ASSIGN(const FileInfo info, directory_->info(file_name));
  if (info.kind != FileKind::kRegular) {
    return Status(ErrorCode::kNotRegularFile, file_name + ": not a regular file");
  }
  StoredRecord record{.file_name = file_name,
                      .kind = name.kind,
                      .before = name.before,
                      .name = name.name,
                      .bytes = info.size,
                      .last_use_ns = info.mtime_ns};
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
  if (version != numerics_version) {
    ++contents.of_other_versions[kv_record_of_other_numerics(version, numerics_version).message()];
    return record;
  }
  Tokens ids(header->n_page_ids());
  TRY(read_exactly(*file, kKvRecordFixedBytes, std::as_writable_bytes(std::span(ids))));
  const TextName before{header->before, header->page_begin(), namer.name_of(header->before)};
  const PageName own =
      name.kind == KvRecordKind::kPage ? namer.next(before, ids).name : namer.state(before, ids, record.n_front());
  if (own != record.name || before.name != record.before) {
    return Status(ErrorCode::kCorrupt, file_name + ": its name does not match its tokens");
  }
  record.ids = std::move(ids);
  record.is_known = true;
  return record;
}

Result<KvPageParts> TierDirectory::read(const PageFile& wanted, const KvLayout& layout, const KvPageIdentity& identity,
                                        const KvRecordText& text, std::vector<std::byte>& scratch,
                                        const PageMemory& page) {
  TRY_ASSIGN(const std::unique_ptr<File> file, directory_->open_to_read(wanted.file_name));
  TRY_ASSIGN(const uint64_t size, file->size());
  const bool is_first_part =
      layout.window() > 0 && size == kv_page_record_bytes(layout, wanted.n_rows, KvPageParts::kFirst);
  const KvPageParts parts = is_first_part ? KvPageParts::kFirst : KvPageParts::kBoth;
  TRY(expect_size(*file, kv_page_record_bytes(layout, wanted.n_rows, parts)));
  scratch.resize(kv_page_header_bytes(layout, wanted.n_rows, parts));
  TRY(read_exactly(*file, 0, scratch));
  TRY_ASSIGN(const KvPageCheck check, KvPageCheck::open(scratch, layout, identity, text));
  // A file of a page with other parts may have the expected size, so compare with the header too.
  TRY(expect_size(*file, check.header().record_bytes));
  if (check.header().n_rows != wanted.n_rows) {
    return Status(ErrorCode::kMismatch, wanted.file_name + ": holds other tokens than before");
  }
  // Read one layer at a time, so that the layer is still in the processor's cache when its checksum is computed.
  TRY(check.read_blocks(
      layout, page, [&](uint64_t offset, std::span<std::byte> block) { return read_exactly(*file, offset, block); }));
  return parts;
}

Result<StateSnapshot> TierDirectory::read_state(const StateFile& wanted, KvPagePool& pool,
                                                const KvPageIdentity& identity, const KvRecordText& text) {
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
  TRY_ASSIGN(const KvStateCheck check, KvStateCheck::open(header, layout, identity, text));
  if (check.header().first_position != wanted.position || check.header().n_rows != wanted.n_rows) {
    return Status(ErrorCode::kMismatch, wanted.file_name + ": holds other tokens than before");
  }
  const size_t n_rows = text.page_begin + text.page_ids.size() - wanted.position;
  return check.read_snapshot(
      pool, n_rows, [&](uint64_t offset, std::span<std::byte> block) { return read_exactly(*file, offset, block); });
}

Result<KvRecordHeader> TierDirectory::read_header(const std::string& file_name) {
  TRY_ASSIGN(const std::unique_ptr<File> file, directory_->open_to_read(file_name));
  std::array<std::byte, kKvRecordFixedBytes> fixed{};
  TRY(read_exactly(*file, 0, fixed));
  return parse_kv_record_header(fixed);
}

Status TierDirectory::write(const std::string& file_name, Pieces pieces, int64_t mtime_ns, bool durable) {
  std::string temporary;
  TRY_ASSIGN(const std::unique_ptr<File> file, create_temporary(temporary));
  // Errors of this cleanup are ignored: the first error is reported, and scan() removes what remains.
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

// Tries file names with increasing numbers until one is free. Existing files are never overwritten, because another
// program may have made them.
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

PageFiles::PageFiles(PageFilesOptions options, KvLayout layout, std::unique_ptr<TierDirectory> directory, Clock& clock)
    : options_(std::move(options)), layout_(std::move(layout)), directory_(std::move(directory)), clock_(clock) {}

Result<std::unique_ptr<PageFiles>> PageFiles::open(PageFilesOptions options, KvLayout layout, FileOps& files,
                                                   Clock& clock) {
  TRY_ASSIGN(std::unique_ptr<TierDirectory> directory, TierDirectory::open(options.directory, files));
  std::unique_ptr<PageFiles> opened(new PageFiles(std::move(options), std::move(layout), std::move(directory), clock));
  TRY(opened->take_over());
  return opened;
}

namespace {

// Returns for example "3 records are not used (KV record: format version 2, this program reads version 3)".
std::string describe(const std::map<std::string, size_t>& of_other_versions) {
  constexpr size_t kMostTold = 4;
  std::string text;
  size_t n_told = 0;
  for (const auto& [why, n] : of_other_versions) {
    if (n_told++ == kMostTold) return text + "; ...";
    text += (text.empty() ? "" : "; ") + std::to_string(n) + (n == 1 ? " record is" : " records are") + " not used (" +
            why + ")";
  }
  return text;
}

}  // namespace

Status PageFiles::take_over() {
  PageNamer namer(options_.name_rule);
  TRY_ASSIGN(TierDirectory::Contents contents, directory_->scan(options_.numerics_version, namer));
  n_quarantined_ = contents.n_quarantined;
  n_failures_ = contents.n_unreadable;
  other_versions_ = describe(contents.of_other_versions);
  for (StoredRecord& record : contents.records) {
    record.parts = parts_of(record);
    index_.insert(std::move(record));
  }
  while (index_.bytes() > options_.budget_bytes) {
    TRY(remove(*index_.oldest()));
    ++n_evicted_;
  }
  return {};
}

// Returns the parts that a page's file contains, by its size. For files that existed when the directory was opened.
KvPageParts PageFiles::parts_of(const StoredRecord& record) const {
  const bool is_of_window = record.is_known && record.kind == KvRecordKind::kPage && layout_.window() > 0;
  return is_of_window && record.bytes == kv_page_record_bytes(layout_, record.ids.size(), KvPageParts::kFirst)
             ? KvPageParts::kFirst
             : KvPageParts::kBoth;
}

// --- Reading

std::vector<PageFiles::Found> PageFiles::find(const KvPageIdentity& identity, TokenSpan ids, size_t length) const {
  PageNamer namer(options_.name_rule);
  TextName before = namer.before_page(identity, ids.first(length));
  std::vector<Found> found;
  while (before.length < ids.size()) {
    const TokenSpan wanted = ids.subspan(before.length, std::min(kPagePositions, ids.size() - before.length));
    PageIndex::Match match = index_.best_match(before.name, wanted);
    const size_t n_used = before.length + match.n_rows;
    if (n_used <= length || match.first_position != before.length) break;
    found.push_back({{std::move(match.file_name), match.n_page_ids}, before, n_used});
    if (match.n_rows < kPagePositions) break;
    before = namer.next(before, wanted);
  }
  return found;
}

std::vector<PageFiles::FoundState> PageFiles::find_states(const KvPageIdentity& identity, TokenSpan ids,
                                                          size_t length) const {
  std::vector<FoundState> found;
  PageNamer namer(options_.name_rule);
  TextName before = namer.first(identity);
  for (;;) {
    // Search two pages: a state is in this page, but its rows may extend into the next page.
    const size_t begin = before.length;
    const TokenSpan wanted = ids.subspan(begin, std::min(2 * kPagePositions, ids.size() - begin));
    for (PageIndex::StateMatch& match : index_.states_of(before.name, wanted)) {
      const size_t n_used = match.first_position + match.n_used;
      if (match.first_position / kPagePositions * kPagePositions != begin || n_used <= length) continue;
      found.push_back({{std::move(match.file_name), match.first_position, match.n_rows}, before, n_used});
    }
    if (ids.size() - begin < kPagePositions) break;
    before = namer.next(before, wanted.first(kPagePositions));
  }
  // If two states reach equally far, the state with fewer rows to recompute comes first.
  std::ranges::stable_sort(found, std::ranges::greater(),
                           [](const FoundState& state) { return std::pair(state.n_used, state.file.position); });
  return found;
}

Result<KvPageParts> PageFiles::read(const Found& found, const KvPageIdentity& identity, TokenSpan ids,
                                    std::vector<std::byte>& scratch, const PageMemory& page) {
  const size_t begin = found.before.length;
  const KvRecordText text = found.before.followed_by(ids.subspan(begin, found.n_used - begin));
  return directory_->read(found.file, layout_, identity, text, scratch, page);
}

Result<StateSnapshot> PageFiles::read_state(const FoundState& found, KvPagePool& pool, const KvPageIdentity& identity,
                                            TokenSpan ids, size_t n) {
  const size_t begin = found.before.length;
  return directory_->read_state(found.file, pool, identity,
                                found.before.followed_by(ids.subspan(begin, found.reach(n) - begin)));
}

void PageFiles::touch(const std::string& file_name) {
  const int64_t use_ns = index_.touch(file_name, clock_.unix_ns());
  directory_->set_mtime(file_name, use_ns);
}

void PageFiles::touch(const PageName& before, TokenSpan page_ids) {
  const int64_t now_ns = clock_.unix_ns();
  const PageIndex::Match match = index_.best_match(before, page_ids);
  if (match.n_rows > 0) index_.touch(match.file_name, now_ns);
  for (const PageIndex::StateMatch& state : index_.states_of(before, page_ids)) index_.touch(state.file_name, now_ns);
}

void PageFiles::give_up(const std::string& file_name, const Status& why) {
  // Keep the file if its content is not the cause: memory ran out, the file is of another version, or it holds another
  // text whose name happens to be equal.
  const bool is_sound = why.code() == ErrorCode::kMismatch || why.code() == ErrorCode::kUnsupportedVersion;
  if (why.code() == ErrorCode::kOutOfMemory || is_sound) return;
  const std::unique_lock pen = take_pen();
  if (!index_.has_file(file_name)) return;  // another thread has evicted or quarantined the file
  const bool missing = why.code() == ErrorCode::kNotFound;
  if (missing && directory_->has(file_name)) return;  // the file was removed and written again since
  index_.erase(file_name);
  if (missing || why.code() == ErrorCode::kIo) ++n_failures_;
  if (missing) return;
  ++(directory_->quarantine(file_name).ok() ? n_quarantined_ : n_failures_);
}

// --- Writing

Status PageFiles::write(const WaitingPage& page, std::span<const std::byte> rows, KvPageParts parts) {
  // The page was queued twice, and its window part was evicted in between: nothing new to store.
  if (parts == KvPageParts::kFirst && index_.has(page.before.name, page.page_ids(), parts)) return {};
  const std::vector<std::byte> header = encode_kv_page_header(layout_, page.info(options_.writer), rows.data(), parts);
  const std::span<const std::byte> pieces[] = {header, kv_page_blocks(layout_, rows.data(), parts)};
  StoredRecord stored{.file_name = record_file_name({KvRecordKind::kPage, page.before.name, page.name}),
                      .before = page.before.name,
                      .name = page.name,
                      .name_space = page.identity.name_space,
                      .first_position = page.first_position(),
                      .ids = Tokens(page.page_ids().begin(), page.page_ids().end()),
                      .is_known = true,
                      .parts = parts,
                      .bytes = pieces[0].size() + pieces[1].size()};
  const bool is_first = page.first_position() == 0;
  TRY(check_writable(stored.file_name));
  TRY(make_room(is_first ? "" : record_file_name({KvRecordKind::kPage, page.before_that, page.before.name}),
                stored.bytes));
  TRY(add(std::move(stored), pieces, index_.files_superseded_by(page.before.name, page.page_ids())));
  ++n_pages_written_;
  return {};
}

Status PageFiles::write(const WaitingState& state, std::span<const std::byte> bytes) {
  const std::vector<std::byte> header =
      encode_kv_state_header(layout_, state.info(options_.writer), state.snapshot, bytes.data());
  const auto [floats, rows] = kv_state_blocks(layout_, state.snapshot, bytes.data());
  const std::span<const std::byte> pieces[] = {header, floats, rows};
  StoredRecord stored{.file_name = record_file_name({KvRecordKind::kState, state.before.name, state.name}),
                      .kind = KvRecordKind::kState,
                      .before = state.before.name,
                      .name = state.name,
                      .name_space = state.identity.name_space,
                      .first_position = state.snapshot.position,
                      .ids = Tokens(state.page_ids().begin(), state.page_ids().end()),
                      .is_known = true};
  for (const std::span<const std::byte> piece : pieces) stored.bytes += piece.size();
  const bool is_first = state.page_begin() == 0;
  TRY(check_writable(stored.file_name));
  TRY(make_room_for_state(stored.bytes));
  TRY(make_room(is_first ? "" : record_file_name({KvRecordKind::kPage, state.before_that, state.before.name}),
                stored.bytes));
  TRY(add(std::move(stored), pieces,
          index_.states_superseded_by(state.before.name, state.page_ids(), state.n_front())));
  ++n_states_written_;
  return {};
}

// Writes the file and indexes it. The files `superseded` are deleted after settle() made the new name durable.
Status PageFiles::add(StoredRecord record, TierDirectory::Pieces pieces, std::vector<std::string> superseded) {
  const std::string file_name = record.file_name;
  const int64_t use_ns = record.last_use_ns = index_.next_use_ns(clock_.unix_ns());
  superseded_.reserve(superseded_.size() + superseded.size());
  PageIndex::Prepared prepared = PageIndex::prepare(std::move(record));

  TRY(directory_->write(file_name, pieces, use_ns, options_.durable));
  // Nothing below this line can fail, so every file that was written is in the index.
  index_.insert(std::move(prepared));
  std::move(superseded.begin(), superseded.end(), std::back_inserter(superseded_));
  return {};
}

// Evicts files until `bytes` fit. continues: the file of the page that the new record continues; empty: there is no
// such page. Error: kLimitExceeded if that page is missing, or would have to be evicted, because lookups would then not
// find the new record.
Status PageFiles::make_room(const std::string& continues, uint64_t bytes) {
  if (!continues.empty()) {
    if (!index_.has_file(continues)) {
      return {ErrorCode::kLimitExceeded, "cold tier: the previous page is not on disk"};
    }
    index_.touch(continues, clock_.unix_ns());  // marks the file as used, so that it is evicted last
  }
  while (index_.bytes() + bytes > options_.budget_bytes) {
    const std::optional<std::string> victim = index_.oldest();
    if (!victim || *victim == continues) {
      return {ErrorCode::kLimitExceeded,
              "cold tier: more pages than the budget of " + std::to_string(options_.budget_bytes) + " bytes holds"};
    }
    TRY(remove(*victim));
    ++n_evicted_;
  }
  return {};
}

// As make_room(), for a state; evicts only states, so that pages keep their half of the budget.
Status PageFiles::make_room_for_state(uint64_t bytes) {
  const uint64_t most = options_.budget_bytes / 2;
  if (bytes > most) {
    return {ErrorCode::kLimitExceeded, "cold tier: a state has " + std::to_string(bytes) +
                                           " bytes, but all states together may have at most " + std::to_string(most)};
  }
  while (index_.state_bytes() + bytes > most) {
    TRY(remove(*index_.oldest_state()));
    ++n_evicted_;
  }
  return {};
}

// Deletes a file and removes it from the index. After an error the file and its index entry remain.
Status PageFiles::remove(const std::string& file_name) {
  TRY(directory_->remove(file_name));
  index_.erase(file_name);
  return {};
}

// Makes the new names durable, then deletes the files that they supersede. In the opposite order a power loss could
// lose both.
Status PageFiles::settle() {
  const std::vector<std::string> superseded = std::exchange(superseded_, {});
  if (options_.durable) TRY(directory_->sync());
  for (const std::string& file_name : superseded) TRY(remove(file_name));
  return {};
}

Status PageFiles::clear(const Sha256Digest& name_space) {
  Status status;
  for (const std::string& file_name : index_.files_of(name_space)) {
    if (Status removed = remove(file_name); !removed.ok()) status = std::move(removed);
  }
  if (Status removed = directory_->clear_quarantine(); !removed.ok()) status = std::move(removed);
  if (Status synced = directory_->sync(); !synced.ok()) status = std::move(synced);
  return status;
}

void PageFiles::add_to(KvTierStats& stats) const {
  stats.pages_written += n_pages_written_;
  stats.states_written += n_states_written_;
  stats.pages = index_.pages();
  stats.states = index_.states();
  stats.bytes = index_.bytes();
  stats.evicted += n_evicted_;
  stats.quarantined += n_quarantined_;
  stats.failures += n_failures_;
  stats.other_versions = other_versions_;
}

}  // namespace ibid
