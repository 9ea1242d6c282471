// Single records of a directory, for an audit (cache/tier/tier_records.h).
#include <algorithm>
#include <utility>

#include "cache/tier/page_files.h"
#include "cache/tier/record_tree.h"

namespace ibid {

namespace {

// The text before the page in which a record begins, and the name of the record's file.
struct NamedRecord {
  TextName before;
  std::string file_name;
  TokenSpan page_ids;  // tokens of the record from the beginning of the page on
};

NamedRecord named(PageNameRule name_rule, const KvPageIdentity& identity, const TierRecord& record) {
  PageNamer namer(name_rule);
  NamedRecord result{namer.before_page(identity, record.ids().first(record.first_position)), {}, {}};
  result.page_ids = record.ids().subspan(result.before.length);
  const PageName name = record.kind == KvRecordKind::kPage
                            ? namer.next(result.before, result.page_ids).name
                            : namer.state(result.before, result.page_ids, record.first_position - result.before.length);
  result.file_name = record_file_name({record.kind, result.before.name, name});
  return result;
}

Status no_such_record(const std::string& file_name) {
  return {ErrorCode::kNotFound, "KV record: " + file_name + " is not stored any more"};
}

}  // namespace

Result<PageFiles::Found> PageFiles::find_page(const KvPageIdentity& identity, const TierRecord& record) const {
  NamedRecord page = named(options_.name_rule, identity, record);
  if (!index_.has_file(page.file_name)) return no_such_record(page.file_name);
  return Found{{std::move(page.file_name), record.n_rows()}, page.before, record.n_tokens};
}

Result<PageFiles::FoundState> PageFiles::find_state(const KvPageIdentity& identity, const TierRecord& record) const {
  NamedRecord state = named(options_.name_rule, identity, record);
  if (!index_.has_file(state.file_name)) return no_such_record(state.file_name);
  return FoundState{
      {std::move(state.file_name), record.first_position, record.n_rows()}, state.before, record.n_tokens};
}

Result<TierRecords::Removed> PageFiles::remove_wrong(const KvPageIdentity& identity, const TierRecord& record) {
  const NamedRecord wrong = named(options_.name_rule, identity, record);
  TierRecords::Removed removed{wrong.file_name};
  if (!index_.has_file(wrong.file_name)) return removed;
  if (const Result<KvRecordHeader> header = directory_->read_header(wrong.file_name); header.ok()) {
    removed.writer = header->writer;
  }
  // It is unknown which rows of a page are wrong, so every record that has its first token may be computed from them.
  const size_t n_common = record.kind == KvRecordKind::kPage ? 1 : record.first_position - wrong.before.length;
  std::vector<std::string> followers = index_.files_after(wrong.before, wrong.page_ids.first(n_common));
  std::erase(followers, wrong.file_name);
  // The last ones first, and the record itself last: after an error a later audit finds it again.
  std::ranges::reverse(followers);
  for (const std::string& follower : followers) {
    TRY(remove(follower));
    ++removed.n_followers;
  }
  wrong_.insert(wrong.file_name);
  TRY(directory_->quarantine(wrong.file_name));
  index_.erase(wrong.file_name);
  ++n_quarantined_;
  if (options_.durable) TRY(directory_->sync());
  return removed;
}

// Error: kLimitExceeded for a file that was removed as wrong.
Status PageFiles::check_writable(const std::string& file_name) const {
  if (!wrong_.contains(file_name)) return {};
  return {ErrorCode::kLimitExceeded, "cold tier: a wrong record is not stored again by this process"};
}

RecordList PageFiles::list(const Fingerprint& fingerprint) {
  RecordList list{RecordTree(index_.records(), fingerprint, options_.name_rule)};
  for (const StoredRecord& record : list.tree.without_text()) {
    const Result<KvRecordHeader> header = directory_->read_header(record.file_name);
    const bool is_own = record.is_known && header.ok() && header->identity.fingerprint == fingerprint;
    ++(is_own ? list.n_orphans : list.n_of_others);
  }
  return list;
}

}  // namespace ibid
