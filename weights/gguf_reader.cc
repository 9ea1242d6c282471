#include "weights/gguf_reader.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "base/json_limits.h"
#include "base/text.h"
#include "weights/assembled_tensors.h"

namespace ibid {

namespace {

constexpr uint64_t kShownElements = 8;

// REQUIRES: (index + 1) * sizeof(T) <= payload.size().
template <typename T>
T load(std::span<const std::byte> payload, uint64_t index) {
  T value;
  std::memcpy(&value, payload.data() + index * sizeof(T), sizeof(T));
  return value;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns the name of an entry's type: "U32", "ARRAY of STRING".
std::string type_text(const GgufEntry& entry) {
  std::string text(gguf_type_name(entry.type));
  if (entry.type == GgufType::kArray) text += " of " + std::string(gguf_type_name(entry.element_type));
  return text;
}

double real_at(const GgufEntry& entry, uint64_t index) {
  return entry.element_type == GgufType::kF32 ? static_cast<double>(load<float>(entry.payload, index))
                                              : load<double>(entry.payload, index);
}

// REQUIRES: the elements are numbers or bools.
std::string number_text(const GgufEntry& entry, uint64_t index) {
  switch (entry.element_type) {
    case GgufType::kU8: return std::to_string(load<uint8_t>(entry.payload, index));
    case GgufType::kI8: return std::to_string(load<int8_t>(entry.payload, index));
    case GgufType::kU16: return std::to_string(load<uint16_t>(entry.payload, index));
    case GgufType::kI16: return std::to_string(load<int16_t>(entry.payload, index));
    case GgufType::kU32: return std::to_string(load<uint32_t>(entry.payload, index));
    case GgufType::kI32: return std::to_string(load<int32_t>(entry.payload, index));
    case GgufType::kU64: return std::to_string(load<uint64_t>(entry.payload, index));
    case GgufType::kI64: return std::to_string(load<int64_t>(entry.payload, index));
    case GgufType::kBool: return load<uint8_t>(entry.payload, index) != 0 ? "true" : "false";
    default: return json_to_string(Json(real_at(entry, index)));  // the shortest text that parses to the same double
  }
}

std::string value_text(const GgufEntry& entry) {
  if (entry.type == GgufType::kString) return shown_value(text_of(entry.payload));
  if (entry.type != GgufType::kArray) return number_text(entry, 0);
  std::string text = "[";
  const uint64_t shown = std::min(entry.count, kShownElements);
  if (entry.element_type == GgufType::kString) {
    GgufEntry head = entry;
    head.count = shown;
    visit_gguf_strings(head, [&](std::string_view s) { text += (text.size() > 1 ? ", " : "") + in_quotes(s); });
  } else {
    for (uint64_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + number_text(entry, i);
  }
  return text + (entry.count > shown ? ", ... " + std::to_string(entry.count) + " in all]" : "]");
}

}  // namespace

Result<std::unique_ptr<ModelFile>> GgufFile::open(const std::string& path, const OpenOptions& options) {
  TRY_ASSIGN(MappedFile file, MappedFile::open(path));
  return open(std::move(file), options);
}

namespace {

Result<GgufHeader> read_header(const MappedFile& file, const OpenOptions& options) {
  Result<GgufHeader> header = parse_gguf_header(file.bytes(), file.path(), !options.vocabulary_only);
  // Check this first: if the file is still being written, header and data may not match, and "truncated" would mislead.
  TRY(file.check_unchanged());
  if (header.status().code() != ErrorCode::kTruncated) return header;
  return Status(ErrorCode::kTruncated, header.status().message() + "; the download may be incomplete");
}

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
}

// Opens part `number` of the split model that the part at `path` belongs to.
Result<MappedFile> open_part(const std::string& path, const GgufSplit& split, uint64_t number,
                             const OpenOptions& options) {
  TRY_ASSIGN(const std::string name, gguf_part_name(path, split, number));
  Result<MappedFile> file = MappedFile::open_in(directory_of(path), name, options.follow_symlinks);
  if (file.status().code() != ErrorCode::kNotFound) return file;
  return Status(ErrorCode::kMissingShard, path + ": is part " + std::to_string(split.number + 1) + " of " +
                                              std::to_string(split.count) + ", and part " + std::to_string(number + 1) +
                                              ", " + in_quotes(name) + ", is missing");
}

Status check_part(const GgufSplit& got, const GgufSplit& wanted, uint64_t number, const std::string& path) {
  if (got.number == number && got.count == wanted.count) return {};
  return {ErrorCode::kMissingShard, path + ": says that it is part " + std::to_string(got.number + 1) + " of " +
                                        std::to_string(got.count) + ", expected part " + std::to_string(number + 1) +
                                        " of " + std::to_string(wanted.count)};
}

}  // namespace

Result<std::unique_ptr<ModelFile>> GgufFile::open(MappedFile file, const OpenOptions& options) {
  const std::string path = file.path();
  TRY_ASSIGN(GgufHeader header, read_header(file, options));
  TRY_ASSIGN(GgufSplit split, read_gguf_split(header, path));
  if (split.number != 0) {
    TRY_ASSIGN(file, open_part(path, split, 0, options));
    TRY_ASSIGN(header, read_header(file, options));
    const GgufSplit named = split;
    TRY_ASSIGN(split, read_gguf_split(header, file.path()));
    TRY(check_part(split, named, 0, file.path()));
  }
  std::unique_ptr<GgufFile> model(new GgufFile(path, std::move(file), std::move(header)));
  if (split.count > 1 && !options.vocabulary_only) TRY(model->open_other_parts(split, options));
  model->index_names();
  TRY(model->assemble_tensors());
  return std::unique_ptr<ModelFile>(std::move(model));
}

GgufFile::GgufFile(std::string path, MappedFile file, GgufHeader header)
    : path_(std::move(path)), header_(std::move(header)) {
  files_.push_back(std::move(file));
}

Status GgufFile::open_other_parts(const GgufSplit& split, const OpenOptions& options) {
  const std::string first = files_[0].path();
  for (uint64_t number = 1; number < split.count; ++number) {
    TRY_ASSIGN(MappedFile file, open_part(first, split, number, options));
    TRY_ASSIGN(GgufHeader header, read_header(file, options));
    TRY_ASSIGN(const GgufSplit own, read_gguf_split(header, file.path()));
    TRY(check_part(own, split, number, file.path()));
    for (GgufTensorInfo& info : header.tensors) header_.tensors.push_back(std::move(info));
    for (std::string& warning : header.warnings) header_.warnings.push_back(std::move(warning));
    files_.push_back(std::move(file));
  }
  std::vector<std::string_view> names;
  for (const GgufTensorInfo& info : header_.tensors) names.push_back(info.name);
  std::sort(names.begin(), names.end());
  if (const auto twin = std::adjacent_find(names.begin(), names.end()); twin != names.end()) {
    return {ErrorCode::kDuplicate, first + ": tensor " + in_quotes(*twin) + " is in two parts"};
  }
  if (split.tensors_of_all && *split.tensors_of_all != names.size()) {
    return {ErrorCode::kTruncated, first + ": key 'split.tensors.count' is " + std::to_string(*split.tensors_of_all) +
                                       ", the parts have " + std::to_string(names.size()) + " tensors"};
  }
  return {};
}

void GgufFile::index_names() {
  const std::vector<GgufTensorInfo>& tensors = header_.tensors;
  names_.reserve(tensors.size());
  for (const GgufTensorInfo& info : tensors) names_.emplace_back(info.name);
  by_name_.resize(tensors.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return tensors[a].name < tensors[b].name; });
}

Status GgufFile::assemble_tensors() {
  const StoredTensors stored{&names_, [this](std::string_view name) { return find_tensor(name); }, path_};
  TRY_ASSIGN(std::vector<AssembledTensor> made, make_expanding_tensors(stored));
  std::ranges::sort(made, {}, &AssembledTensor::name);
  assembled_ = std::move(made);
  return {};
}

void GgufFile::release(const TensorView& tensor) const {
  const auto parts = tensor.source == nullptr ? std::vector{tensor.data} : tensor.source->parts();
  for (const std::span<const std::byte> part : parts) {
    for (const MappedFile& file : files_) file.release(part);
  }
}

Status GgufFile::check_unchanged() const {
  for (const MappedFile& file : files_) TRY(file.check_unchanged());
  return {};
}

uint64_t GgufFile::file_bytes() const {
  uint64_t bytes = 0;
  for (const MappedFile& file : files_) bytes += file.bytes().size();
  return bytes;
}

const TensorView* GgufFile::find_tensor(std::string_view name) const {
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [this](uint32_t i, std::string_view n) { return header_.tensors[i].name < n; });
  if (at != by_name_.end() && header_.tensors[*at].name == name) return &header_.tensors[*at].view;
  const auto whole = std::ranges::lower_bound(assembled_, name, {}, &AssembledTensor::name);
  return whole != assembled_.end() && whole->name == name ? &whole->view : nullptr;
}

