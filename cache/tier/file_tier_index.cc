#include "cache/tier/file_tier_index.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "cache/store/token_prefix.h"

namespace ibid {

namespace {

constexpr std::string_view kSuffix = ".kv";
constexpr size_t kNameDigits = 2 * sizeof(PageName);

std::optional<PageName> parse_name(std::string_view digits) {
  PageName name;
  for (size_t i = 0; i < digits.size(); ++i) {
    const char c = digits[i];
    unsigned value = 0;
    if (c >= '0' && c <= '9') {
      value = static_cast<unsigned>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = static_cast<unsigned>(c - 'a') + 10;
    } else {
      return std::nullopt;
    }
    name.bytes[i / 2] |= static_cast<std::byte>(i % 2 == 0 ? value << 4 : value);
  }
  return name;
}

}  // namespace

PageName PageNamer::first(const KvPageIdentity& identity) {
  hash_.update(identity.fingerprint.bytes);
  hash_.update(identity.name_space);
  return finish();
}

PageName PageNamer::next(const PageName& before, TokenSpan page_ids) {
  hash_.update(before.bytes);
  hash_.update(std::as_bytes(page_ids));
  return finish();
}

PageName PageNamer::finish() {
  const Sha256Digest digest = hash_.finish();
  PageName name;
  for (size_t bit = 0; bit < bits_; bit += 8) {
    const auto mask = static_cast<std::byte>(bits_ - bit >= 8 ? 0xff : (1 << (bits_ - bit)) - 1);
    name.bytes[bit / 8] = digest[bit / 8] & mask;
  }
  return name;
}

std::string page_file_name(const PageName& before, const PageName& name) {
  return to_hex(before.bytes) + "-" + to_hex(name.bytes) + std::string(kSuffix);
}

std::optional<std::pair<PageName, PageName>> parse_page_file_name(std::string_view file_name) {
  if (file_name.size() != 2 * kNameDigits + 1 + kSuffix.size() || file_name[kNameDigits] != '-' ||
      !file_name.ends_with(kSuffix)) {
    return std::nullopt;
  }
  const auto before = parse_name(file_name.substr(0, kNameDigits));
  const auto name = parse_name(file_name.substr(kNameDigits + 1, kNameDigits));
  if (!before || !name) return std::nullopt;
  return std::pair(*before, *name);
}

bool FileTierIndex::ByIds::less(const Place& a, const Place& b) {
  if (*a.before != *b.before) return *a.before < *b.before;
  return std::lexicographical_compare(a.ids.begin(), a.ids.end(), b.ids.begin(), b.ids.end());
}

bool FileTierIndex::ByIds::operator()(const StoredPage* a, const StoredPage* b) const {
  if (less(place(a), place(b))) return true;
  if (less(place(b), place(a))) return false;
  return a->file_name < b->file_name;
}

bool FileTierIndex::ByAge::operator()(const StoredPage* a, const StoredPage* b) const {
  if (a->last_use_ns != b->last_use_ns) return a->last_use_ns < b->last_use_ns;
  if (a->first_position != b->first_position) return a->first_position > b->first_position;
  return a->file_name < b->file_name;
}

FileTierIndex::Prepared FileTierIndex::prepare(StoredPage page) {
  Prepared prepared;
  auto owned = std::make_unique<StoredPage>(std::move(page));
  StoredPage* added = owned.get();
  prepared.by_file_.emplace(added->file_name, std::move(owned));
  if (!added->ids.empty()) prepared.by_ids_.insert(added);
  prepared.by_age_.insert(added);
  return prepared;
}

void FileTierIndex::insert(Prepared prepared) noexcept {
  const StoredPage& added = *prepared.by_file_.begin()->second;
  erase(added.file_name);
  bytes_ += added.bytes;
  newest_ns_ = std::max(newest_ns_, added.last_use_ns);
  by_file_.merge(prepared.by_file_);  // moves the nodes
  by_ids_.merge(prepared.by_ids_);
  by_age_.merge(prepared.by_age_);
}

void FileTierIndex::insert(StoredPage page) { insert(prepare(std::move(page))); }

void FileTierIndex::erase(const std::string& file_name) {
  const auto found = by_file_.find(file_name);
  if (found == by_file_.end()) return;
  StoredPage* page = found->second.get();
  if (!page->ids.empty()) by_ids_.erase(page);
  by_age_.erase(page);
  bytes_ -= page->bytes;
  by_file_.erase(found);
}

FileTierIndex::Match FileTierIndex::best_match(const PageName& before, TokenSpan ids) const {
  Match best;
  const auto consider = [&](const StoredPage* page) {
    if (page->before != before) return;
    const size_t n_rows = common_prefix_length(page->ids, ids);
    if (n_rows > best.n_rows) best = {page, n_rows};
  };
  const auto after = by_ids_.lower_bound(Place{&before, ids});
  if (after != by_ids_.end()) consider(*after);
  if (after != by_ids_.begin()) consider(*std::prev(after));
  return best;
}

const StoredPage* FileTierIndex::find(const std::string& file_name) const {
  const auto found = by_file_.find(file_name);
  return found == by_file_.end() ? nullptr : found->second.get();
}

void FileTierIndex::age(StoredPage* page, int64_t last_use_ns) {
  auto node = by_age_.extract(page);
  page->last_use_ns = last_use_ns;
  by_age_.insert(std::move(node));
}

void FileTierIndex::touch(const std::string& file_name, int64_t now_ns) {
  const auto found = by_file_.find(file_name);
  if (found == by_file_.end()) return;
  age(found->second.get(), now_ns);
  newest_ns_ = std::max(newest_ns_, now_ns);
}

const StoredPage* FileTierIndex::oldest() {
  while (!by_age_.empty()) {
    StoredPage* page = *by_age_.begin();
    const auto next = by_ids_.lower_bound(Place{&page->name, {}});
    const bool continued = next != by_ids_.end() && !page->ids.empty() && (*next)->before == page->name &&
                           (*next)->first_position > page->first_position;
    if (!continued) return page;
    // It was used when its continuation was, so it comes behind that from now on: at equal age, and later positions
    // go first.
    age(page, (*next)->last_use_ns);
  }
  return nullptr;
}

std::vector<std::string> FileTierIndex::files_of(const Sha256Digest& name_space) const {
  std::vector<std::string> files;
  for (const auto& [file_name, page] : by_file_) {
    if (page->name_space == name_space) files.push_back(file_name);
  }
  return files;
}

std::vector<std::string> FileTierIndex::files_superseded_by(const PageName& before, TokenSpan ids) const {
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

}  // namespace ibid
