#include "weights/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/json_limits.h"
#include "base/text.h"

namespace ibid {

namespace {

struct DTypeName {
  std::string_view name;
  std::optional<DType> dtype;  // nullopt: a dtype that the file format defines, but that is not supported
};

constexpr DTypeName kDTypeNames[] = {
    {"F32", DType::kF32},
    {"F16", DType::kF16},
    {"BF16", DType::kBF16},
    {"F64", DType::kF64},
    {"I8", DType::kI8},
    {"I16", DType::kI16},
    {"I32", DType::kI32},
    {"I64", DType::kI64},
    {"U8", DType::kU8},
    {"BOOL", DType::kBool},
    {"U16", {}},
    {"U32", {}},
    {"U64", {}},
    {"F8_E4M3", DType::kF8E4M3},
    {"F8_E5M2", DType::kF8E5M2},
    {"F8_E8M0", {}},
    {"F6_E2M3", {}},
    {"F6_E3M2", {}},
    {"F4", {}},
    {"C64", {}},
    {"F8_E4M3FNUZ", {}},
    {"F8_E5M2FNUZ", {}},
};

// A tensor of the header, before its offsets are checked and turned into a view.
struct Info {
  const std::string* name;
  DType dtype;
  Shape shape;
  uint64_t begin, end;
};

class SafetensorsParser {
 public:
  SafetensorsParser(std::span<const std::byte> file, std::string_view what) : file_(file), what_(what) {}

  Result<SafetensorsHeader> parse() {
    TRY_ASSIGN(const std::string_view text, header_text());
    JsonLimits limits;
    limits.max_depth = 4;           // the format needs a nesting depth of 3
    limits.max_values = 3'000'000;  // the format needs 8 JSON values per tensor
    TRY_ASSIGN(const Json root, parse_json(text, std::string(what_) + ": header", limits));
    std::vector<Info> infos;
    for (const auto& [name, value] : root.items()) {
      if (name == "__metadata__") {
        TRY(read_metadata(value));
      } else {
        TRY_ASSIGN(infos.emplace_back(), read_info(name, value));
      }
    }
    TRY(place(infos));
    return std::move(header_);
  }

 private:
  Status fail(ErrorCode code, const std::string& words) const { return {code, std::string(what_) + ": " + words}; }

  Result<std::string_view> header_text() {
    uint64_t length = 0;
    if (file_.size() < sizeof(length)) {
      return fail(ErrorCode::kTruncated,
                  "ends inside the length of the header, at byte " + std::to_string(file_.size()));
    }
    std::memcpy(&length, file_.data(), sizeof(length));
    if (length > kSafetensorsMaxHeaderBytes) {
      return fail(ErrorCode::kBadHeader, "declares a header of " + std::to_string(length) + " bytes, at most " +
                                             std::to_string(kSafetensorsMaxHeaderBytes) + " are allowed");
    }
    const std::span<const std::byte> rest = file_.subspan(sizeof(length));
    if (length > rest.size()) {
      return fail(ErrorCode::kTruncated, "ends inside its header, which has " + std::to_string(length) +
                                             " bytes; only " + std::to_string(rest.size()) + " are present");
    }
    data_ = rest.subspan(length);
    std::string_view text(reinterpret_cast<const char*>(rest.data()), length);
    if (!text.starts_with('{')) return fail(ErrorCode::kBadHeader, "the header does not begin with '{'");
    text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
    if (!text.ends_with('}')) {
      return fail(ErrorCode::kBadHeader, "the header does not end with '}' and white space");
    }
    return text;
  }

  Status read_metadata(const Json& value) {
    if (value.is_null()) return {};
    if (!value.is_object()) return fail(ErrorCode::kBadHeader, "__metadata__ is not an object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) {
        return fail(ErrorCode::kBadHeader,
                    "__metadata__ " + in_quotes(key) + " is " + text.type_name() + ", expected a string");
      }
      header_.metadata.emplace_back(key, text.get_ref<const std::string&>());
    }
    return {};
  }

  Result<Info> read_info(const std::string& name, const Json& value) const {
    const std::string field = "tensor " + in_quotes(name);
    if (name.empty() || name.find('\0') != std::string::npos) {
      return fail(ErrorCode::kBadString, field + ": the name is empty or contains a NUL");
    }
    if (!value.is_object()) return fail(ErrorCode::kBadHeader, field + " is not an object");
    Info info{&name, DType::kF32, {}, 0, 0};
    TRY(read_dtype(value, field, info.dtype));
    TRY(read_shape(value, field, info.shape));
    TRY_ASSIGN(const std::vector<uint64_t> offsets, read_numbers(value, "data_offsets", field, 2));
    if (offsets.size() != 2) return fail(ErrorCode::kBadHeader, field + ": data_offsets must have two numbers");
    info.begin = offsets[0];
    info.end = offsets[1];
    if (info.begin > info.end) {
      return fail(ErrorCode::kBadOffset, field + ": data_offsets run backwards, from " + std::to_string(info.begin) +
                                             " to " + std::to_string(info.end));
    }
    const std::optional<uint64_t> bytes = checked_bytes(info);
    if (!bytes) return fail(ErrorCode::kOverflow, field + ": " + info.shape.to_string() + " overflows 64 bits");
    if (*bytes != info.end - info.begin) {
      return fail(ErrorCode::kBadShape, field + ": " + std::string(dtype_name(info.dtype)) + " " +
                                            info.shape.to_string() + " needs " + std::to_string(*bytes) +
                                            " bytes, data_offsets give it " + std::to_string(info.end - info.begin));
    }
    return info;
  }

