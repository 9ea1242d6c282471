#include "tests/support/touch_everything.h"

#include <numeric>
#include <vector>

#include "weights/block_formats.h"

namespace ibid {

namespace {

template <typename T>
uint64_t count_of(const Result<std::optional<T>>& result) {
  return result.ok() && result.value().has_value() ? 1 : 0;
}

// Returns all rows of a tensor that is assembled when it is read.
std::vector<std::byte> all_rows(const TensorView& view) {
  std::vector<uint64_t> rows(view.row_bytes() == 0 ? 0 : view.bytes() / view.row_bytes());
  std::iota(rows.begin(), rows.end(), view.first_row);
  std::vector<std::byte> bytes(view.bytes());
  view.source->read_rows(rows, bytes.data());
  return bytes;
}

}  // namespace

uint64_t touch_everything(const ModelFile& file) {
  uint64_t sum = 0;
  for (const ModelFile::MetadataLine& line : file.describe_metadata()) {
    sum += line.value.size() + count_of(file.get_int(line.key)) + count_of(file.get_float(line.key)) +
           count_of(file.get_bool(line.key)) + count_of(file.get_ints(line.key)) + count_of(file.get_floats(line.key));
    if (const auto text = file.get_string(line.key); text.ok() && *text) {
      for (const char c : **text) sum += static_cast<unsigned char>(c);
    }
    if (const auto texts = file.get_strings(line.key); texts.ok() && *texts) {
      for (const std::string_view text : **texts) {
        for (const char c : text) sum += static_cast<unsigned char>(c);
      }
    }
  }
  for (const std::string& name : file.tensor_names()) {
    const TensorView& view = *file.find_tensor(name);
    const std::vector<std::byte> made = view.source == nullptr ? std::vector<std::byte>() : all_rows(view);
    const std::span<const std::byte> data = view.source == nullptr ? view.data : made;
    for (const std::byte byte : data) sum += static_cast<uint64_t>(byte);
    if (!can_dequantize(view.dtype)) continue;
    std::vector<float> values(view.shape.elements());
    dequantize_row(view.dtype, data, values);
  }
  return sum;
}

}  // namespace ibid
