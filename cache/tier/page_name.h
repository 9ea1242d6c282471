// Names of texts. TextName identifies the text up to the end of a page (or the empty text): by the digest of its
// fingerprint, namespace and tokens, and by PageName, a part of the digest, for storage that finds pages by name.
// Correctness does not depend on the names: a name only yields a candidate, whose digest and tokens are then compared.
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

struct TextName {
  KvTextDigest digest{};
  size_t length = 0;  // number of tokens
  PageName name;

  KvRecordText followed_by(TokenSpan page_ids) const { return {digest, length, page_ids}; }
};

// The digest of the empty text is the SHA-256 of fingerprint and namespace; the digest of a longer text is the SHA-256
// of the digest up to the beginning of its last page and of the tokens of that page.
//
// Computes names from tokens. For one thread at a time. Only its constructor throws (std::bad_alloc).
class PageNamer {
 public:
  explicit PageNamer(PageNameRule rule) : rule_(rule) {}
  TextName first(const KvPageIdentity& identity);             // name of the empty text
  TextName next(const TextName& before, TokenSpan page_ids);  // name of the text up to the end of this page
  // Returns the name of a recurrent state with its rows. page_ids follow `before`; the first n_front of them are before
  // the state, and the others have rows.
  PageName state(const TextName& before, TokenSpan page_ids, size_t n_front);
  // Returns the name of the text before the page that contains position ids.size(), or begins there.
  TextName before_page(const KvPageIdentity& identity, TokenSpan ids);
  PageName name_of(const KvTextDigest& digest) const { return rule_(digest); }

 private:
  TextName finish(size_t length);

  const PageNameRule rule_;
  Sha256 hash_;
};

// Name of a record in a store that cannot delete all records of a namespace: another one in each epoch.
PageName name_in_epoch(const PageName& name, uint64_t epoch);

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
