#include "cache/tier/page_files.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace ibid {

PageFiles::PageFiles(PageFilesOptions options, KvLayout layout, std::unique_ptr<TierDirectory> directory, Clock& clock)
    : options_(std::move(options)), layout_(std::move(layout)), directory_(std::move(directory)), clock_(clock) {}

Result<std::unique_ptr<PageFiles>> PageFiles::open(PageFilesOptions options, KvLayout layout, FileOps& files,
                                                   Clock& clock) {
  TRY_ASSIGN(std::unique_ptr<TierDirectory> directory, TierDirectory::open(options.directory, files));
  std::unique_ptr<PageFiles> opened(
      new PageFiles(std::move(options), std::move(layout), std::move(directory), clock));
  TRY(opened->take_over());
  return opened;
}

Status PageFiles::take_over() {
  PageNamer namer(options_.name_rule);
  TRY_ASSIGN(TierDirectory::Contents contents, directory_->scan(options_.fingerprint, namer));
  n_quarantined_ = contents.n_quarantined;
  n_failures_ = contents.n_unreadable;
  for (StoredPage& page : contents.pages) index_.insert(std::move(page));
  while (index_.bytes() > options_.budget_bytes) {
    TRY(remove(*index_.oldest()));
    ++n_evicted_;
  }
  return {};
}

// --- Reading.

std::vector<PageFiles::Found> PageFiles::find(const KvPageIdentity& identity, TokenSpan ids, size_t length) const {
  PageNamer namer(options_.name_rule);
  PageName before = namer.first(identity);
  size_t position = 0;
  for (; position + kPagePositions <= length; position += kPagePositions) {
    before = namer.next(before, ids.subspan(position, kPagePositions));
  }
  std::vector<Found> found;
  while (position < ids.size()) {
    const TokenSpan wanted = ids.subspan(position, std::min(kPagePositions, ids.size() - position));
    PageIndex::Match match = index_.best_match(before, wanted);
    if (position + match.n_rows <= length || match.first_position != position) break;
    found.push_back({std::move(match.file_name), position + match.n_page_ids, position + match.n_rows});
    position = found.back().n_used;
    if (position % kPagePositions != 0) break;
    before = namer.next(before, wanted);
  }
  return found;
}

Status PageFiles::read(const Found& found, const KvPageIdentity& identity, TokenSpan ids,
                       std::vector<std::byte>& scratch, const PageMemory& page) {
  return directory_->read(found.file_name, layout_, identity, found.n_ids, ids.first(found.n_used), scratch, page);
}

void PageFiles::touch(const Found& found) {
  const int64_t use_ns = index_.touch(found.file_name, clock_.unix_ns());
  directory_->set_mtime(found.file_name, use_ns);
}

void PageFiles::give_up(const Found& found, const Status& why) {
  // The file is to blame neither when memory ran out, nor when it holds another text whose name happens to be the
  // same. It stays.
  if (why.code() == ErrorCode::kOutOfMemory || why.code() == ErrorCode::kMismatch) return;
  const std::unique_lock pen = take_pen();
  if (!index_.has_file(found.file_name)) return;  // evicted meanwhile, or seen by somebody else
  const bool missing = why.code() == ErrorCode::kNotFound;
  if (missing && directory_->has(found.file_name)) return;  // removed and written anew meanwhile
  index_.erase(found.file_name);
  if (missing || why.code() == ErrorCode::kIo) ++n_failures_;
  if (missing) return;
  ++(directory_->quarantine(found.file_name).ok() ? n_quarantined_ : n_failures_);
}

// --- Changing.

Status PageFiles::write(const WaitingPage& page, std::span<const std::byte> rows) {
  const std::vector<std::byte> header = encode_kv_page_header(layout_, page.identity, page.ids(), rows.data());
  StoredPage stored{.file_name = page_file_name(page.before, page.name),
                    .before = page.before,
                    .name = page.name,
                    .name_space = page.identity.name_space,
                    .first_position = page.first_position(),
                    .ids = Tokens(page.page_ids().begin(), page.page_ids().end()),
                    .bytes = header.size() + rows.size()};
  const std::string file_name = stored.file_name;
  TRY(make_room(page, stored.bytes));
  std::vector<std::string> superseded = index_.files_superseded_by(page.before, page.page_ids());
  const int64_t use_ns = stored.last_use_ns = index_.next_use_ns(clock_.unix_ns());
  superseded_.reserve(superseded_.size() + superseded.size());
  PageIndex::Prepared prepared = PageIndex::prepare(std::move(stored));

  TRY(directory_->write(file_name, header, rows, use_ns, options_.durable));
  // Nothing below fails: what has a name is in the index.
  ++n_written_;
  index_.insert(std::move(prepared));
  std::move(superseded.begin(), superseded.end(), std::back_inserter(superseded_));
  return {};
}

// Evicts until `bytes` fit. Error: kLimitExceeded when only the page that the new one continues could go, or when that
// is not there: nobody would find the new one.
Status PageFiles::make_room(const WaitingPage& page, uint64_t bytes) {
  const std::string continues = page.first_position() > 0 ? page_file_name(page.before_that, page.before) : "";
  if (!continues.empty()) {
    if (!index_.has_file(continues)) {
      return {ErrorCode::kLimitExceeded, "cold tier: the page before is not on disk"};
    }
    index_.touch(continues, clock_.unix_ns());  // it is about to be used: the last to go
  }
  while (index_.bytes() + bytes > options_.budget_bytes) {
    const std::optional<std::string> victim = index_.oldest();
    if (!victim || *victim == continues) {
      return {ErrorCode::kLimitExceeded, "cold tier: more pages than the budget of " +
                                             std::to_string(options_.budget_bytes) + " bytes holds"};
    }
    TRY(remove(*victim));
    ++n_evicted_;
  }
  return {};
}

// Removes a file and forgets it; when that fails it is still there.
Status PageFiles::remove(const std::string& file_name) {
  TRY(directory_->remove(file_name));
  index_.erase(file_name);
  return {};
}

// The new names are made durable, and then what they supersede goes. In the other order a power loss could take both.
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
  stats.pages_written += n_written_;
  stats.pages = index_.pages();
  stats.bytes = index_.bytes();
  stats.evicted += n_evicted_;
  stats.quarantined += n_quarantined_;
  stats.failures += n_failures_;
}

}  // namespace ibid
