#include "weights/gguf_split.h"

#include <cstdio>
#include <cstring>

#include "weights/in_quotes.h"

namespace ibid {

namespace {

// nullopt: the key is not there.
Result<std::optional<uint64_t>> number_at(const GgufHeader& header, std::string_view key, std::string_view what) {
  const GgufEntry* entry = header.find(key);
  if (entry == nullptr) return std::optional<uint64_t>();
  const std::string field = std::string(what) + ": key " + in_quotes(key);
  if (!gguf_type_is_integer(entry->type)) {
    return Status(ErrorCode::kBadType,
                  field + " is " + std::string(gguf_type_name(entry->type)) + ", wanted an integer");
  }
  uint64_t value = 0;
  std::memcpy(&value, entry->payload.data(), entry->payload.size());
  return std::optional(value);
}

// "-00001-of-00003.gguf"; numbers in names count from 1.
std::string suffix(uint64_t number, uint64_t count) {
  char text[48];
  std::snprintf(text, sizeof text, "-%05llu-of-%05llu.gguf", static_cast<unsigned long long>(number + 1),
                static_cast<unsigned long long>(count));
  return text;
}

}  // namespace

Result<GgufSplit> read_gguf_split(const GgufHeader& header, std::string_view what) {
  GgufSplit split;
  TRY_ASSIGN(const std::optional<uint64_t> count, number_at(header, "split.count", what));
  if (!count || *count <= 1) return split;
  TRY_ASSIGN(const std::optional<uint64_t> number, number_at(header, "split.no", what));
  TRY_ASSIGN(split.tensors_of_all, number_at(header, "split.tensors.count", what));
  if (*count > kMaxGgufParts) {
    return Status(ErrorCode::kLimitExceeded, std::string(what) + ": key 'split.count' is " + std::to_string(*count) +
                                                 ", at most " + std::to_string(kMaxGgufParts) + " are supported");
  }
  if (!number || *number >= *count) {
    return Status(ErrorCode::kBadNumber, std::string(what) + ": key 'split.no' is " +
                                             (number ? std::to_string(*number) : "missing") + ", wanted 0 to " +
                                             std::to_string(*count - 1));
  }
  split.number = *number;
  split.count = *count;
  return split;
}

Result<std::string> gguf_part_name(std::string_view path, const GgufSplit& split, uint64_t number) {
  const std::string_view name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  const std::string own = suffix(split.number, split.count);
  if (!name.ends_with(own)) {
    return Status(ErrorCode::kMissingShard,
                  std::string(path) + ": is part " + std::to_string(split.number + 1) + " of " +
                      std::to_string(split.count) + ", and its name does not end in " + in_quotes(own) +
                      ", so the other parts cannot be found");
  }
  return std::string(name.substr(0, name.size() - own.size())) + suffix(number, split.count);
}

}  // namespace ibid
