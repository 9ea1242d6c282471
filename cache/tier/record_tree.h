// RecordTree: the texts of the records of one computation. A record has its own tokens and a digest of those before
// them, so records of whole pages form trees: a record continues the page whose text has that digest. The roots are the
// empty texts of the namespaces.
//
// Immutable once made, so thread-safe.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "cache/tier/kv_record.h"
#include "cache/tier/page_index.h"
#include "cache/tier/page_name.h"
#include "cache/tier/tier_records.h"

namespace ibid {

class RecordTree {
 public:
  // O(records), without regard to the lengths of their texts. May throw std::bad_alloc.
  RecordTree(std::vector<StoredRecord> records, const Fingerprint& fingerprint, PageNameRule name_rule);

  // Records whose whole text is known. They are sorted depth first: a record follows the pages before it, and
  // neighbours have long texts in common.
  size_t size() const { return nodes_.size(); }
  size_t n_pages() const { return n_pages_; }
  // Returns record i with its text. O(text).
  TierRecord at(size_t i) const;

  // Records whose text is unknown: a page before them is missing, or they are of another computation or version.
  const std::vector<StoredRecord>& without_text() const { return without_text_; }

 private:
  static constexpr size_t kRoot = std::numeric_limits<size_t>::max();
  struct Node {
    StoredRecord record;
    size_t parent = kRoot;  // index of the page before
  };

  std::vector<Node> nodes_;
  std::vector<StoredRecord> without_text_;
  size_t n_pages_ = 0;
};

// The records of a tier.
struct RecordList {
  RecordTree tree;
  // Numbers of the records without text, by the reason: of another model, settings or version; or a page before them is
  // missing.
  size_t n_of_others = 0, n_orphans = 0;
};

}  // namespace ibid