Status GgufFile::wrong_type(const GgufEntry& entry, std::string_view wanted) const {
  return {ErrorCode::kBadType,
          path() + ": key " + in_quotes(entry.key) + " is " + type_text(entry) + ", expected " + std::string(wanted)};
}

// REQUIRES: the element type is an integer type or BOOL and index < count.
Result<int64_t> GgufFile::integer_at(const GgufEntry& entry, uint64_t index) const {
  switch (entry.element_type) {
    case GgufType::kBool:
    case GgufType::kU8: return int64_t{load<uint8_t>(entry.payload, index)};
    case GgufType::kI8: return int64_t{load<int8_t>(entry.payload, index)};
    case GgufType::kU16: return int64_t{load<uint16_t>(entry.payload, index)};
    case GgufType::kI16: return int64_t{load<int16_t>(entry.payload, index)};
    case GgufType::kU32: return int64_t{load<uint32_t>(entry.payload, index)};
    case GgufType::kI32: return int64_t{load<int32_t>(entry.payload, index)};
    case GgufType::kI64: return load<int64_t>(entry.payload, index);
    default: break;
  }
  const auto value = load<uint64_t>(entry.payload, index);
  if (const std::optional<int64_t> fits = checked_cast<int64_t>(value)) return *fits;
  return Status(ErrorCode::kBadNumber, path() + ": key " + in_quotes(entry.key) + " holds " + std::to_string(value) +
                                           ", more than 63 bits can hold");
}

