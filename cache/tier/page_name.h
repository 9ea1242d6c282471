// PageName: identifies the text up to the end of a page (or the empty text), for storage that finds pages by name. It
// is a part of a SHA-256, so names cannot be guessed or made to collide. Correctness does not depend on the names: a
// name only yields a candidate, whose tokens are then compared.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/sha256.h"
#include "cache/tier/kv_record.h"
#include "ibid/token.h"

namespace ibid {

struct PageName {
  std::array<std::byte, 16> bytes{};
  auto operator<=>(const PageName&) const = default;
};

// Derives a name from a hash. Tiers use first_half(); tests inject rules under which names collide.
using PageNameRule = PageName (*)(const Sha256Digest& hash);
PageName first_half(const Sha256Digest& hash);

// Computes names from tokens. For one thread at a time. Only its constructor throws (std::bad_alloc).
class PageNamer {
 public:
  explicit PageNamer(PageNameRule rule) : rule_(rule) {}
  PageName first(const KvPageIdentity& identity);             // name of the empty text
  PageName next(const PageName& before, TokenSpan page_ids);  // name of the text up to the end of this page
  // Returns the name of a recurrent state with its rows. page_ids follow `before`; the first n_front of them are before
  // the state, and the others have rows.
  PageName state(const PageName& before, TokenSpan page_ids, size_t n_front);

 private:
  const PageNameRule rule_;
  Sha256 hash_;
};

// The parts of a file name "<before>-<name>.kv", or ".state", in hexadecimal digits. The functions below convert in
// both directions.
struct RecordName {
  KvRecordKind kind = KvRecordKind::kPage;
  PageName before, name;
  bool operator==(const RecordName&) const = default;
};
std::string record_file_name(const RecordName& name);
std::optional<RecordName> parse_record_file_name(std::string_view file_name);

}  // namespace ibid
