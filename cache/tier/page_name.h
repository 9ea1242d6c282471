// PageName: name of the text up to the end of a page, or of the empty text, for storage that finds pages by name. Part
// of a SHA-256, so names cannot be guessed or made to collide. Correctness does not depend on that: a name gives a
// candidate, and its tokens are compared.
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

// For one thread at a time. Only its constructor throws (std::bad_alloc).
class PageNamer {
 public:
  explicit PageNamer(PageNameRule rule) : rule_(rule) {}
  PageName first(const KvPageIdentity& identity);             // of no tokens
  PageName next(const PageName& before, TokenSpan page_ids);  // of the tokens of a page after `before`
  // Name of a recurrent state and its rows, for page_ids after `before`: the first n_front are before the state, the
  // others are its rows.
  PageName state(const PageName& before, TokenSpan page_ids, size_t n_front);

 private:
  const PageNameRule rule_;
  Sha256 hash_;
};

// File name "<before>-<name>.kv", or ".state", in hexadecimal digits; and back.
struct RecordName {
  KvRecordKind kind = KvRecordKind::kPage;
  PageName before, name;
  bool operator==(const RecordName&) const = default;
};
std::string record_file_name(const RecordName& name);
std::optional<RecordName> parse_record_file_name(std::string_view file_name);

}  // namespace ibid
