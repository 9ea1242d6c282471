#include "cache/tier/page_index.h"

#include <algorithm>
#include <utility>

#include "base/token_prefix.h"

namespace ibid {

bool PageIndex::ByIds::less(const Place& a, const Place& b) {
  if (*a.before != *b.before) return *a.before < *b.before;
  return std::lexicographical_compare(a.ids.begin(), a.ids.end(), b.ids.begin(), b.ids.end());
}

bool PageIndex::ByIds::operator()(const StoredRecord* a, const StoredRecord* b) const {
  if (less(place(a), place(b))) return true;
  if (less(place(b), place(a))) return false;
  return a->file_name < b->file_name;
}

bool PageIndex::ByAge::operator()(const StoredRecord* a, const StoredRecord* b) const {
  if (a->last_use_ns != b->last_use_ns) return a->last_use_ns < b->last_use_ns;
  if (a->first_position != b->first_position) return a->first_position > b->first_position;
  return a->file_name < b->file_name;
}

PageIndex::Prepared PageIndex::prepare(StoredRecord record) {
  Prepared prepared;
  auto owned = std::make_unique<StoredRecord>(std::move(record));
  StoredRecord* added = owned.get();
  prepared.by_file_.emplace(added->file_name, std::move(owned));
  if (added->is_known) prepared.by_ids_.insert(added);
  prepared.by_age_.insert(added);
  if (added->kind == KvRecordKind::kState) prepared.states_by_age_.insert(added);
  return prepared;
}

void PageIndex::insert(Prepared prepared) noexcept {
  const StoredRecord& added = *prepared.by_file_.begin()->second;
  const std::lock_guard lock(mutex_);
  remove(added.file_name);
  bytes_ += added.bytes;
  if (added.kind == KvRecordKind::kState) state_bytes_ += added.bytes;
  newest_ns_ = std::max(newest_ns_, added.last_use_ns);
  by_ids(added).merge(prepared.by_ids_);  // moves the nodes, so nothing is allocated
  by_age_.merge(prepared.by_age_);
  states_by_age_.merge(prepared.states_by_age_);
  by_file_.merge(prepared.by_file_);
}

void PageIndex::insert(StoredRecord page) { insert(prepare(std::move(page))); }

void PageIndex::erase(const std::string& file_name) {
  const std::lock_guard lock(mutex_);
  remove(file_name);
}

void PageIndex::remove(const std::string& file_name) {
  const auto found = by_file_.find(file_name);
  if (found == by_file_.end()) return;
  StoredRecord* record = found->second.get();
  if (record->is_known) by_ids(*record).erase(record);
  by_age_.erase(record);
  bytes_ -= record->bytes;
  if (record->kind == KvRecordKind::kState) {
    states_by_age_.erase(record);
    state_bytes_ -= record->bytes;
  }
  by_file_.erase(found);
}

// Returns the page with the most tokens in common with `ids` (null if no page matches), and the number of these tokens.
std::pair<const StoredRecord*, size_t> PageIndex::best(const PageName& before, TokenSpan ids) const {
  std::pair<const StoredRecord*, size_t> best{nullptr, 0};
  const auto consider = [&](const StoredRecord* page) {
    if (page->before != before) return;
    const size_t n_rows = common_prefix_length(page->ids, ids);
    if (n_rows > best.second) best = {page, n_rows};
  };
  const auto after = by_ids_.lower_bound(Place{&before, ids});
  if (after != by_ids_.end()) consider(*after);
  if (after != by_ids_.begin()) consider(*std::prev(after));
  return best;
}

PageIndex::Match PageIndex::best_match(const PageName& before, TokenSpan ids) const {
  const std::lock_guard lock(mutex_);
  const auto [page, n_rows] = best(before, ids);
  if (page == nullptr) return {};
  return {page->file_name, page->first_position, page->ids.size(), n_rows};
}

bool PageIndex::has(const PageName& before, TokenSpan ids, KvPageParts parts) const {
  const std::lock_guard lock(mutex_);
  const auto [page, n_rows] = best(before, ids);
  if (n_rows < ids.size()) return false;
  return parts == KvPageParts::kFirst || page->parts == KvPageParts::kBoth || page->ids.size() > ids.size();
}

bool PageIndex::has_file(const std::string& file_name) const {
  const std::lock_guard lock(mutex_);
  return by_file_.contains(file_name);
}

void PageIndex::age(StoredRecord* record, int64_t last_use_ns) {
  const bool is_state = record->kind == KvRecordKind::kState;
  auto node = by_age_.extract(record);
  auto state_node = is_state ? states_by_age_.extract(record) : ByAgeSet::node_type();
  record->last_use_ns = last_use_ns;
  by_age_.insert(std::move(node));
  if (is_state) states_by_age_.insert(std::move(state_node));
}

int64_t PageIndex::next_use_ns(int64_t now_ns) const {
  const std::lock_guard lock(mutex_);
  return std::max(now_ns, newest_ns_ + 1);
}

int64_t PageIndex::touch(const std::string& file_name, int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  const int64_t use_ns = std::max(now_ns, newest_ns_ + 1);
  const auto found = by_file_.find(file_name);
  if (found == by_file_.end()) return use_ns;
  age(found->second.get(), use_ns);
  newest_ns_ = use_ns;
  return use_ns;
}

// Visits the states after the text that consists of `before` and exactly the tokens `front`. REQUIRES: mutex_ is
// locked.
template <typename Visit>
void PageIndex::visit_states(const PageName& before, TokenSpan front, Visit&& visit) const {
  const Place place{&before, front};
  for (auto at = states_by_ids_.lower_bound(place); at != states_by_ids_.end(); ++at) {
    if (ByIds::less(place, ByIds::place(*at))) return;
    visit(**at);
  }
}

// Returns a record that needs `page`: a page that continues it, or a state within it; else null.
const StoredRecord* PageIndex::continuation_of(const StoredRecord& page) const {
  if (!page.is_known || page.kind == KvRecordKind::kState) return nullptr;
  for (const ByIdsSet* set : {&by_ids_, &states_by_ids_}) {
    const auto next = set->lower_bound(Place{&page.name, {}});
    if (next == set->end() || (*next)->before != page.name) continue;
    if ((*next)->first_position > page.first_position) return *next;
  }
  const auto first = states_by_ids_.lower_bound(Place{&page.before, {}});
  if (first == states_by_ids_.end() || (*first)->before != page.before) return nullptr;
  const StoredRecord* within = nullptr;
  for (size_t n_front = 1; n_front <= page.ids.size() && within == nullptr; ++n_front) {
    visit_states(page.before, TokenSpan(page.ids).first(n_front), [&](const StoredRecord& state) {
      if (state.first_position > page.first_position) within = &state;
    });
  }
  return within;
}

std::optional<std::string> PageIndex::oldest() {
  const std::lock_guard lock(mutex_);
  while (!by_age_.empty()) {
    StoredRecord* record = *by_age_.begin();
    const StoredRecord* next = continuation_of(*record);
    if (next == nullptr) return record->file_name;
    // The record `next` continues this one, so this record was used whenever `next` was used: give it the same age.
    // Among records of equal age, those at later positions are evicted first.
    age(record, next->last_use_ns);
  }
  return std::nullopt;
}

std::optional<std::string> PageIndex::oldest_state() const {
  const std::lock_guard lock(mutex_);
  if (states_by_age_.empty()) return std::nullopt;
  return (*states_by_age_.begin())->file_name;
}

std::vector<PageIndex::StateMatch> PageIndex::states_of(const PageName& before, TokenSpan ids) const {
  const std::lock_guard lock(mutex_);
  std::vector<StateMatch> found;
  const auto first = states_by_ids_.lower_bound(Place{&before, {}});
  if (first == states_by_ids_.end() || (*first)->before != before) return found;  // the common case: no states
  for (size_t n_front = 0; n_front < std::min(kPagePositions, ids.size() + 1); ++n_front) {
    const StoredRecord* best = nullptr;
    size_t best_used = 0;
    visit_states(before, ids.first(n_front), [&](const StoredRecord& state) {
      const size_t n_used = common_prefix_length(state.ids, ids) - n_front;
      if (best == nullptr || n_used > best_used) best = &state, best_used = n_used;
    });
    if (best == nullptr) continue;
    found.push_back({best->file_name, best->first_position, best->ids.size() - n_front, best_used});
  }
  return found;
}

bool PageIndex::has_state(const PageName& before, TokenSpan ids, size_t n_front) const {
  const std::lock_guard lock(mutex_);
  bool has = false;
  visit_states(before, ids.first(n_front),
               [&](const StoredRecord& state) { has = has || common_prefix_length(state.ids, ids) == ids.size(); });
  return has;
}

std::vector<std::string> PageIndex::states_superseded_by(const PageName& before, TokenSpan ids, size_t n_front) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> files;
  visit_states(before, ids.first(n_front), [&](const StoredRecord& state) {
    const bool is_prefix = common_prefix_length(state.ids, ids) == state.ids.size();
    if (is_prefix && state.ids.size() < ids.size()) files.push_back(state.file_name);
  });
  return files;
}

