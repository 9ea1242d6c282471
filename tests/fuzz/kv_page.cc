// Records of pages of keys and values: raw bytes as a header or as a tail, and a valid record changed by a script.
#include <algorithm>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "cache/tier/kv_page_file.h"
#include "cache/tier/page_name.h"
#include "cache/tier/record_store.h"
#include "tests/fuzz/script.h"

namespace ibid::fuzz {

namespace {

const KvLayout kLayout = KvLayout::make(2, 1, 2, KvDType::kF16);

KvPageIdentity identity() {
  KvPageIdentity out;
  out.fingerprint.bytes.fill(std::byte{7});
  out.name_space.fill(std::byte{9});
  return out;
}

KvRecordText text_of(TokenSpan ids) {
  const TextName before = PageNamer(first_half).before_page(identity(), ids.first(ids.size() - 1));
  return before.followed_by(ids.subspan(before.length));
}

void check_raw(std::span<const std::byte> bytes) {
  if (const auto tail = RecordTail::parse(bytes)) CHECK(std::ranges::equal(tail->encode(), bytes));
  const auto header = parse_kv_record_header(bytes);
  if (!header.ok()) return;
  const size_t least_rows = header->kind == KvRecordKind::kPage ? 1 : 0;
  CHECK(header->header_bytes <= header->record_bytes && header->n_rows >= least_rows &&
        header->n_rows <= kPagePositions);
  std::vector<std::byte> page(kLayout.page_bytes());
  const Tokens ids = {1, 2, 3};
  CHECK(!decode_kv_page(bytes, kLayout, identity(), text_of(ids), page.data()).ok()) << "a random record was accepted";
}

void check_changed(Script& script) {
  Tokens ids(1 + script.below(130));
  std::iota(ids.begin(), ids.end(), TokenId{script.byte()});
  std::vector<std::byte> page(kLayout.page_bytes());
  const std::vector<std::byte> header = encode_kv_page_header(kLayout, {identity(), text_of(ids)}, page.data());
  std::vector<std::byte> record = header;
  record.insert(record.end(), page.begin(), page.end());
  std::vector<std::byte> changed = record;
  while (!script.empty()) {
    const size_t at = script.number<uint16_t>() % changed.size();
    if (script.byte() % 32 == 31)
      changed.resize(std::max<size_t>(at, 1));
    else
      changed[at] ^= std::byte{script.byte()};
  }
  std::vector<std::byte> out(page.size(), std::byte{0x55});
  const auto read = decode_kv_page(changed, kLayout, identity(), text_of(ids), out.data());
  CHECK_EQ(read.ok(), changed == record) << "a changed record was accepted, or a valid one rejected";
  if (read.ok())
    CHECK(out == page);
  else
    CHECK(std::ranges::count(out, std::byte{0x55}) == static_cast<ptrdiff_t>(out.size()));
}

}  // namespace

void kv_page(Input input) {
  Script script(input);
  if (script.flag()) {
    check_changed(script);
  } else {
    const Input raw = script.rest();
    const std::vector<std::byte> exact(std::as_bytes(raw).begin(), std::as_bytes(raw).end());
    check_raw(exact);
  }
}

}  // namespace ibid::fuzz
