#include "weights/gguf_header.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

#include "base/check.h"
#include "base/checked.h"
#include "base/text.h"
#include "base/utf8.h"

namespace ibid {
namespace {

// Byte range of a tensor: its offset from the start of the tensor data, and its size by dtype and shape.
struct GgufExtent {
  uint64_t offset;
  uint64_t bytes;
};

// Checks that each tensor begins at the padded end of the previous one in `order`. Returns the end of the last tensor.
Result<uint64_t> check_layout(std::span<const size_t> order, std::span<const GgufExtent> extents, uint64_t data_bytes,
                              std::string_view what, const GgufHeader& header) {
  uint64_t wanted = 0;
  uint64_t last_end = 0;
  for (const size_t i : order) {
    const auto [offset, bytes] = extents[i];
    const std::string field = std::string(what) + ": tensor " + in_quotes(header.tensors[i].name);
    if (offset != wanted) {
      const char* why = offset > data_bytes ? ", beyond the end of the file; expected "
                        : offset < wanted   ? ", overlapping the tensor before it; expected "
                                            : ", leaving a hole; expected ";
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
    wanted = *checked_align(*end, header.alignment);  // cannot overflow: *end is inside the file
  }
  return last_end;
}

// Sets view.data of every tensor of `header` (dtypes and shapes are checked already) from `extents`, one per tensor.
// The data begins at the first multiple of header.alignment at or after `header_end`. Bytes after the last tensor cause
// a warning. Errors: kBadOffset for overlaps, gaps other than padding and offsets past the end; kTruncated if the
// layout is valid but the file ends early.
Status place_tensors(std::span<const std::byte> file, uint64_t header_end, std::string_view what,
                     std::span<const GgufExtent> extents, GgufHeader& header) {
  CHECK_EQ(extents.size(), header.tensors.size());
  if (extents.empty()) return {};
  const uint64_t start = *checked_align(header_end, header.alignment);  // no overflow: header_end is inside the file
  const std::span<const std::byte> data = file.subspan(std::min<uint64_t>(start, file.size()));
  std::vector<size_t> order(extents.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // An empty tensor has the offset of the next tensor, and must be sorted before it.
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

std::string text_of(uint64_t number) { return std::to_string(number); }

// Parses the header in file order. `field` names the field being read, for messages.
class GgufParser {
 public:
  GgufParser(std::span<const std::byte> file, std::string_view what) : file_(file), what_(what) {}

  Result<GgufHeader> parse(bool with_tensors) {
    TRY(read_counts());
    TRY(read_entries());
    TRY(sort_keys());
    if (with_tensors) {
      TRY(read_alignment());
      TRY(read_infos());
      TRY(check_names());
      TRY(place_tensors(file_, at_, what_, extents_, header_));
    }
    return std::move(header_);
  }

 private:
  // --- Primitives.
  uint64_t left() const { return file_.size() - at_; }

  Status fail(ErrorCode code, const std::string& words) const { return {code, std::string(what_) + ": " + words}; }

  Status truncated(std::string_view field, uint64_t wanted) const {
    return fail(ErrorCode::kTruncated, "ends at byte " + text_of(file_.size()) + " inside " + std::string(field) +
                                           ", which needs " + text_of(wanted) + " bytes from byte " + text_of(at_) +
                                           " on");
  }

  template <typename T>
  Status read(T& value, std::string_view field) {
    if (left() < sizeof(T)) return truncated(field, sizeof(T));
    std::memcpy(&value, file_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return {};
  }

  // Reads a key or a tensor name.
  Status read_name(std::string& name, uint64_t max_bytes, const std::string& field) {
    uint64_t length = 0;
    TRY(read(length, field));
    if (length == 0) return fail(ErrorCode::kBadString, field + " is empty");
    if (length > max_bytes) {
      return fail(ErrorCode::kBadString,
                  field + " has " + text_of(length) + " bytes, at most " + text_of(max_bytes) + " are allowed");
    }
    if (left() < length) return truncated(field, length);
    name.assign(reinterpret_cast<const char*>(file_.data() + at_), length);
    if (name.find('\0') != std::string::npos) {
      return fail(ErrorCode::kBadString, field + " " + in_quotes(name) + " contains a NUL byte");
    }
    if (!utf8_is_valid(name)) {
      return fail(ErrorCode::kBadString, field + " " + in_quotes(name) + " is not valid UTF-8");
    }
    at_ += length;
    return {};
  }

  // Checks a count of items, each at least `min_bytes` long, against `limit` and the remaining bytes of the file.
  Status check_count(uint64_t count, uint64_t limit, uint64_t min_bytes, const std::string& field) const {
    if (count > limit) {
      return fail(ErrorCode::kLimitExceeded,
                  field + " is " + text_of(count) + ", at most " + text_of(limit) + " are supported");
    }
    if (count > left() / min_bytes) return truncated(field + " = " + text_of(count), count * min_bytes);
    return {};
  }

  // --- The parts of the file.
  Status read_counts();
  Status read_entries();
  Status read_type(GgufType& type, const std::string& field);
  Status read_value(GgufEntry& entry);
  Status read_string_payload(const std::string& field);
  Status check_bools(std::span<const std::byte> values, const std::string& field) const;
  Status sort_keys();
  Status read_alignment();
  Status read_infos();
  Status read_shape(Shape& shape, const std::string& field);
  static void drop_outer_ones(Shape& shape);
  Status check_names() const;

  std::span<const std::byte> file_;
  std::string_view what_;
  uint64_t at_ = 0;
  uint64_t n_tensors_ = 0;
  uint64_t n_entries_ = 0;
  GgufHeader header_;
  std::vector<GgufExtent> extents_;  // extents of header_.tensors
};

Status GgufParser::read_counts() {
  char magic[4];
  TRY(read(magic, "the magic"));
  if (std::string_view(magic, 4) != kGgufMagic) {
    return fail(ErrorCode::kBadMagic, "begins with " + in_quotes({magic, 4}) + ", a GGUF file begins with 'GGUF'");
  }
  TRY(read(header_.version, "the version"));
  if (header_.version != 2 && header_.version != 3) {
    const bool swapped = header_.version == 0x02000000 || header_.version == 0x03000000;
    const std::string hint = swapped ? ": the file is big-endian, convert it to little-endian" : "";
    return fail(ErrorCode::kUnsupportedVersion,
                "is GGUF version " + text_of(header_.version) + ", versions 2 and 3 are supported" + hint);
  }
  TRY(read(n_tensors_, "the number of tensors"));
  TRY(read(n_entries_, "the number of metadata entries"));
  TRY(check_count(n_tensors_, kGgufMaxTensors, kGgufMinInfoBytes, "the number of tensors"));
  return check_count(n_entries_, kGgufMaxKeys, kGgufMinEntryBytes, "the number of metadata entries");
}

Status GgufParser::read_entries() {
  header_.entries.reserve(n_entries_);
  for (uint64_t i = 0; i < n_entries_; ++i) {
    GgufEntry entry{};
    TRY(read_name(entry.key, kGgufMaxKeyBytes, "metadata key " + text_of(i)));
    const std::string field = "key " + in_quotes(entry.key);
    TRY(read_type(entry.type, field));
    entry.element_type = entry.type;
    entry.count = 1;
    if (entry.type == GgufType::kArray) {
      TRY(read_type(entry.element_type, "the elements of " + field));
      TRY(read(entry.count, "the length of " + field));
    }
    TRY(read_value(entry));
    header_.entries.push_back(std::move(entry));
  }
  return {};
}

Status GgufParser::read_type(GgufType& type, const std::string& field) {
  uint32_t number = 0;
  TRY(read(number, "the type of " + field));
  if (number >= kGgufTypeCount) {
    return fail(ErrorCode::kBadType,
                field + " has value type " + text_of(number) + ", the types are 0 to " + text_of(kGgufTypeCount - 1));
  }
  type = static_cast<GgufType>(number);
  return {};
}

Status GgufParser::read_value(GgufEntry& entry) {
  const std::string field = "key " + in_quotes(entry.key);
  if (entry.type == GgufType::kArray && entry.element_type == GgufType::kArray) {
    return fail(ErrorCode::kLimitExceeded, field + " is an array of arrays, arrays may not nest");
  }
  const uint64_t start = at_;
  if (entry.element_type == GgufType::kString) {
    if (entry.type == GgufType::kArray) {
      TRY(check_count(entry.count, kGgufMaxElements, sizeof(uint64_t), "the length of " + field));
    }
    for (uint64_t i = 0; i < entry.count; ++i) TRY(read_string_payload(field));
    // The payload of a single string is only its characters; the strings in an array keep their length fields.
    const uint64_t prefix = entry.type == GgufType::kString ? sizeof(uint64_t) : 0;
    entry.payload = file_.subspan(start + prefix, at_ - start - prefix);
    return {};
  }
  const uint64_t size = gguf_type_bytes(entry.element_type);
  TRY(check_count(entry.count, kGgufMaxElements, size, "the length of " + field));
  entry.payload = file_.subspan(start, entry.count * size);
  at_ += entry.count * size;
  if (entry.element_type == GgufType::kBool) return check_bools(entry.payload, field);
  return {};
}

// Called for every token of a vocabulary, so it builds a message only when it fails.
Status GgufParser::read_string_payload(const std::string& field) {
  uint64_t length = 0;
  TRY(read(length, field));
  if (length <= left()) {
    at_ += length;
    return {};
  }
  // A length that no file can have indicates an attack; a smaller one that exceeds the file indicates a truncated file.
  if (length > (uint64_t{1} << 40)) {
    return fail(ErrorCode::kBadString, field + " holds a string of " + text_of(length) + " bytes, " + text_of(left()) +
                                           " are left in the file");
  }
  return truncated(field, length);
}

Status GgufParser::check_bools(std::span<const std::byte> values, const std::string& field) const {
  for (const std::byte value : values) {
    if (value > std::byte{1}) {
      return fail(ErrorCode::kBadType,
                  field + " is BOOL and holds " + text_of(static_cast<uint64_t>(value)) + ", expected 0 or 1");
    }
  }
  return {};
}

// Keys are sorted rather than hashed: hostile keys cannot collide, and lookups need no second structure.
Status GgufParser::sort_keys() {
  const std::vector<GgufEntry>& entries = header_.entries;
  std::vector<uint32_t>& order = header_.by_key;
  order.resize(entries.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return entries[a].key < entries[b].key; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (entries[order[i]].key == entries[order[i - 1]].key) {
      return fail(ErrorCode::kDuplicate, "key " + in_quotes(entries[order[i]].key) + " appears twice");
    }
  }
  return {};
}

Status GgufParser::read_alignment() {
  const GgufEntry* entry = header_.find("general.alignment");
  if (entry == nullptr) return {};
  if (entry->type != GgufType::kU32) {
    return fail(ErrorCode::kBadAlignment,
                "key 'general.alignment' is " + std::string(gguf_type_name(entry->type)) + ", expected U32");
  }
  uint32_t alignment = 0;
  std::memcpy(&alignment, entry->payload.data(), sizeof(alignment));
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > kGgufMaxAlignment) {
    return fail(ErrorCode::kBadAlignment, "key 'general.alignment' is " + text_of(alignment) +
                                              ", expected a power of two from 1 to " + text_of(kGgufMaxAlignment));
  }
  header_.alignment = alignment;
  return {};
}

Status GgufParser::read_infos() {
  TRY(check_count(n_tensors_, kGgufMaxTensors, kGgufMinInfoBytes, "the number of tensors"));
  header_.tensors.reserve(n_tensors_);
  for (uint64_t i = 0; i < n_tensors_; ++i) {
    GgufTensorInfo info;
    TRY(read_name(info.name, kGgufMaxNameBytes, "the name of tensor " + text_of(i)));
    const std::string field = "tensor " + in_quotes(info.name);
    TRY(read_shape(info.view.shape, field));
    drop_outer_ones(info.view.shape);
    uint32_t number = 0;
    TRY(read(number, "the type of " + field));
    const GgufTensorType type = gguf_tensor_type(number);
    if (type.support != GgufTensorType::kReadable) {
      const bool unknown = type.support == GgufTensorType::kUnknown;
      const char* why = type.support == GgufTensorType::kRemoved ? ", which was removed from the format"
                        : unknown                                ? ""
                                                                 : ", which is not supported";
      return fail(unknown ? ErrorCode::kBadType : ErrorCode::kUnsupported,
                  field + " is of type " + text_of(number) + " (" + std::string(type.name) + ")" + why);
    }
    info.view.dtype = type.dtype;
    const BlockSize block = dtype_block(type.dtype);
    const Shape& shape = info.view.shape;
    const uint64_t row = shape.rank == 0 ? 1 : shape[shape.rank - 1];
    if (row % block.values != 0) {
      return fail(ErrorCode::kBadShape, field + " has rows of " + text_of(row) + " values, " + std::string(type.name) +
                                            " needs a multiple of " + text_of(block.values));
    }
    const std::optional<uint64_t> bytes = checked_mul<uint64_t>(shape.elements() / block.values, block.bytes);
    if (!bytes) return fail(ErrorCode::kOverflow, field + " has more bytes than 64 bits can count");
    uint64_t offset = 0;
    TRY(read(offset, "the offset of " + field));
    if (offset % header_.alignment != 0) {
      return fail(ErrorCode::kBadAlignment, field + " is at offset " + text_of(offset) + ", expected a multiple of " +
                                                text_of(header_.alignment));
    }
    header_.tensors.push_back(std::move(info));
    extents_.push_back({offset, *bytes});
  }
  return {};
}

// Some writers pad all shapes to four dimensions; the format reads a missing outer dimension as 1.
void GgufParser::drop_outer_ones(Shape& shape) {
  size_t n = 0;
  while (shape.rank > 2 && n + 1 < shape.rank && shape.dims[n] == 1) ++n;
  std::copy(shape.dims.begin() + n, shape.dims.begin() + shape.rank, shape.dims.begin());
  std::fill(shape.dims.begin() + (shape.rank - n), shape.dims.begin() + shape.rank, 0);
  shape.rank -= n;
}

// Reads a shape. Stores the outermost dimension first, as TensorView does; the file has the innermost first.
Status GgufParser::read_shape(Shape& shape, const std::string& field) {
  uint32_t rank = 0;
  TRY(read(rank, "the rank of " + field));
  if (rank > kGgufMaxDims) {
    return fail(ErrorCode::kBadShape,
                field + " has " + text_of(rank) + " dimensions, at most " + text_of(kGgufMaxDims) + " are allowed");
  }
  shape.rank = rank;
  uint64_t elements = 1;
  bool fits = true;
  for (size_t i = rank; i-- > 0;) {
    uint64_t dim = 0;
    TRY(read(dim, "the dimensions of " + field));
    if (!checked_cast<int64_t>(dim)) {
      return fail(ErrorCode::kBadShape, field + " has a dimension of " + text_of(dim) + ", which is negative");
    }
    shape.dims[i] = dim;
    // A zero dimension counts as 1 here, because it must not hide that the product of the others overflows.
    const std::optional<uint64_t> product = checked_mul(elements, std::max<uint64_t>(dim, 1));
    fits = fits && product.has_value();
    elements = product.value_or(1);
  }
  if (!fits || !checked_cast<int64_t>(elements)) {
    return fail(ErrorCode::kOverflow, field + " has more elements than 63 bits can count: " + shape.to_string());
  }
  return {};
}

Status GgufParser::check_names() const {
  std::vector<std::string_view> names;
  names.reserve(header_.tensors.size());
  for (const GgufTensorInfo& info : header_.tensors) names.push_back(info.name);
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin == names.end()) return {};
  return fail(ErrorCode::kDuplicate, "tensor " + in_quotes(*twin) + " appears twice");
}

}  // namespace

const GgufEntry* GgufHeader::find(std::string_view key) const {
  const auto at = std::lower_bound(by_key.begin(), by_key.end(), key,
                                   [this](uint32_t i, std::string_view k) { return entries[i].key < k; });
  return at != by_key.end() && entries[*at].key == key ? &entries[*at] : nullptr;
}

Result<GgufHeader> parse_gguf_header(std::span<const std::byte> file, std::string_view what, bool with_tensors) {
  return GgufParser(file, what).parse(with_tensors);
}

}  // namespace ibid
