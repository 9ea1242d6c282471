#include "cache/tier/page_index.h"

#include <algorithm>
#include <utility>

#include "base/token_prefix.h"

namespace ibid {

bool PageIndex::ByIds::less(const Place& a, const Place& b) {
  if (*a.before != *b.before) return *a.before < *b.before;
  return std::lexicographical_compare(a.ids.begin(), a.ids.end(), b.ids.begin(), b.ids.end());
}

bool PageIndex::ByIds::operator()(const StoredPage* a, const StoredPage* b) const {
  if (less(place(a), place(b))) return true;
  if (less(place(b), place(a))) return false;
  return a->file_name < b->file_name;
}

bool PageIndex::ByAge::operator()(const StoredPage* a, const StoredPage* b) const {
  if (a->last_use_ns != b->last_use_ns) return a->last_use_ns < b->last_use_ns;
  if (a->first_position != b->first_position) return a->first_position > b->first_position;
  return a->file_name < b->file_name;
}

PageIndex::Prepared PageIndex::prepare(StoredPage page) {
  Prepared prepared;
  auto owned = std::make_unique<StoredPage>(std::move(page));
  StoredPage* added = owned.get();
  prepared.by_file_.emplace(added->file_name, std::move(owned));
  if (!added->ids.empty()) prepared.by_ids_.insert(added);
  prepared.by_age_.insert(added);
  return prepared;
}

void PageIndex::insert(Prepared prepared) noexcept {
  const StoredPage& added = *prepared.by_file_.begin()->second;
  const std::lock_guard lock(mutex_);
  remove(added.file_name);
  bytes_ += added.bytes;
  newest_ns_ = std::max(newest_ns_, added.last_use_ns);
  by_file_.merge(prepared.by_file_);  // moves the nodes
  by_ids_.merge(prepared.by_ids_);
  by_age_.merge(prepared.by_age_);
}

void PageIndex::insert(StoredPage page) { insert(prepare(std::move(page))); }

void PageIndex::erase(const std::string& file_name) {
  const std::lock_guard lock(mutex_);
  remove(file_name);
}

void PageIndex::remove(const std::string& file_name) {
  const auto found = by_file_.find(file_name);
  if (found == by_file_.end()) return;
  StoredPage* page = found->second.get();
  if (!page->ids.empty()) by_ids_.erase(page);
  by_age_.erase(page);
  bytes_ -= page->bytes;
  by_file_.erase(found);
}

// The page, null for none, and how many of the ids it begins with.
std::pair<const StoredPage*, size_t> PageIndex::best(const PageName& before, TokenSpan ids) const {
  std::pair<const StoredPage*, size_t> best{nullptr, 0};
  const auto consider = [&](const StoredPage* page) {
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

bool PageIndex::has(const PageName& before, TokenSpan ids) const {
  const std::lock_guard lock(mutex_);
  return best(before, ids).second == ids.size();
}

bool PageIndex::has_file(const std::string& file_name) const {
  const std::lock_guard lock(mutex_);
  return by_file_.contains(file_name);
}

void PageIndex::age(StoredPage* page, int64_t last_use_ns) {
  auto node = by_age_.extract(page);
  page->last_use_ns = last_use_ns;
  by_age_.insert(std::move(node));
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

std::optional<std::string> PageIndex::oldest() {
  const std::lock_guard lock(mutex_);
  while (!by_age_.empty()) {
    StoredPage* page = *by_age_.begin();
    const auto next = by_ids_.lower_bound(Place{&page->name, {}});
    const bool continued = next != by_ids_.end() && !page->ids.empty() && (*next)->before == page->name &&
                           (*next)->first_position > page->first_position;
    if (!continued) return page->file_name;
    // It was used when its continuation was, so it comes behind that from now on: at equal age, and later positions
    // go first.
    age(page, (*next)->last_use_ns);
  }
  return std::nullopt;
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
  // A beginning of `ids` stands in front of it, and between the two only what begins with it as well.
  for (auto at = by_ids_.lower_bound(Place{&before, ids}); at != by_ids_.begin();) {
    const StoredPage* page = *--at;
    const size_t common = page->before == before ? common_prefix_length(page->ids, ids) : 0;
    if (common == 0) break;
    if (common == page->ids.size()) files.push_back(page->file_name);
  }
  return files;
}

size_t PageIndex::pages() const {
  const std::lock_guard lock(mutex_);
  return by_file_.size();
}

uint64_t PageIndex::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace ibid
