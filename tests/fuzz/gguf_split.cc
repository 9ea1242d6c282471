// GGUF models of several files, built by a script: with parts that are missing, of other models or with wrong counts,
// and finally with changed bytes.
#include <string>
#include <vector>

#include "base/check.h"
#include "tests/fuzz/memory_files.h"
#include "tests/fuzz/script.h"
#include "tests/support/touch_everything.h"
#include "weights/gguf_writer.h"

namespace ibid::fuzz {

namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kQ4_0, DType::kQ8_0, DType::kMXFP4, DType::kI8};
constexpr uint64_t kNumbers[] = {0, 1, 2, 3, 4096, 4097, uint64_t{1} << 40, UINT64_MAX};

uint64_t near(uint64_t right, Script& script) {
  const uint8_t choice = script.byte();
  return choice < 200 ? right : choice < 230 ? right + 1 : kNumbers[choice % std::size(kNumbers)];
}

std::string part(size_t number, size_t n_parts, size_t n_tensors, Script& script) {
  GgufWriter writer;
  writer.add_u64("split.no", near(number, script));
  writer.add_u64("split.count", near(n_parts, script));
  if (script.byte() % 4 != 3)
    writer.add_u32("split.tensors.count", static_cast<uint32_t>(near(n_tensors * n_parts, script)));
  if (script.flag()) writer.add_string("general.name", script.text(20));
  for (size_t i = 0; i < n_tensors; ++i) {
    const DType dtype = script.pick(kTypes);
    const Shape shape{{1 + script.below(2), 32}, 2};
    const size_t name = near(number * n_tensors + i, script) % 64;
    const BlockSize block = dtype_block(dtype);
    std::vector<std::byte> data(shape.elements() / block.values * block.bytes, std::byte{script.byte()});
    writer.add_tensor("t" + std::to_string(name), dtype, shape, data);
  }
  std::string bytes = writer.bytes();
  if (const uint8_t n = script.byte(); n >= 224) {  // most files are not changed
    for (uint8_t i = 0; i < n % 8; ++i) {
      const size_t at = script.number<uint16_t>() % bytes.size();
      bytes[at] = static_cast<char>(script.byte());
    }
    if (script.byte() % 8 == 7) bytes.resize(1 + script.number<uint16_t>() % bytes.size());
  }
  return bytes;
}

std::string name_of(size_t number, size_t n_parts) {
  char text[64];
  std::snprintf(text, sizeof text, "m-%05zu-of-%05zu.gguf", number + 1, n_parts);
  return text;
}

}  // namespace

void gguf_split(Input input) {
  static MemoryDirectory directory;  // removed when the process ends
  directory.clear();
  Script script(input);
  const size_t n_parts = 1 + script.below(4), n_tensors = script.below(4), opened = script.below(n_parts);
  std::string path = directory.path() + "/" + name_of(opened, n_parts);
  for (size_t i = 0; i < n_parts; ++i) {
    const std::string bytes = part(i, n_parts, n_tensors, script);
    if (script.byte() % 32 != 31) directory.write(name_of(i, n_parts), bytes);
  }
  for (const bool vocabulary_only : {false, true}) {
    const auto file = open_model_file(path, {.vocabulary_only = vocabulary_only});
    if (file.ok()) {
      (void)touch_everything(**file);
      CHECK((*file)->check_unchanged().ok());
    } else {
      CHECK(file.status().message().starts_with(directory.path())) << file.status().message();
    }
  }
}

}  // namespace ibid::fuzz