std::vector<std::string> PageIndex::files_of(const Sha256Digest& name_space) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> files;
  for (const auto& [file_name, page] : by_file_) {
    if (page->name_space == name_space) files.push_back(file_name);
  }
  return files;
}

std::vector<std::string> PageIndex::files_superseded_by(const PageName& before, TokenSpan ids) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> files;
  // Records whose tokens are prefixes of `ids` are sorted before `ids`; between such a prefix and `ids` there are only
  // records that begin with the same prefix. So search backwards until a record does not match.
  for (auto at = by_ids_.lower_bound(Place{&before, ids}); at != by_ids_.begin();) {
    const StoredRecord* page = *--at;
    const size_t common = page->before == before ? common_prefix_length(page->ids, ids) : 0;
    if (common == 0) break;
    if (common == page->ids.size()) files.push_back(page->file_name);
  }
  return files;
}

std::vector<std::string> PageIndex::files_after(const TextName& text, TokenSpan page_ids) const {
  struct Text {
    PageName name;
    size_t length;
    TokenSpan page_ids;
  };
  const std::lock_guard lock(mutex_);
  std::vector<std::string> files;
  std::vector<Text> texts = {{text.name, text.length, page_ids}};
  for (size_t i = 0; i < texts.size(); ++i) {
    const Text before = texts[i];
    for (const ByIdsSet* set : {&by_ids_, &states_by_ids_}) {
      for (auto at = set->lower_bound(Place{&before.name, {}}); at != set->end(); ++at) {
        const StoredRecord& record = **at;
        if (record.before != before.name) break;
        // The positions increase from text to text, so names that collide cannot form a cycle.
        if (record.first_position / kPagePositions * kPagePositions != before.length) continue;
        if (common_prefix_length(record.ids, before.page_ids) < before.page_ids.size()) continue;
        files.push_back(record.file_name);
        if (record.kind == KvRecordKind::kState || record.ids.size() < kPagePositions) continue;
        texts.push_back({record.name, before.length + kPagePositions, {}});
      }
    }
  }
  return files;
}

std::vector<StoredRecord> PageIndex::records() const {
  const std::lock_guard lock(mutex_);
  std::vector<StoredRecord> records;
  records.reserve(by_file_.size());
  for (const auto& [file_name, record] : by_file_) records.push_back(*record);
  return records;
}

size_t PageIndex::pages() const {
  const std::lock_guard lock(mutex_);
  return by_file_.size() - states_by_age_.size();
}

size_t PageIndex::states() const {
  const std::lock_guard lock(mutex_);
  return states_by_age_.size();
}

uint64_t PageIndex::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

uint64_t PageIndex::state_bytes() const {
  const std::lock_guard lock(mutex_);
  return state_bytes_;
}

}  // namespace ibid
