#include "cache/tier/page_name.h"

#include <algorithm>

namespace ibid {

namespace {

constexpr std::string_view kSuffixes[] = {".kv", ".state"};  // one for each record kind
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

PageName first_half(const Sha256Digest& hash) {
  PageName name;
  std::copy_n(hash.begin(), name.bytes.size(), name.bytes.begin());
  return name;
}

TextName PageNamer::finish(size_t length) {
  const KvTextDigest digest = hash_.finish();
  return {digest, length, rule_(digest)};
}

TextName PageNamer::first(const KvPageIdentity& identity) {
  hash_.update(identity.fingerprint.bytes);
  hash_.update(identity.name_space);
  return finish(0);
}

TextName PageNamer::next(const TextName& before, TokenSpan page_ids) {
  hash_.update(before.digest);
  hash_.update(std::as_bytes(page_ids));
  return finish(before.length + page_ids.size());
}

TextName PageNamer::before_page(const KvPageIdentity& identity, TokenSpan ids) {
  TextName before = first(identity);
  for (; ids.size() >= kPagePositions; ids = ids.subspan(kPagePositions)) {
    before = next(before, ids.first(kPagePositions));
  }
  return before;
}

PageName PageNamer::state(const TextName& before, TokenSpan page_ids, size_t n_front) {
  const uint64_t front = n_front;
  hash_.update(before.digest);
  hash_.update(std::as_bytes(page_ids));
  hash_.update(std::as_bytes(std::span(&front, 1)));
  return rule_(hash_.finish());
}

PageName name_in_epoch(const PageName& name, uint64_t epoch) {
  Sha256 hash;
  hash.update(name.bytes);
  hash.update(std::as_bytes(std::span(&epoch, 1)));
  return first_half(hash.finish());
}

std::string record_file_name(const RecordName& name) {
  return to_hex(name.before.bytes) + "-" + to_hex(name.name.bytes) +
         std::string(kSuffixes[static_cast<size_t>(name.kind)]);
}

std::optional<RecordName> parse_record_file_name(std::string_view file_name) {
  for (const KvRecordKind kind : {KvRecordKind::kPage, KvRecordKind::kState}) {
    const std::string_view suffix = kSuffixes[static_cast<size_t>(kind)];
    if (file_name.size() != 2 * kNameDigits + 1 + suffix.size() || file_name[kNameDigits] != '-' ||
        !file_name.ends_with(suffix)) {
      continue;
    }
    const auto before = parse_name(file_name.substr(0, kNameDigits));
    const auto name = parse_name(file_name.substr(kNameDigits + 1, kNameDigits));
    if (before && name) return RecordName{kind, *before, *name};
  }
  return std::nullopt;
}

}  // namespace ibid