  Status read_dtype(const Json& tensor, const std::string& field, DType& dtype) const {
    const auto at = tensor.find("dtype");
    if (at == tensor.end() || !at->is_string()) return fail(ErrorCode::kBadHeader, field + " has no dtype");
    const std::string& name = at->get_ref<const std::string&>();
    for (const DTypeName& row : kDTypeNames) {
      if (row.name != name) continue;
      if (!row.dtype) return fail(ErrorCode::kUnsupported, field + " is of dtype " + name + ", which is not supported");
      dtype = *row.dtype;
      return {};
    }
    return fail(ErrorCode::kBadType, field + " is of dtype " + in_quotes(name) + ", which is unknown");
  }

  Status read_shape(const Json& tensor, const std::string& field, Shape& shape) const {
    TRY_ASSIGN(const std::vector<uint64_t> dims, read_numbers(tensor, "shape", field, kMaxDims));
    shape.rank = dims.size();
    std::copy(dims.begin(), dims.end(), shape.dims.begin());
    return {};
  }

  // Reads a member that is an array of at most `max_count` unsigned integers.
  Result<std::vector<uint64_t>> read_numbers(const Json& tensor, const char* member, const std::string& field,
                                             size_t max_count) const {
    const auto at = tensor.find(member);
    if (at == tensor.end() || !at->is_array()) {
      return fail(ErrorCode::kBadHeader, field + " has no array " + member);
    }
    if (at->size() > max_count) {
      return fail(ErrorCode::kBadShape, field + ": " + member + " has " + std::to_string(at->size()) +
                                            " numbers, at most " + std::to_string(max_count) + " are supported");
    }
    std::vector<uint64_t> numbers;
    for (const Json& number : *at) {
      if (!number.is_number_unsigned()) {
        return fail(ErrorCode::kBadNumber, field + ": " + member + " holds " + in_quotes(json_to_string(number)) +
                                               ", expected a whole number");
      }
      numbers.push_back(number.get<uint64_t>());
    }
    return numbers;
  }

  // Dimensions of 0 count as 1 in the product, so that they cannot hide an overflow.
  static std::optional<uint64_t> checked_bytes(const Info& info) {
    uint64_t bytes = dtype_block(info.dtype).bytes;
    bool empty = false;
    for (size_t i = 0; i < info.shape.rank; ++i) {
      empty = empty || info.shape[i] == 0;
      const std::optional<uint64_t> product = checked_mul(bytes, std::max<uint64_t>(info.shape[i], 1));
      if (!product) return std::nullopt;
      bytes = *product;
    }
    return empty ? 0 : bytes;
  }

  // Checks that the offsets cover the data exactly, then turns them into views.
  Status place(std::vector<Info>& infos) {
    std::sort(infos.begin(), infos.end(),
              [](const Info& a, const Info& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
    uint64_t wanted = 0;
    for (const Info& info : infos) {
      if (info.begin != wanted) {
        return fail(ErrorCode::kBadOffset,
                    "tensor " + in_quotes(*info.name) + " begins at byte " + std::to_string(info.begin) +
                        (info.begin < wanted ? ", overlapping the one before it, which ends at byte "
                                             : " of the data, leaving a hole after byte ") +
                        std::to_string(wanted));
      }
      wanted = info.end;
      if (wanted > data_.size()) {
        return fail(ErrorCode::kTruncated, "tensor " + in_quotes(*info.name) + " ends at byte " +
                                               std::to_string(wanted) + " of the data, of which the file holds " +
                                               std::to_string(data_.size()));
      }
      header_.tensors.push_back(
          {*info.name, {info.dtype, info.shape, data_.subspan(info.begin, info.end - info.begin)}});
    }
    if (wanted == data_.size()) return {};
    return fail(ErrorCode::kBadOffset,
                std::to_string(data_.size() - wanted) + " bytes follow the last tensor; the format allows none");
  }

  std::span<const std::byte> file_;
  std::string_view what_;
  std::span<const std::byte> data_;
  SafetensorsHeader header_;
};

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> file, std::string_view what) {
  return SafetensorsParser(file, what).parse();
}

namespace {

// Each shard is an open file and a mapping, so their number is limited; the largest public models have fewer than 200.
constexpr size_t kMaxShards = 4096;

}  // namespace

Result<ShardIndex> parse_shard_index(std::string_view text, std::string_view what) {
  const std::string file(what);
  TRY_ASSIGN(const Json root, parse_json(text, what, {.max_depth = 8, .max_values = 1'000'000}));
  const auto map = root.is_object() ? root.find("weight_map") : root.end();
  if (map == root.end() || !map->is_object()) {
    return Status(ErrorCode::kBadHeader, file + ": has no object 'weight_map'");
  }
  std::map<std::string, std::vector<std::string>> by_file;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string()) {
      return Status(ErrorCode::kBadHeader, file + ": the shard of tensor " + in_quotes(tensor) + " is " +
                                               shard.type_name() + ", expected a string");
    }
    by_file[shard.get_ref<const std::string&>()].push_back(tensor);
    if (by_file.size() > kMaxShards) {
      return Status(ErrorCode::kLimitExceeded, file + ": names more than " + std::to_string(kMaxShards) + " shards");
    }
  }
  ShardIndex index;
  for (auto& [name, tensors] : by_file) {
    std::sort(tensors.begin(), tensors.end());
    index.shards.push_back({name, std::move(tensors)});
  }
  if (const auto metadata = root.find("metadata"); metadata != root.end() && metadata->is_object()) {
    const auto total = metadata->find("total_size");
    if (total != metadata->end() && total->is_number_unsigned()) index.total_bytes = total->get<uint64_t>();
  }
  return index;
}

}  // namespace ibid
