// Builds safetensors files for tests, valid or not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ibid {

// Returns a file whose header is `json`, followed by `data`.
inline std::string safetensors_bytes(std::string_view json, std::string_view data) {
  const uint64_t length = json.size();
  std::string out(reinterpret_cast<const char*>(&length), sizeof(length));
  return out.append(json).append(data);
}

struct SafetensorsPart {
  std::string name;
  std::string dtype;
  std::string shape;  // "[2, 3]"
  std::string data;
};

// Returns a valid file of `parts`, in order.
inline std::string safetensors_bytes(const std::vector<SafetensorsPart>& parts) {
  std::string json = R"({"__metadata__": {"format": "pt"})";
  std::string data;
  for (const SafetensorsPart& part : parts) {
    json += ", \"" + part.name + "\": {\"dtype\": \"" + part.dtype + "\", \"shape\": " + part.shape +
            ", \"data_offsets\": [" + std::to_string(data.size()) + ", ";
    data += part.data;
    json += std::to_string(data.size()) + "]}";
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  return safetensors_bytes(json, data);
}

}  // namespace ibid
