#include "weights/gguf_placement.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

#include "base/check.h"
#include "base/checked.h"
#include "weights/in_quotes.h"

namespace ibid {

namespace {

// Each tensor begins where its predecessor ends, padded. `order` is by offset.
// Returns where the last one ends.
Result<uint64_t> check_layout(std::span<const size_t> order, std::span<const GgufExtent> extents,
                              uint64_t data_bytes, std::string_view what, const GgufHeader& header) {
  uint64_t wanted = 0;
  uint64_t last_end = 0;
  for (const size_t i : order) {
    const auto [offset, bytes] = extents[i];
    const std::string field = std::string(what) + ": tensor " + in_quotes(header.tensors[i].name);
    if (offset != wanted) {
      const char* why = offset > data_bytes ? ", beyond the end of the file; wanted "
                        : offset < wanted   ? ", overlapping the tensor before it; wanted "
                                            : ", leaving a hole; wanted ";
      return Status(ErrorCode::kBadOffset,
                    field + " is at offset " + std::to_string(offset) + why + std::to_string(wanted));
    }
    const std::optional<uint64_t> end = checked_add(offset, bytes);
    if (!end || *end > data_bytes) {
      return Status(ErrorCode::kTruncated,
                    field + " has " + std::to_string(bytes) + " bytes from byte " + std::to_string(offset) +
                        " of the tensor data on, of which the file holds " + std::to_string(data_bytes));
    }
    last_end = *end;
    wanted = *checked_align(*end, header.alignment);  // cannot wrap: *end lies inside the file
  }
  return last_end;
}

}  // namespace

Status place_gguf_tensors(std::span<const std::byte> file, uint64_t header_end, std::string_view what,
                          std::span<const GgufExtent> extents, GgufHeader& header) {
  CHECK_EQ(extents.size(), header.tensors.size());
  if (extents.empty()) return {};
  const uint64_t start =
      *checked_align(header_end, header.alignment);  // cannot wrap: header_end is inside the file
  const std::span<const std::byte> data = file.subspan(std::min<uint64_t>(start, file.size()));
  std::vector<size_t> order(extents.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Empty tensors share an offset with the one after them and come first.
  std::sort(order.begin(), order.end(), [extents](size_t a, size_t b) {
    return extents[a].offset != extents[b].offset ? extents[a].offset < extents[b].offset
                                                  : extents[a].bytes < extents[b].bytes;
  });
  TRY_ASSIGN(const uint64_t end, check_layout(order, extents, data.size(), what, header));
  for (size_t i = 0; i < extents.size(); ++i) {
    header.tensors[i].view.data = data.subspan(extents[i].offset, extents[i].bytes);
  }
  if (const uint64_t rest = data.size() - end; rest >= header.alignment) {
    header.warnings.push_back(std::string(what) + ": " + std::to_string(rest) + " bytes follow the last tensor");
  }
  return {};
}

}  // namespace ibid
