// The header of a safetensors file: raw bytes as the file, or as the JSON of a file with the correct length.
#include "weights/safetensors_header.h"

#include <set>
#include <string>

#include "base/check.h"
#include "tests/fuzz/script.h"

namespace ibid::fuzz {

namespace {

void check(std::span<const std::byte> file) {
  const auto header = parse_safetensors_header(file, "input");
  if (!header.ok()) {
    CHECK(header.status().message().starts_with("input")) << header.status().message();
    return;
  }
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const auto data = file.subspan(sizeof length + length);
  const std::byte* at = data.data();
  std::set<std::string> names;
  for (const SafetensorsTensor& tensor : header->tensors) {
    CHECK(tensor.view.data.empty() || tensor.view.data.data() == at)
        << tensor.name << " does not follow the previous tensor";
    CHECK_EQ(tensor.view.data.size(), tensor.view.bytes());
    CHECK(names.insert(tensor.name).second) << tensor.name;
    at += tensor.view.data.size();
  }
  CHECK(at == data.data() + data.size()) << "bytes that belong to no tensor";
}

}  // namespace

void safetensors_header(Input input) {
  Script script(input);
  const size_t n_data = script.byte();
  const std::string_view text = text_of(script.rest());
  const uint64_t length = text.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  file.append(text).append(n_data, '\1');
  check(std::as_bytes(std::span(file)));
  check(std::as_bytes(input));
}

}  // namespace ibid::fuzz
