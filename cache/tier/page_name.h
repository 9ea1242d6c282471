// PageName: names the text up to the end of a page, or the empty text before the first one, for places that find pages
// by name. It is a part of a SHA-256, so nobody can guess one or make two collide. Nothing relies on that: a name finds
// a candidate, and ids are compared.
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

// How a name is taken from a hash. first_half() is the one of every tier; tests inject others, under which names
// collide.
using PageNameRule = PageName (*)(const Sha256Digest& hash);
PageName first_half(const Sha256Digest& hash);

// One object is used by one thread at a time. Its constructor alone may throw std::bad_alloc.
class PageNamer {
 public:
  explicit PageNamer(PageNameRule rule) : rule_(rule) {}
  PageName first(const KvPageIdentity& identity);             // of no ids
  PageName next(const PageName& before, TokenSpan page_ids);  // of a page's ids after `before`
  // Of a recurrent state and its rows: of all ids behind `before` that these stand for, the first n_front are the
  // state's.
  PageName state(const PageName& before, TokenSpan page_ids, size_t n_front);

 private:
  const PageNameRule rule_;
  Sha256 hash_;
};

// "<before>-<name>.kv" in hexadecimal digits, or ".state"; and back.
struct RecordName {
  KvRecordKind kind = KvRecordKind::kPage;
  PageName before, name;
  bool operator==(const RecordName&) const = default;
};
std::string record_file_name(const RecordName& name);
std::optional<RecordName> parse_record_file_name(std::string_view file_name);

}  // namespace ibid
