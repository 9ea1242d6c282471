#include "weights/safetensors_writer.h"

#include <cstring>
#include <fstream>

#include "base/json_limits.h"

namespace ibid {

Status write_safetensors(const std::string& path, std::span<const NamedTensor> tensors) {
  Json header = Json::object();
  size_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    const Shape& shape = tensor.view.shape;
    const auto end = shape.dims.begin() + static_cast<std::ptrdiff_t>(shape.rank);
    const std::vector<uint64_t> dims(shape.dims.begin(), end);
    header[tensor.name] = {{"dtype", std::string(dtype_name(tensor.view.dtype))},
                           {"shape", dims},
                           {"data_offsets", {offset, offset + tensor.view.data.size()}}};
    offset += tensor.view.data.size();
  }
  std::string text = json_to_string(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // pads the header, so that the data are aligned to 8 bytes

  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const uint64_t length = text.size();
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  for (const NamedTensor& tensor : tensors) {
    file.write(reinterpret_cast<const char*>(tensor.view.data.data()),
               static_cast<std::streamsize>(tensor.view.data.size()));
  }
  file.close();
  if (!file) return {ErrorCode::kIo, path + ": cannot be written"};
  return {};
}

}  // namespace ibid