Result<std::optional<int64_t>> GgufFile::get_int(std::string_view key) const {
  const GgufEntry* entry = header_.find(key);
  if (entry == nullptr) return std::optional<int64_t>();
  if (!gguf_type_is_integer(entry->type)) return wrong_type(*entry, "an integer");
  TRY_ASSIGN(const int64_t value, integer_at(*entry, 0));
  return std::optional(value);
}

Result<std::optional<double>> GgufFile::get_float(std::string_view key) const {
  const GgufEntry* entry = header_.find(key);
  if (entry == nullptr) return std::optional<double>();
  if (entry->type == GgufType::kF32 || entry->type == GgufType::kF64) return std::optional(real_at(*entry, 0));
  if (!gguf_type_is_integer(entry->type)) return wrong_type(*entry, "a number");
  TRY_ASSIGN(const int64_t value, integer_at(*entry, 0));
  return std::optional(static_cast<double>(value));
}

Result<std::optional<bool>> GgufFile::get_bool(std::string_view key) const {
  const GgufEntry* entry = header_.find(key);
  if (entry == nullptr) return std::optional<bool>();
  if (gguf_type_is_integer(entry->type)) {
    TRY_ASSIGN(const int64_t value, integer_at(*entry, 0));
    if (value == 0 || value == 1) return std::optional(value == 1);
  }
  if (entry->type != GgufType::kBool) return wrong_type(*entry, "BOOL");
  return std::optional(load<uint8_t>(entry->payload, 0) != 0);
}

Result<std::optional<std::string_view>> GgufFile::get_string(std::string_view key) const {
  const GgufEntry* entry = header_.find(key);
  if (entry == nullptr) return std::optional<std::string_view>();
  if (entry->type != GgufType::kString) return wrong_type(*entry, "STRING");
  return std::optional(text_of(entry->payload));
}

Result<std::optional<std::vector<std::string_view>>> GgufFile::get_strings(std::string_view key) const {
  const GgufEntry* entry = header_.find(key);
  if (entry == nullptr) return std::optional<std::vector<std::string_view>>();
  if (entry->type != GgufType::kArray || entry->element_type != GgufType::kString) {
    return wrong_type(*entry, "ARRAY of STRING");
  }
  std::vector<std::string_view> strings;
  strings.reserve(entry->count);
  visit_gguf_strings(*entry, [&](std::string_view s) { strings.push_back(s); });
  return std::optional(std::move(strings));
}

