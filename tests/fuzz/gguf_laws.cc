#include "tests/fuzz/gguf_laws.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "weights/gguf_writer.h"

namespace ibid::fuzz {

namespace {

bool lies_within(std::span<const std::byte> part, std::span<const std::byte> whole) {
  if (part.empty()) return true;
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

void check_same(const GgufHeader& a, const GgufHeader& b) {
  CHECK_EQ(a.entries.size(), b.entries.size());
  for (const GgufEntry& x : a.entries) {
    const GgufEntry* y = b.find(x.key);
    CHECK(y != nullptr && x.type == y->type && x.element_type == y->element_type && x.count == y->count) << x.key;
    CHECK(same_bytes(x.payload, y->payload)) << x.key;
  }
  CHECK_EQ(a.tensors.size(), b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const GgufTensorInfo &x = a.tensors[i], &y = b.tensors[i];
    CHECK(x.name == y.name && x.view.dtype == y.view.dtype && x.view.shape == y.view.shape);
    CHECK(same_bytes(x.view.data, y.view.data)) << x.name;
  }
}

}  // namespace

void check_gguf(std::span<const std::byte> file, const GgufHeader& header, bool with_tensors) {
  GgufWriter writer(header.alignment);
  for (const GgufEntry& entry : header.entries) {
    CHECK(lies_within(entry.payload, file)) << entry.key;
    CHECK(header.find(entry.key) == &entry) << entry.key;
    const bool writers_own = entry.key == "general.alignment" && header.alignment != kGgufDefaultAlignment;
    if (!writers_own) writer.add_entry(entry);
  }
  uint64_t bytes = 0;
  for (const GgufTensorInfo& info : header.tensors) {
    CHECK(lies_within(info.view.data, file)) << info.name;
    CHECK_EQ(info.view.data.size(), info.view.bytes());
    bytes += info.view.data.size();
    writer.add_tensor(info.name, info.view.dtype, info.view.shape, info.view.data);
  }
  CHECK_LE(bytes, file.size());  // tensors do not overlap
  const std::string again = writer.bytes();
  const auto read = parse_gguf_header(std::as_bytes(std::span(again)), "again", with_tensors);
  CHECK(read.ok()) << read.status().message();
  check_same(header, *read);
}

}  // namespace ibid::fuzz
