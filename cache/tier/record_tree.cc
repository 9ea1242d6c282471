#include "cache/tier/record_tree.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace ibid {

namespace {

size_t page_begin_of(const StoredRecord& record) { return record.first_position / kPagePositions * kPagePositions; }

// A record that continues a text whose records were visited.
struct Found {
  size_t record = 0;
  size_t parent = 0;
  TextName before;
};

}  // namespace

RecordTree::RecordTree(std::vector<StoredRecord> records, const Fingerprint& fingerprint, PageNameRule name_rule) {
  PageNamer namer(name_rule);
  std::map<PageName, std::vector<size_t>> by_before;
  std::set<Sha256Digest> name_spaces;
  for (size_t i = 0; i < records.size(); ++i) {
    if (!records[i].is_known) continue;
    by_before[records[i].before].push_back(i);
    name_spaces.insert(records[i].name_space);
  }
  for (auto& [before, continuing] : by_before) {
    std::ranges::sort(continuing, [&](size_t a, size_t b) { return records[a].ids < records[b].ids; });
  }
  std::vector<bool> has_text(records.size());
  std::vector<Found> found;
  const auto add_after = [&](const TextName& text, const Sha256Digest& name_space, size_t parent) {
    const auto continuing = by_before.find(text.name);
    if (continuing == by_before.end()) return;
    const std::vector<size_t> last_first(continuing->second.rbegin(), continuing->second.rend());
    for (const size_t i : last_first) {
      const StoredRecord& record = records[i];
      if (has_text[i] || record.name_space != name_space || page_begin_of(record) != text.length) continue;
      const PageName own = record.kind == KvRecordKind::kPage ? namer.next(text, record.ids).name
                                                              : namer.state(text, record.ids, record.n_front());
      // The name of a text is a part of its digest, so this compares all tokens before the record, too.
      if (own == record.name) found.push_back({i, parent, text});
    }
  };
  for (const Sha256Digest& name_space : name_spaces) {
    add_after(namer.first({fingerprint, name_space}), name_space, kRoot);
    while (!found.empty()) {
      const Found next = found.back();
      found.pop_back();
      if (has_text[next.record]) continue;
      has_text[next.record] = true;
      StoredRecord& record = records[next.record];
      const bool is_page = record.kind == KvRecordKind::kPage;
      n_pages_ += is_page ? 1 : 0;
      nodes_.push_back({std::move(record), next.parent});
      const StoredRecord& placed = nodes_.back().record;
      if (!is_page || placed.ids.size() < kPagePositions) continue;
      add_after(namer.next(next.before, placed.ids), name_space, nodes_.size() - 1);
    }
  }
  for (size_t i = 0; i < records.size(); ++i) {
    if (!has_text[i]) without_text_.push_back(std::move(records[i]));
  }
}

TierRecord RecordTree::at(size_t i) const {
  std::vector<const Tokens*> pages;
  for (size_t node = i; node != kRoot; node = nodes_[node].parent) pages.push_back(&nodes_[node].record.ids);
  auto tokens = std::make_shared<Tokens>();
  std::ranges::reverse(pages);
  for (const Tokens* ids : pages) tokens->insert(tokens->end(), ids->begin(), ids->end());
  const StoredRecord& record = nodes_[i].record;
  const size_t n_tokens = tokens->size();
  return {{record.kind, record.first_position, n_tokens}, record.name_space, std::move(tokens)};
}

}  // namespace ibid