Result<std::optional<std::vector<int64_t>>> GgufFile::get_ints(std::string_view key) const {
  const GgufEntry* entry = header_.find(key);
  if (entry == nullptr) return std::optional<std::vector<int64_t>>();
  const bool whole = gguf_type_is_integer(entry->element_type) || entry->element_type == GgufType::kBool;
  if (entry->type != GgufType::kArray || !whole) return wrong_type(*entry, "ARRAY of integers");
  std::vector<int64_t> values;
  values.reserve(entry->count);
  for (uint64_t i = 0; i < entry->count; ++i) {
    TRY_ASSIGN(const int64_t value, integer_at(*entry, i));
    values.push_back(value);
  }
  return std::optional(std::move(values));
}

Result<std::optional<std::vector<double>>> GgufFile::get_floats(std::string_view key) const {
  const GgufEntry* entry = header_.find(key);
  if (entry == nullptr) return std::optional<std::vector<double>>();
  const bool real = entry->element_type == GgufType::kF32 || entry->element_type == GgufType::kF64;
  if (entry->type != GgufType::kArray || !real) return wrong_type(*entry, "ARRAY of F32");
  std::vector<double> values;
  values.reserve(entry->count);
  for (uint64_t i = 0; i < entry->count; ++i) values.push_back(real_at(*entry, i));
  return std::optional(std::move(values));
}

Result<std::optional<std::string>> GgufFile::companion(std::string_view name) const {
  if (name != "tokenizer.json") return std::optional<std::string>();
  TRY_ASSIGN(const std::optional<std::string_view> text, get_string("tokenizer.huggingface.json"));
  if (!text) return std::optional<std::string>();
  return std::optional(std::string(*text));
}

std::vector<ModelFile::MetadataLine> GgufFile::describe_metadata() const {
  std::vector<MetadataLine> lines;
  lines.reserve(header_.entries.size());
  for (const GgufEntry& entry : header_.entries) {
    lines.push_back({std::string(entry.key), type_text(entry), value_text(entry)});
  }
  return lines;
}

const std::vector<GgufEntry>& gguf_entries(const ModelFile& file) {
  CHECK(file.container() == Container::kGguf);
  return static_cast<const GgufFile&>(file).entries();
}

namespace {

// Returns the number stored under the key, or nullopt if the key is absent.
Result<std::optional<uint64_t>> number_at(const GgufHeader& header, std::string_view key, std::string_view what) {
  const GgufEntry* entry = header.find(key);
  if (entry == nullptr) return std::optional<uint64_t>();
  const std::string field = std::string(what) + ": key " + in_quotes(key);
  if (!gguf_type_is_integer(entry->type)) {
    return Status(ErrorCode::kBadType,
                  field + " is " + std::string(gguf_type_name(entry->type)) + ", expected an integer");
  }
  uint64_t value = 0;
  std::memcpy(&value, entry->payload.data(), entry->payload.size());
  return std::optional(value);
}

// Returns the end of a part's file name: "-00001-of-00003.gguf" for part 0 of 3, because file names count from 1.
std::string suffix(uint64_t number, uint64_t count) {
  return "-" + padded_number(number + 1, 5) + "-of-" + padded_number(count, 5) + ".gguf";
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
                                             (number ? std::to_string(*number) : "missing") + ", expected 0 to " +
                                             std::to_string(*count - 1));
  }
  split.number = *number;
  split.count = *count;
  return split;
}

Result<std::string> gguf_part_name(std::string_view path, const GgufSplit& split, uint64_t number) {
  const std::string_view name = path.substr(path.rfind('/') + 1);  // a path without '/' is kept whole: npos + 1 is 0
  const std::string own = suffix(split.number, split.count);
  if (!name.ends_with(own)) {
    return Status(ErrorCode::kMissingShard, std::string(path) + ": is part " + std::to_string(split.number + 1) +
                                                " of " + std::to_string(split.count) +
                                                ", and its name does not end in " + in_quotes(own) +
                                                ", so the other parts cannot be found");
  }
  return std::string(name.substr(0, name.size() - own.size())) + suffix(number, split.count);
}

}  // namespace ibid
