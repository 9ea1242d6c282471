// Safetensors checkpoints with an index and a config.json, built by a script: quantised by every supported method, with
// parts that are missing or inconsistent.
#include <string>
#include <vector>

#include "base/check.h"
#include "base/json_limits.h"
#include "tests/fuzz/memory_files.h"
#include "tests/fuzz/script.h"
#include "tests/support/touch_everything.h"
#include "tests/weights/safetensors_bytes.h"

namespace ibid::fuzz {

namespace {

constexpr std::string_view kMethods[] = {"gptq", "awq", "compressed-tensors", "fp8", "mxfp4", "bitsandbytes", ""};
constexpr std::string_view kSuffixes[] = {".weight",       ".qweight",       ".qzeros",       ".scales",
                                          ".g_idx",        ".weight_packed", ".weight_scale", ".weight_zero_point",
                                          ".weight_shape", "_blocks",        "_scales",       ".weight_scale_inv",
                                          ".bias",         "_scale",         ".weight_g_idx"};
constexpr std::string_view kTypeNames[] = {"F32",     "F16", "BF16", "I32", "U8",  "F8_E4M3",
                                           "F8_E5M2", "I64", "F64",  "I8",  "BOOL"};
constexpr size_t kTypeBytes[] = {4, 2, 2, 4, 1, 1, 1, 8, 8, 1, 1};
constexpr uint64_t kDims[] = {1, 2, 4, 8, 16, 32, 64, 0, 3, 128};

// Consistent parts of a matrix [n_out, n_in] in the layout of a method; the script changes some of them.
struct Part {
  std::string_view suffix, dtype;
  uint64_t rows, cols;
};

std::vector<Part> parts_of(size_t method, uint64_t n_in, uint64_t n_out, uint64_t group) {
  const uint64_t groups = std::max<uint64_t>(n_in / group, 1);
  switch (method) {
    case 0:
      return {{".qweight", "I32", n_in / 8, n_out},
              {".qzeros", "I32", groups, n_out / 8},
              {".scales", "F16", groups, n_out}};
    case 1:
      return {{".qweight", "I32", n_in, n_out / 8},
              {".qzeros", "I32", groups, n_out / 8},
              {".scales", "F16", groups, n_out}};
    case 2:
      return {{".weight_packed", "I32", n_out, n_in / 8},
              {".weight_scale", "BF16", n_out, groups},
              {".weight_zero_point", "I32", n_out / 8, groups}};
    case 3:
      return {{".weight", "F8_E4M3", n_out, n_in},
              {".weight_scale_inv", "F32", (n_out + 127) / 128, (n_in + 127) / 128}};
    case 4: return {{"_blocks", "U8", n_out, 16}, {"_scales", "U8", n_out, 1}};
    default: return {{".weight", "BF16", n_out, n_in}};
  }
}

std::string bytes_of(uint64_t n, Script& script) {
  std::string data = std::string(text_of(script.take(std::min<uint64_t>(n, 24))));
  const char fill = static_cast<char>(script.byte());
  data.resize(n, fill);
  return data;
}

SafetensorsPart stored(std::string_view name, Part part, Script& script) {
  size_t type = static_cast<size_t>(std::ranges::find(kTypeNames, part.dtype) - std::begin(kTypeNames));
  if (const uint8_t choice = script.byte(); choice >= 232) {
    if (choice % 4 == 0) part.suffix = script.pick(kSuffixes);
    if (choice % 4 == 1) type = script.below(std::size(kTypeNames));
    if (choice % 4 == 2) part.rows = script.pick(kDims);
    if (choice % 4 == 3) part.cols = script.pick(kDims);
  }
  const std::string shape = "[" + std::to_string(part.rows) + "," + std::to_string(part.cols) + "]";
  return {std::string(name) + std::string(part.suffix), std::string(kTypeNames[type]), shape,
          bytes_of(part.rows * part.cols * kTypeBytes[type], script)};
}

// Returns a config.json. Most fields are those that the method writes, and some are texts of the script.
std::string config_of(size_t method, uint64_t group, Script& script) {
  Json config = {{"model_type", "llama"}};
  Json quantization = {{"quant_method", kMethods[method]},
                       {"bits", 4},
                       {"group_size", group},
                       {"desc_act", script.flag()},
                       {"checkpoint_format", script.flag() ? "gptq_v2" : "gptq"},
                       {"version", "gemm"},
                       {"zero_point", true},
                       {"format", "pack-quantized"},
                       {"weight_block_size", {128, 128}}};
  if (const uint8_t choice = script.byte(); choice >= 200) {
    constexpr const char* kKeys[] = {"bits",
                                     "group_size",
                                     "weight_block_size",
                                     "format",
                                     "quant_method",
                                     "version",
                                     "checkpoint_format",
                                     "sym",
                                     "modules_to_not_convert",
                                     "config_groups"};
    const auto words = parse_json(script.text(40), "words");
    if (words.ok()) quantization[kKeys[choice % std::size(kKeys)]] = *words;
  }
  if (method + 1 < std::size(kMethods)) config["quantization_config"] = quantization;
  return json_to_string(config);
}

}  // namespace

void safetensors_directory(Input input) {
  static MemoryDirectory directory;  // removed when the process ends
  directory.clear();
  Script script(input);
  const size_t method = script.below(std::size(kMethods));
  const uint64_t n_in = 32 * (1 + script.below(2)), n_out = 8 * (1 + script.below(3)), group = 8u << script.below(4);
  directory.write("config.json", config_of(method, group, script));
  std::vector<SafetensorsPart> shards[2];
  Json index = {{"weight_map", Json::object()}};
  for (const std::string_view name : {"a.q_proj", "b.experts.down_proj"}) {
    for (const Part& part : parts_of(method, n_in, n_out, group)) {
      const uint8_t choice = script.byte();
      if (choice % 32 == 31) continue;
      const SafetensorsPart tensor = stored(name, part, script);
      index["weight_map"][tensor.name] = choice % 2 == 0 ? "m-1.safetensors" : "m-2.safetensors";
      shards[choice % 2].push_back(tensor);
    }
    if (script.byte() >= 192) shards[0].push_back(stored(name, {".g_idx", "I32", n_in, 1}, script));
  }
  const uint8_t broken = script.byte();
  if (broken == 250) index["weight_map"]["a"] = "../../etc/passwd";
  if (broken != 251) directory.write("m-1.safetensors", safetensors_bytes(shards[0]));
  if (broken != 252) directory.write("m-2.safetensors", safetensors_bytes(shards[1]));
  directory.write("model.safetensors.index.json", broken == 253 ? script.text() : json_to_string(index));
  const auto file = open_model_file(directory.path());
  if (!file.ok()) {
    CHECK(file.status().message().starts_with(directory.path())) << file.status().message();
    return;
  }
  (void)touch_everything(**file);
}

}  // namespace ibid::fuzz
